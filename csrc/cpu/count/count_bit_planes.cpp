// Columns of bytes, counted as planes of bits (bit_planes.h).
#include <algorithm>

#include "cpu/count/bit_planes.h"
#include "cpu/count/strips.h"
#include "cpu/count/tables.h"

namespace histo::cpu {
namespace {

using namespace tuning;

class BitPlaneColumns {
 public:
  using Pattern = uint8_t;

  BitPlaneColumns(const CpuPlan& plan, Result& result, char* scratch)
      : result_(result),
        tables_(plan.tables_if_distinct, scratch),
        tile_(scratch + plan.table_bytes) {
  }

  void count(const InputPanel<uint8_t>& panel, const uint8_t* next) {
    const int64_t columns = panel.channels.size;
    const Extent& rows = panel.rows;
    const int64_t blocks = ceil_div(rows.size, kPlaneBlockRows);
    const int64_t tiles = ceil_div(rows.size, kPlaneRows);
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t row = cut(blocks, i, tiles) * kPlaneBlockRows;
      const int64_t end = std::min(cut(blocks, i + 1, tiles) * kPlaneBlockRows, rows.size);
      Ahead ahead = rows_after(panel, end, next);
      count_bit_planes(
          {panel.from(row).data, columns, end - row, rows.stride, rows.size - row}, ahead, tile_,
          tables_.at(), tables_.table_size());
    }
  }

  void reduce() {
    tables_.reduce([&] { result_.locked([&] { put_groups(); }); });
  }

 private:
  using PlaneShape = CounterShape<1, 1, 1, 1>;

  void put_groups() const {
    const int64_t* table = tables_.counts();
    const int64_t channels = result_.num_channels();
    for (int64_t first = 0; first < channels; first += kPlaneColumns) {
      const int64_t columns = std::min(kPlaneColumns, channels - first);
      put_bit_planes(table, result_.own_bins_of(first, columns, result_.is_past_caches()));
      for (int64_t i = 0; i < columns; ++i) {
        result_.put_rest(first + i, [=](int64_t byte) { return table[byte * kPlaneColumns + i]; });
      }
      table += tables_.table_size();
    }
  }

  Result& result_;
  CounterTables<int64_t, PlaneShape> tables_;
  char* tile_;
};

} // namespace

void count_bit_plane_columns(const Job& job, int64_t worker) {
  count_strips<BitPlaneColumns>(job, worker);
}

} // namespace histo::cpu
