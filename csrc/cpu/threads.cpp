#include "cpu/threads.h"

#include <pthread.h>

#include <algorithm>

#include "cpu/tuning.h"

namespace histo::cpu {
namespace {

// The threads of a parent do not live in its child, and their pool would wait for them.
bool in_forked_child = false;
[[maybe_unused]] const int watches_forks =
    pthread_atfork(nullptr, nullptr, [] { in_forked_child = true; });

} // namespace

int64_t num_threads() {
  return in_forked_child ? 1 : static_cast<int64_t>(torch::stable::get_num_threads());
}

void fill_zero(int64_t* counts, int64_t size) {
  parallel_for(size, tuning::kMinCountersPerTask, [&](int64_t begin, int64_t end) {
    std::fill(counts + begin, counts + end, 0);
  });
}

} // namespace histo::cpu
