// Kernels with one mistake each, which the checks must find.
#pragma once

#include <string>

#include "cuda/launch.h"

namespace emulated {

void start_broken(
    const std::string& name,
    const histo::cuda::Launch& launch,
    const uint8_t* input,
    unsigned long long* counts);

} // namespace emulated
