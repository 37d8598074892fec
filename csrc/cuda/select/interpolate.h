// Interpolation between the values that were selected.
#pragma once

#include "core/ranks.h"
#include "cuda/launch.h"

namespace histo::cuda {

/// Whether `interpolate` knows the type.
bool can_interpolate(ElementType type);

/// Fills `result`, [num_q, channels], from what `select` wrote, with the bits of torch.lerp. It has
/// the type of the data, or doubles if that is an integer.
void interpolate(const Selection& selection, void* result, const Launch& launch);

} // namespace histo::cuda
