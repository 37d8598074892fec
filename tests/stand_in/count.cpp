// Counts by matrix products and by bit planes, without the instructions that they need.
#include <vector>

#include "cpu/count/bit_planes.h"
#include "cpu/count/matrix_products.h"
#include "cpu/processor.h"

using namespace histo::cpu;

// The engine asks for it; here nobody does.
bool histo::cpu::has_avx512() {
  return false;
}

namespace {

template <class T>
T* aligned(std::vector<T>& memory, int64_t size) {
  constexpr auto kLine = static_cast<uintptr_t>(tuning::kLineBytes);
  memory.assign(static_cast<size_t>(size) + kLine / sizeof(T), T{});
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  return reinterpret_cast<T*>((begin + kLine - 1) / kLine * kLine);
}

} // namespace

/// Bytes of one channel.
extern "C" void count_stream(const uint8_t* data, int64_t size, int64_t* counts) {
  std::vector<uint32_t> memory;
  uint32_t* sums = aligned(memory, kProducts * kSums);
  add_products(data, size, sums);
  uint32_t found[256];
  counts_of_products(sums, kProducts, found);
  for (int value = 0; value < 256; ++value) {
    counts[value] = found[value];
  }
}

/// Rows of columns, to `[columns, num_bins]` counts of the values below num_bins.
extern "C" void count_columns(
    const uint8_t* data,
    int64_t columns,
    int64_t rows,
    int64_t stride,
    int64_t num_bins,
    bool add,
    bool past_caches,
    int64_t* counts) {
  std::vector<uint32_t> memory;
  std::vector<char> scratch_memory;
  char* scratch = aligned(scratch_memory, kProductScratchBytes);
  uint32_t* sums = aligned(memory, (columns + kProductColumns) * kSums);
  for (int64_t row = 0; row < rows; row += tuning::kProductRows) {
    const int64_t size = std::min(tuning::kProductRows, rows - row);
    const uint8_t* first = data + row * stride;
    const Ahead ahead{reinterpret_cast<const char*>(first), stride};
    add_column_products({first, columns, size, stride, rows - row}, ahead, scratch, sums);
  }
  put_column_products(sums, {counts, num_bins, columns, num_bins, add, past_caches});
}

/// The same by bit planes.
extern "C" void count_planes_of_bits(
    const uint8_t* data,
    int64_t columns,
    int64_t rows,
    int64_t stride,
    int64_t num_bins,
    bool add,
    bool past_caches,
    int64_t* counts) {
  std::vector<int64_t> memory;
  std::vector<char> scratch_memory;
  char* scratch = aligned(scratch_memory, kPlaneScratchBytes);
  const int64_t table_size = 256 * kPlaneColumns;
  const int64_t groups = (columns + kPlaneColumns - 1) / kPlaneColumns;
  int64_t* tables = aligned(memory, groups * table_size);
  for (int64_t row = 0; row < rows; row += tuning::kPlaneRows) {
    const int64_t size = std::min(tuning::kPlaneRows, rows - row);
    const uint8_t* first = data + row * stride;
    Ahead ahead{reinterpret_cast<const char*>(first), stride};
    count_bit_planes(
        {first, columns, size, stride, rows - row}, ahead, scratch, tables, table_size);
  }
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t first = group * kPlaneColumns;
    const int64_t size = std::min(kPlaneColumns, columns - first);
    put_bit_planes(
        tables + group * table_size,
        {counts + first * num_bins, num_bins, size, num_bins, add, past_caches});
  }
}
