// Bytes counted by products of matrices (matrix_products.h): long channels, and columns.
#include <algorithm>

#include "cpu/count/matrix_products.h"
#include "cpu/count/streams.h"
#include "cpu/count/strips.h"

namespace histo::cpu {
namespace {

using namespace tuning;

using ProductSums = CounterTables<uint32_t, CounterShape<1, 1, 1, 1>>;

class ProductStreams {
 public:
  using Pattern = uint8_t;

  ProductStreams(const CpuPlan& plan, Result& result, char* scratch)
      : result_(result), sums_(plan.tables_if_distinct, scratch, plan.strip, plan.channel_bytes()) {
  }

  void count(const InputPanel<uint8_t>& panel, const uint8_t*) {
    const StreamChunks chunks(panel, kProducts * kMaxProductBytes, kAheadBytes);
    int64_t size = 0;
    for (InputPanel<uint8_t> rest = panel; rest.rows.size > 0; rest = rest.from(size)) {
      size = chunks.size(rest);
      const int64_t of_sum = ceil_div(size, kProducts * kLineBytes) * kLineBytes;
      sums_.reserve(of_sum, [&] { put_sums(); }, kMaxProductBytes);
      for_each_stream(rest.first(size), [&](const Stream<uint8_t>& stream, int64_t channel) {
        add_products(stream.data, stream.size, sums_.at(channel));
      });
    }
  }

  void reduce() {
    sums_.reduce([&] { put_sums(); });
  }

 private:
  void put_sums() {
    result_.locked([&] {
      for (int64_t channel = 0; channel < result_.num_channels(); ++channel) {
        uint32_t counts[256];
        counts_of_products(sums_.counts(channel), kProducts, counts);
        put_bytes(counts, channel, result_);
      }
    });
  }

  Result& result_;
  ProductSums sums_;
};

class ProductColumns {
 public:
  using Pattern = uint8_t;

  ProductColumns(const CpuPlan& plan, Result& result, char* scratch)
      : result_(result),
        sums_(plan.tables_if_distinct, scratch),
        tile_(scratch + plan.table_bytes) {
  }

  void count(const InputPanel<uint8_t>& panel, const uint8_t* next) {
    const int64_t columns = panel.channels.size;
    const Extent& rows = panel.rows;
    const int64_t turns = ceil_div(rows.size, kProductTurnRows);
    const int64_t tiles =
        ceil_div(rows.size, are_far(rows.stride) ? kFarProductRows : kProductRows);
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t row = cut(turns, i, tiles) * kProductTurnRows;
      const int64_t end = std::min(cut(turns, i + 1, tiles) * kProductTurnRows, rows.size);
      sums_.reserve(end - row, [&] { put_sums(); }, kMaxProductBytes);
      add_column_products(
          {panel.from(row).data, columns, end - row, rows.stride, rows.size - row},
          rows_after(panel, end, next), tile_, sums_.at());
    }
  }

  void reduce() {
    sums_.reduce([&] { put_sums(); });
  }

 private:
  void put_sums() {
    result_.locked([&] {
      const int64_t channels = result_.num_channels();
      const bool past_caches = result_.is_past_caches() && !result_.is_in_huge_pages();
      put_column_products(sums_.counts(), result_.own_bins_of(0, channels, past_caches));
      for (int64_t channel = 0; result_.has_rest() && channel < channels; ++channel) {
        uint32_t counts[256];
        counts_of_products(sums_.counts() + channel * kSums, 1, counts);
        result_.put_rest(channel, [&](int64_t byte) { return int64_t{counts[byte]}; });
      }
    });
  }

  Result& result_;
  ProductSums sums_;
  char* tile_;
};

} // namespace

void count_product_streams(const Job& job, int64_t worker) {
  count_strips<ProductStreams>(job, worker);
}

void count_product_columns(const Job& job, int64_t worker) {
  count_strips<ProductColumns>(job, worker);
}

} // namespace histo::cpu
