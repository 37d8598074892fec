// The loops over the elements of a tensor.
#include <algorithm>
#include <iterator>

#include "torch/arguments.h"

namespace histo {
namespace {

/// Merges neighbours that one loop can walk, and drops loops of one step.
std::vector<Extent> merged(const std::vector<Extent>& loops) {
  std::vector<Extent> result;
  for (const Extent& loop : loops) {
    if (loop.size == 1) {
      continue;
    }
    if (!result.empty() && result.back().stride == loop.size * loop.stride) {
      result.back() = {result.back().size * loop.size, loop.stride};
    } else {
      result.push_back(loop);
    }
  }
  return result;
}

struct Loops {
  std::vector<Extent> channels;
  std::vector<Extent> rows;
};

Loops loops_of(const std::vector<Extent>& dimensions, const std::vector<int64_t>& kept) {
  Loops loops;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const bool keep = std::find(kept.begin(), kept.end(), static_cast<int64_t>(d)) != kept.end();
    (keep ? loops.channels : loops.rows).push_back(dimensions[d]);
  }
  // Counting has no order, so rows may be walked in any: the order of memory.
  std::stable_sort(loops.rows.begin(), loops.rows.end(), [](const Extent& a, const Extent& b) {
    return a.stride > b.stride;
  });
  return {merged(loops.channels), merged(loops.rows)};
}

} // namespace

Problem loops_as_problem(
    const std::vector<Extent>& dimensions, const Checked& checked, int64_t num_bins, bool& copies) {
  int64_t channels = 1, elements = 1;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    elements *= dimensions[d].size;
  }
  for (int64_t d : checked.kept) {
    channels *= dimensions[static_cast<size_t>(d)].size;
  }
  Problem problem{};
  problem.type = checked.element;
  problem.num_bins = num_bins;
  if (elements == 0) {
    problem.channels[0] = problem.rows[0] = problem.rows[1] = {1, 0};
    problem.channels[1] = {channels, 0};
    problem.rows[2] = {0, 0};
    copies = false;
    return problem;
  }
  Loops loops = loops_of(dimensions, checked.kept);
  copies = loops.channels.size() > std::size(problem.channels) ||
           loops.rows.size() > std::size(problem.rows);
  if (copies) {
    const int64_t rows = elements / channels;
    loops = {{{channels, rows}}, {{rows, 1}}};
  }
  const auto nest = [](const std::vector<Extent>& from, auto& to) {
    std::fill(std::begin(to), std::end(to), Extent{1, 0});
    std::copy(from.begin(), from.end(), std::end(to) - static_cast<ptrdiff_t>(from.size()));
  };
  nest(loops.channels, problem.channels);
  nest(loops.rows, problem.rows);
  return problem;
}

} // namespace histo
