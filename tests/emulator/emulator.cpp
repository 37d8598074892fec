// Counts one problem of standard input as the engine would on a GPU of the given limits.
//
// A line with the element type, the bins, the extents and strides of channels and rows (outer,
// inner), the bytes of the data, how far behind an aligned address they begin, and the GPU's SMs and
// shared memory of a block and of an SM; then the data. On standard output the names of the kernels
// on a line, and the counts.
#include "emulator.h"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <vector>

#include "cuda/columns.h"
#include "cuda/rows.h"
#include "cuda/strided.h"

namespace emulated {
namespace {

constexpr int kPoison = 0xa5;
constexpr size_t kStackBytes = 64 << 10;

struct Release {
  void operator()(void* memory) const {
    std::free(memory);
  }
};
using Memory = std::unique_ptr<void, Release>;

Memory allocate(size_t bytes, size_t alignment) {
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes) != 0) {
    throw std::bad_alloc();
  }
  std::memset(memory, kPoison, bytes);
  return Memory(memory);
}

enum class Waits { kNot, kForWarp, kForBlock, kForever };

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  Waits waits = Waits::kNot;
  uint32_t given = 0;
};

std::vector<Fiber> fibers;
unsigned running;
ucontext_t scheduler;
Memory shared;
const std::function<void()>* body;

void run_thread() {
  (*body)();
  fibers[running].waits = Waits::kForever;
  swapcontext(&fibers[running].context, &scheduler);
}

void wait(Waits waits) {
  fibers[running].waits = waits;
  const unsigned self = running;
  swapcontext(&fibers[self].context, &scheduler);
}

/// Lets threads [begin, end) go on if all of them that are left wait for the same.
bool release(unsigned begin, unsigned end, Waits waits) {
  bool any = false;
  for (unsigned i = begin; i < end; ++i) {
    if (fibers[i].waits != waits && fibers[i].waits != Waits::kForever) {
      return false;
    }
    any |= fibers[i].waits == waits;
  }
  for (unsigned i = begin; i < end; ++i) {
    if (fibers[i].waits == waits) {
      fibers[i].waits = Waits::kNot;
    }
  }
  return any;
}

void run_block(unsigned count) {
  while (fibers.size() < count) {
    fibers.emplace_back();
  }
  for (unsigned i = 0; i < count; ++i) {
    Fiber& fiber = fibers[i];
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, run_thread, 0);
    fiber.waits = Waits::kNot;
  }
  // Every other block runs its threads backwards: who relies on an order is found out.
  for (bool backwards = blockIdx.x % 2 != 0, any = true; any;) {
    for (unsigned i = 0; i < count; ++i) {
      running = backwards ? count - 1 - i : i;
      if (fibers[running].waits == Waits::kNot) {
        threadIdx = {running, 0, 0};
        swapcontext(&scheduler, &fibers[running].context);
      }
    }
    any = release(0, count, Waits::kForBlock);
    for (unsigned i = 0; i < count; i += 32) {
      any |= release(i, i + 32, Waits::kForWarp);
    }
  }
  for (unsigned i = 0; i < count; ++i) {
    if (fibers[i].waits != Waits::kForever) {
      throw std::logic_error("threads wait for each other forever");
    }
  }
}

} // namespace

void* dynamic_shared() {
  return shared.get();
}

void wait_for_block() {
  wait(Waits::kForBlock);
}

uint32_t exchange(unsigned mask, uint32_t value, int source) {
  if ((mask & (mask - 1)) == 0) {
    return value;
  }
  const unsigned first = running / 32 * 32;
  fibers[running].given = value;
  wait(Waits::kForWarp);
  const uint32_t taken = fibers[first + static_cast<unsigned>(source)].given;
  wait(Waits::kForWarp);
  return taken;
}

void launch(const cudaLaunchConfig_t& config, const std::function<void()>& kernel) {
  blockDim = config.blockDim;
  gridDim = config.gridDim;
  body = &kernel;
  for (unsigned z = 0; z < gridDim.z; ++z) {
    for (unsigned y = 0; y < gridDim.y; ++y) {
      for (unsigned x = 0; x < gridDim.x; ++x) {
        blockIdx = {x, y, z};
        shared = allocate(config.dynamicSmemBytes, 1024);
        run_block(blockDim.x);
      }
    }
  }
}

} // namespace emulated

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "an error that is not emulated";
}

int main() {
  using namespace histo;
  int type = 0;
  Problem problem{};
  size_t bytes = 0, offset = 0;
  cuda::DeviceLimits limits{};
  limits.l2_bytes = 1 << 20;
  limits.capability = 80; // clusters are not emulated
  std::cin >> type >> problem.num_bins;
  for (auto* loops : {problem.channels, problem.rows}) {
    std::cin >> loops[0].size >> loops[0].stride >> loops[1].size >> loops[1].stride;
  }
  std::cin >> bytes >> offset >> limits.sm_count >> limits.shared_per_block >> limits.shared_per_sm;
  std::cin.get();
  const emulated::Memory data = emulated::allocate(offset + bytes, 256);
  std::cin.read(static_cast<char*>(data.get()) + offset, static_cast<std::streamsize>(bytes));
  if (!std::cin) {
    std::cerr << "the problem is cut off\n";
    return 2;
  }
  const size_t size = static_cast<size_t>(problem.num_counts()) * sizeof(int64_t);
  const emulated::Memory counts = emulated::allocate(size, 256);
  problem.type = static_cast<ElementType>(type);
  problem.data = static_cast<const char*>(data.get()) + offset;
  problem.counts = static_cast<int64_t*>(counts.get());

  emulated::Memory workspace;
  const cuda::Launch launch{nullptr, limits, [&](int64_t wanted) {
                              workspace = emulated::allocate(static_cast<size_t>(wanted), 512);
                              return workspace.get();
                            }};
  const ValueBinning binning{problem.num_bins};
  const cuda::Plan plan = cuda::make_plan(problem, binning, limits);
  const char* kernels = nullptr;
  if (const auto* columns = std::get_if<cuda::Columns>(&plan.layout)) {
    const bool folds = plan.fold_blocks > 0;
    if (columns->whole_rows) {
      kernels = folds ? "count_rows, fold_rows" : "count_rows";
      cuda::count_rows(plan, problem, launch);
    } else {
      kernels = folds ? "count_columns, fold_columns" : "count_columns";
      cuda::count_columns(plan, problem, binning, launch);
    }
  } else if (std::holds_alternative<cuda::Tiles>(plan.layout)) {
    kernels = "count_strided";
    cuda::count_strided(plan, problem, binning, launch);
  } else {
    std::cerr << "the blocks of exchange.cu wait for each other, which is not emulated\n";
    return 2;
  }
  std::printf("%s\n", kernels);
  std::fwrite(counts.get(), 1, size, stdout);
}
