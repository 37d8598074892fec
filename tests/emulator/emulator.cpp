// Counts one problem of standard input as the engine would on a GPU of the given limits.
//
// A line with the element type, the bins, the extents and strides of channels and rows (outer,
// inner), the bytes of the data, how far behind an aligned address they begin, and the GPU's SMs,
// shared memory of a block and of an SM, and capability; then the data. On standard output the names
// of the kernels on a line, and the counts.
#include "emulator.h"

#include <ucontext.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/engine.h"
#include "cuda/exchange.h"

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

enum class Waits { kNot, kForWarp, kForBlock, kForCluster, kForever };

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  Waits waits = Waits::kNot;
  uint32_t given = 0;
};

struct Block {
  uint3 index;
  Memory shared;
  std::map<unsigned, Memory> declared; // by key
};

std::vector<Fiber> fibers; // of a cluster, block after block
std::vector<Block> cluster;
unsigned running;
ucontext_t scheduler;
const std::function<void()>* body;
std::vector<std::string> launched; // kernels

unsigned rank_of(unsigned fiber) {
  return fiber / blockDim.x;
}

void run_thread() {
  (*body)();
  fibers[running].waits = Waits::kForever;
  swapcontext(&fibers[running].context, &scheduler);
}

void wait(Waits waits) {
  fibers[running].waits = waits;
  swapcontext(&fibers[running].context, &scheduler);
}

/// Lets fibers [begin, end) go on if all of them that are left wait for the same.
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

bool release_each(unsigned count, unsigned step, Waits waits) {
  bool any = false;
  for (unsigned i = 0; i < count; i += step) {
    any |= release(i, i + step, waits);
  }
  return any;
}

void run_cluster(bool backwards) {
  const auto count = static_cast<unsigned>(cluster.size()) * blockDim.x;
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
  for (bool any = true; any;) {
    for (unsigned i = 0; i < count; ++i) {
      running = backwards ? count - 1 - i : i;
      if (fibers[running].waits == Waits::kNot) {
        threadIdx = {running % blockDim.x, 0, 0};
        blockIdx = cluster[rank_of(running)].index;
        swapcontext(&scheduler, &fibers[running].context);
      }
    }
    any = release_each(count, 32, Waits::kForWarp);
    any |= release_each(count, blockDim.x, Waits::kForBlock);
    any |= release(0, count, Waits::kForCluster);
  }
  for (unsigned i = 0; i < count; ++i) {
    if (fibers[i].waits != Waits::kForever) {
      throw std::logic_error("threads wait for each other forever");
    }
  }
}

} // namespace

uint8_t* dynamic_shared() {
  return dynamic_shared_of(rank_of(running));
}
uint8_t* dynamic_shared_of(unsigned rank) {
  return static_cast<uint8_t*>(cluster[rank].shared.get());
}

void* static_shared(unsigned key, size_t bytes) {
  Memory& memory = cluster[rank_of(running)].declared[key];
  if (!memory) {
    memory = allocate(bytes, 128);
  }
  return memory.get();
}
unsigned new_key() {
  static unsigned keys = 0;
  return keys++;
}

unsigned cluster_size() {
  return static_cast<unsigned>(cluster.size());
}

void wait_for_block() {
  wait(Waits::kForBlock);
}
void wait_for_cluster() {
  wait(Waits::kForCluster);
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

void launch(
    const char* name, const cudaLaunchConfig_t& config, const std::function<void()>& kernel) {
  launched.emplace_back(name);
  blockDim = config.blockDim;
  gridDim = config.gridDim;
  body = &kernel;
  unsigned together = 1;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id == cudaLaunchAttributeClusterDimension) {
      together = config.attrs[i].val.clusterDim.x;
    }
  }
  // Every other cluster runs its threads backwards: who relies on an order is found out.
  bool backwards = false;
  for (unsigned z = 0; z < gridDim.z; ++z) {
    for (unsigned y = 0; y < gridDim.y; ++y) {
      for (unsigned x = 0; x < gridDim.x; x += together, backwards = !backwards) {
        cluster.clear();
        for (unsigned rank = 0; rank < together; ++rank) {
          cluster.push_back({{x + rank, y, z}, allocate(config.dynamicSmemBytes, 1024), {}});
        }
        run_cluster(backwards);
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

void histo::cuda::count_exchange(const Plan&, const Problem&, const Launch&) {
  std::cerr << "the blocks of exchange.cu wait for each other, which is not emulated\n";
  std::exit(2);
}

int main() {
  using namespace histo;
  int type = 0;
  Problem problem{};
  size_t bytes = 0, offset = 0;
  cuda::DeviceLimits limits{};
  limits.l2_bytes = 1 << 20;
  std::cin >> type >> problem.num_bins;
  for (Extent& loop : problem.channels) {
    std::cin >> loop.size >> loop.stride;
  }
  for (Extent& loop : problem.rows) {
    std::cin >> loop.size >> loop.stride;
  }
  std::cin >> bytes >> offset >> limits.sm_count >> limits.shared_per_block >>
      limits.shared_per_sm >> limits.capability;
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
  cuda::count(problem, ValueBinning{problem.num_bins}, launch);
  for (const std::string& name : emulated::launched) {
    std::cout << name << ' ';
  }
  std::cout << '\n';
  std::cout.write(static_cast<const char*>(counts.get()), static_cast<std::streamsize>(size));
}
