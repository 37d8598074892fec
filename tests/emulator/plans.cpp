// For each line of standard input, a problem, the address of its data and a GPU (input.h), one of
// standard output: the path of its plan, and what is wrong with the plan, behind a colon.
#include <string>

#include "emulator/input.h"
#include "emulator/invariants.h"

int main() {
  using namespace histo;
  while (std::cin >> std::ws && !std::cin.eof()) {
    bool copies = false;
    Problem problem = read_problem(copies);
    const auto address = read<uintptr_t>();
    problem.data = reinterpret_cast<const void*>(copies ? 0 : address);
    const cuda::DeviceLimits limits = read_limits();
    const cuda::CountPlan plan = cuda::make_plan(
        problem, cuda::entries_of(problem, byte_axis(problem.type, ValueBinning{problem.num_bins})),
        limits);
    std::cout << path_of(plan) << ':' << violations(problem, plan, limits) << std::endl;
  }
}
