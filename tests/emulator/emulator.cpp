// The scheduler: threads are fibers, and what they wait for.
#undef _FORTIFY_SOURCE // it takes a jump to another fiber's stack for an error

#include "emulator/emulator.h"

#include <ucontext.h>
#include <algorithm>
#include <csetjmp>
#include <map>
#include <memory>
#include <vector>

#include "emulator/state.h"

namespace emulated {
namespace {

constexpr size_t kStackBytes = 64 << 10;

enum class Waits { kNot, kForLanes, kForWarp, kForTeam, kForBlock, kForCluster, kForever };

struct Fiber {
  std::jmp_buf place;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  Waits waits = Waits::kNot;
  bool began = false;
  unsigned mask = 0;
  uint32_t interval = 0; // since the lanes waited for each other's accesses of memory
  uint32_t since = 0;    // what the other warps of the team did before is over
  unsigned team = 0;     // its threads, while it waits for them
  uint64_t given = 0;
  int source = 0;
  Given taken{};
};

struct Block {
  unsigned number; // in the grid
  uint3 index;
  uint8_t* shared;
  std::map<unsigned, uint8_t*> declared; // by key
  uint32_t interval;
  bool waited;
  bool let_next;
  unsigned ended = 0; // threads
};

std::vector<std::unique_ptr<Fiber>> fibers; // of the blocks that run together, block after block
std::vector<Block> blocks;
unsigned current;
uint32_t cluster_since;
bool progress;
std::jmp_buf scheduler;
ucontext_t scheduler_context;
const std::function<void()>* body;
bool settles; // all blocks of the last kernel had waited when the next one could start

Block& block_of(unsigned fiber) {
  return blocks[fiber / blockDim.x];
}
Fiber& current_fiber() {
  return *fibers[current];
}
/// Only a block that is smaller than a warp has fewer.
unsigned lanes_of_warp() {
  return std::min(32u, blockDim.x);
}

void wait(Waits waits) {
  Fiber& fiber = current_fiber();
  fiber.waits = waits;
  if (_setjmp(fiber.place) == 0) {
    _longjmp(scheduler, 1);
  }
}

void run_threads() {
  while (true) {
    (*body)();
    Block& block = block_of(current);
    ++block.ended;
    settles &= block.let_next || block.waited;
    wait(Waits::kForever);
  }
}

void go_on(unsigned index) {
  current = index;
  Fiber& fiber = current_fiber();
  const Block& block = block_of(index);
  threadIdx = {index % blockDim.x, 0, 0};
  blockIdx = block.index;
  const uint32_t interval = std::max(fiber.interval, block.interval);
  const uint32_t since = std::max(fiber.since, block.interval);
  running = {block.number, threadIdx.x, interval, since, cluster_since, block.waited};
  progress = true;
  if (_setjmp(scheduler) != 0) {
    return;
  }
  if (fiber.began) {
    _longjmp(fiber.place, 1);
  }
  fiber.began = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.get();
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  makecontext(&context, run_threads, 0);
  setcontext(&context);
}

/// Lets the fibers [begin, end) go on if all that are left wait for the same.
bool release(unsigned begin, unsigned end, Waits waits) {
  unsigned waiting = 0, gave = 0;
  for (unsigned i = begin; i < end; ++i) {
    if (fibers[i]->waits != waits && fibers[i]->waits != Waits::kForever) {
      return false;
    }
    waiting += fibers[i]->waits == waits;
    gave += fibers[i]->waits == waits && fibers[i]->given != 0;
  }
  if (waiting == 0) {
    return false;
  }
  for (unsigned i = begin; i < end; ++i) {
    fibers[i]->taken.ballot = gave;
    fibers[i]->waits = fibers[i]->waits == waits ? Waits::kNot : fibers[i]->waits;
  }
  if (waits == Waits::kForCluster) {
    cluster_since = new_interval();
  }
  for (unsigned i = begin; i < end; i += blockDim.x) {
    block_of(i).interval = new_interval();
  }
  return true;
}

/// Lets the teams of a block go on whose threads all wait for each other.
bool release_teams(unsigned first) {
  bool any = false;
  for (unsigned begin = first; begin < first + blockDim.x; begin += 32) {
    const unsigned size = fibers[begin]->team;
    if (fibers[begin]->waits != Waits::kForTeam || (begin - first) % size != 0) {
      continue;
    }
    const auto team = fibers.begin() + begin;
    const bool all = std::all_of(team, team + size, [&](const std::unique_ptr<Fiber>& fiber) {
      return fiber->waits == Waits::kForTeam && fiber->team == size;
    });
    const uint32_t now = new_interval();
    for (unsigned i = begin; i < begin + size && all; ++i) {
      fibers[i]->waits = Waits::kNot;
      fibers[i]->interval = fibers[i]->since = now;
      any = true;
    }
  }
  return any;
}

unsigned lanes_that_gave(unsigned first, unsigned mask, uint64_t value) {
  unsigned lanes = 0;
  for (unsigned i = 0; i < lanes_of_warp(); ++i) {
    const Fiber& lane = *fibers[first + i];
    lanes |= unsigned{lane.waits != Waits::kForever && lane.given == value} << i;
  }
  return lanes & mask;
}

/// Lets the lanes of each mask go on that all wait for each other, and those of no mask that wait for
/// the rest of the warp to have nothing to do.
bool release_warp(unsigned first) {
  bool any = false, idle = true;
  unsigned active = 0;
  for (unsigned lane = 0; lane < lanes_of_warp(); ++lane) {
    idle &= fibers[first + lane]->waits != Waits::kNot;
    active |= unsigned{fibers[first + lane]->waits == Waits::kForLanes} << lane;
  }
  for (unsigned lane = 0; lane < lanes_of_warp(); ++lane) {
    Fiber& fiber = *fibers[first + lane];
    if (fiber.waits == Waits::kForLanes && idle) {
      fiber.taken.ballot = active;
      fiber.waits = Waits::kNot;
      any = true;
    }
    if (fiber.waits != Waits::kForWarp) {
      continue;
    }
    const unsigned mask = fiber.mask;
    bool all = true;
    unsigned ballot = 0;
    for (unsigned i = 0; i < lanes_of_warp(); ++i) {
      const Fiber& other = *fibers[first + i];
      const bool waits = other.waits == Waits::kForWarp && other.mask == mask;
      all &= waits || (mask >> i & 1) == 0 || other.waits == Waits::kForever;
      ballot |= unsigned{waits && other.given != 0} << i;
    }
    const uint32_t interval = new_interval();
    for (unsigned i = 0; i < lanes_of_warp() && all; ++i) {
      Fiber& other = *fibers[first + i];
      if ((mask >> i & 1) != 0 && other.waits == Waits::kForWarp) {
        const Fiber& source = *fibers[first + static_cast<unsigned>(other.source)];
        other.taken = {source.given, ballot, lanes_that_gave(first, mask, other.given), interval};
        other.waits = Waits::kNot;
        any = true;
      }
    }
  }
  return any;
}

/// Runs the threads of a block that wait for nobody, and lets others of the block go on, if any can.
bool run_block(unsigned first, bool backwards, int& idle) {
  for (unsigned i = 0; i < blockDim.x; ++i) {
    const unsigned index = first + (backwards ? blockDim.x - 1 - i : i);
    if (fibers[index]->waits == Waits::kNot) {
      go_on(index);
      idle = progress ? 0 : idle;
    }
  }
  bool any = false;
  for (unsigned i = first; i < first + blockDim.x; i += 32) {
    any |= release_warp(i);
  }
  any |= release_teams(first);
  return release(first, first + blockDim.x, Waits::kForBlock) || any;
}

void run_blocks(bool backwards) {
  const auto count = static_cast<unsigned>(blocks.size()) * blockDim.x;
  while (fibers.size() < count) {
    fibers.push_back(std::make_unique<Fiber>());
  }
  for (unsigned i = 0; i < count; ++i) {
    fibers[i]->waits = Waits::kNot;
    fibers[i]->interval = fibers[i]->since = 0;
  }
  constexpr int kMostIdlePasses = 1000; // of threads that ask again and again
  for (int idle = 0; idle < kMostIdlePasses; ++idle) {
    bool any = false;
    // Each block runs as far as it can before the next one: a block that ends too soon is found out.
    for (unsigned block = 0; block < blocks.size(); ++block) {
      const auto number = backwards ? static_cast<unsigned>(blocks.size()) - 1 - block : block;
      while (run_block(number * blockDim.x, backwards, idle)) {
        any = true;
      }
    }
    any |= release(0, count, Waits::kForCluster);
    idle = any ? 0 : idle;
    unsigned ended = 0;
    for (const Block& block : blocks) {
      ended += block.ended;
    }
    if (ended == count) {
      running = {}; // the host
      return;
    }
  }
  fail("waits for others forever");
}

} // namespace

uint8_t* dynamic_shared() {
  return block_of(current).shared;
}
uint8_t* dynamic_shared_of(unsigned rank) {
  if (blocks[rank].ended == blockDim.x) {
    fail("reads the shared memory of a block that has ended");
  }
  return blocks[rank].shared;
}
void* static_shared(unsigned key, size_t bytes) {
  Block& block = block_of(current);
  uint8_t*& memory = block.declared[key];
  if (memory == nullptr) {
    memory = allocate(Kind::kShared, bytes, 0, block.number);
  }
  return memory;
}
unsigned new_key() {
  static unsigned keys = 0;
  return keys++;
}
unsigned cluster_size() {
  return static_cast<unsigned>(blocks.size());
}

int wait_for_block(bool given) {
  current_fiber().given = given;
  wait(Waits::kForBlock);
  return static_cast<int>(current_fiber().taken.ballot);
}
void wait_for_team(unsigned threads) {
  current_fiber().team = threads;
  wait(Waits::kForTeam);
}
void wait_for_cluster() {
  wait(Waits::kForCluster);
}
Given exchange(unsigned mask, uint64_t value, int source) {
  Fiber& fiber = current_fiber();
  if ((mask >> running.thread % 32 & 1) == 0) {
    fail("is no lane of the mask that it waits for");
  }
  fiber.mask = mask;
  fiber.given = value;
  fiber.source = source & 31;
  wait(Waits::kForWarp);
  return fiber.taken;
}
void wait_for_lanes(unsigned mask) {
  const uint32_t interval = exchange(mask, 0).interval;
  current_fiber().interval = running.interval = interval;
}
unsigned lane() {
  return running.thread % 32;
}
unsigned active_lanes() {
  wait(Waits::kForLanes);
  return current_fiber().taken.ballot;
}
void let_others_run() {
  wait(Waits::kNot);
  progress = false;
}
void wait_for_previous() {
  block_of(current).waited = running.waited = true;
}
void let_next_start() {
  Block& block = block_of(current);
  settles &= block.let_next || block.waited;
  block.let_next = true;
}

void launch(const char* name, const cudaLaunchConfig_t& config, const std::function<void()>& run) {
  blockDim = config.blockDim;
  gridDim = config.gridDim;
  body = &run;
  kernel = {name};
  launched += " " + kernel.name;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeClusterDimension) {
      kernel.cluster = attribute.val.clusterDim.x;
    }
    kernel.cooperative |= attribute.id == cudaLaunchAttributeCooperative;
    kernel.overlaps |= attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization;
  }
  kernel.input_settled = settles;
  kernel.since = new_interval();
  settles = true;
  const unsigned grid = gridDim.x * gridDim.y * gridDim.z;
  if (gridDim.y > 65535 || gridDim.z > 65535 || blockDim.x > 1024 ||
      blockDim.x % lanes_of_warp() != 0 || blockDim.y * blockDim.z != 1 ||
      gridDim.x % kernel.cluster != 0) {
    fail("has a grid or a block that no GPU takes");
  }
  const unsigned together = kernel.cooperative ? grid : kernel.cluster;
  const size_t pages = allocated_pages();
  // Every other cluster runs its threads backwards: who relies on an order is found out.
  for (unsigned first = 0; first < grid; first += together) {
    blocks.clear();
    release_pages(pages);
    for (unsigned number = first; number < first + together; ++number) {
      const unsigned row = number / gridDim.x;
      blocks.push_back(
          {number,
           {number % gridDim.x, row % gridDim.y, row / gridDim.y},
           allocate(Kind::kShared, config.dynamicSmemBytes, 0, number),
           {},
           new_interval(),
           !kernel.overlaps,
           false});
    }
    cluster_since = new_interval();
    for (Block& block : blocks) {
      block.interval = new_interval();
    }
    run_blocks(first / together % 2 == 1);
  }
  release_pages(pages);
  kernel = {};
}

} // namespace emulated

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  emulated::fill(static_cast<uint8_t*>(memory), static_cast<uint8_t>(value), bytes);
  emulated::settles = false;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "an error that is not emulated";
}
