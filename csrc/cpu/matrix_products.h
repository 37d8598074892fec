// Bytes counted by multiplying matrices, on processors that do (Intel's AMX). Of 64 bytes one matrix
// has in row h a 1 where the upper half is h, and the other in column n the lesser of n + 1 and the
// lower half + 1. Their product has a sum for each h and n, and differences of these sums are counts.
// It takes the same time whatever the bytes are.
#pragma once

#include <cstdint>

namespace histo::cpu {

/// So many products are under way, each added to sums of its own.
constexpr int64_t kProducts = 4;
constexpr int64_t kSums = 256; // [h][n]

/// Adds to sums [kProducts][kSums], which are exact modulo 2^32. Needs has_amx().
void add_products(const uint8_t* data, int64_t size, uint32_t* sums);

/// Counts of bytes, [256].
void counts_of_products(const uint32_t* sums, uint32_t* counts);

} // namespace histo::cpu
