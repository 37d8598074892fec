// Zeroing the counts before they are added to.
#pragma once

#include "launch.h"

namespace histo::cuda {

/// In a kernel that the next one overlaps, where it can; that one waits for it itself.
void clear(const Launch& launch, const Problem& problem, bool overlaps);

} // namespace histo::cuda
