// The memory of the emulated GPU: every access of a kernel is checked.
//
// An access fails if it is misaligned or not all in one allocation that the block may use, if it reads
// what nobody wrote, if it writes the input, if it comes before the kernel has waited for the one that
// may still write there, and if another thread uses the same word at the same time, unless both do so
// atomically. Two threads of a block do so at the same time if no barrier lies between, or no
// __syncwarp if they are of one warp.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "emulator/emulator.h"
#include "emulator/state.h"

namespace emulated {

Thread running{};
Kernel kernel{};
std::string launched;
void (*observer)(const Access&) = nullptr;

namespace {

constexpr uint8_t kPoison = 0xa5;
constexpr size_t kPage = 4096;
constexpr size_t kPages = size_t{1} << 18;
constexpr size_t kWord = 4;
constexpr unsigned kWholeWord = 0xf;     // its bytes, as bits
constexpr uint32_t kFirstAddress = 1024; // of shared memory: not 0

struct Region {
  uint8_t* begin;
  uint8_t* end;
  Kind kind;
  unsigned block;
  uint32_t born; // in this interval
};
/// Who used a word last.
struct Record {
  uint32_t interval;
  unsigned block : 20;
  unsigned thread : 11;
  unsigned atomic : 1;
};
struct Word {
  Record write;
  Record read;
  uint32_t written; // in this interval, and not only added to
  // The bytes that were used: threads may have bytes of a word each.
  uint8_t bytes_of_write;
  uint8_t bytes_of_read;
};

template <class T>
T* reserve(size_t count) {
  void* memory = mmap(
      nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("the emulated GPU's memory");
    std::exit(2);
  }
  return static_cast<T*>(memory);
}

uint8_t* const arena = reserve<uint8_t>(kPages * kPage);
Word* const words = reserve<Word>(kPages * kPage / kWord);
std::vector<Region> regions(1); // the first is none
std::vector<uint32_t> region_of_page{0};
uint32_t intervals = 1;

Word& word_of(const void* address) {
  return words[(static_cast<const uint8_t*>(address) - arena) / kWord];
}

/// Whether the thread that runs may find the word as it was before that use of it.
bool at_the_same_time(const Record& use, const Region& region) {
  if (use.interval < region.born || use.interval < kernel.since) {
    return false;
  }
  if (use.block == running.block) {
    const bool same_warp = use.thread / 32 == running.thread / 32;
    return use.thread != running.thread &&
           (same_warp ? use.interval == running.interval : use.interval >= running.block_since);
  }
  const bool same_cluster = use.block / kernel.cluster == running.block / kernel.cluster;
  return !kernel.cooperative && !(same_cluster && use.interval < running.cluster_since);
}

std::string name_of(const Region& region) {
  const char* const names[] = {"input", "counts", "workspace", "shared memory"};
  return names[static_cast<int>(region.kind)];
}

void check_word(Word& word, const Region& region, How how, unsigned bytes) {
  const bool atomic = how == How::kAdd || how == How::kReadAtomically;
  const bool reads = how == How::kRead || how == How::kReadAtomically;
  // Blocks of a cooperative launch look into counters that others count in, and copy buckets that
  // are not full.
  const bool lenient = kernel.cooperative;
  if (reads && word.written < region.born && !(lenient && region.kind == Kind::kShared)) {
    fail("reads what nobody wrote in the " + name_of(region));
  }
  if ((word.bytes_of_write & bytes) != 0 && at_the_same_time(word.write, region) &&
      !(word.write.atomic && (atomic || (reads && lenient)))) {
    fail("uses a word that another thread writes in the " + name_of(region));
  }
  if (!reads && (word.bytes_of_read & bytes) != 0 && at_the_same_time(word.read, region) &&
      !(lenient && atomic)) {
    fail("writes a word that another thread reads in the " + name_of(region));
  }
  const Record now{running.interval, running.block, running.thread, atomic};
  if (how == How::kRead) {
    word.read = now;
    word.bytes_of_read = static_cast<uint8_t>(bytes);
  } else if (!reads) {
    word.write = now;
    word.bytes_of_write = static_cast<uint8_t>(bytes);
    word.written = how == How::kWrite ? running.interval : word.written;
  }
}

void touch(
    const void* pointer, size_t bytes, How how, uint64_t value = 0, bool of_another_block = false) {
  const auto* address = static_cast<const uint8_t*>(pointer);
  const auto place = static_cast<size_t>(address - arena);
  if (place >= kPages * kPage || kernel.name.empty()) {
    return; // the host's
  }
  const size_t page = place / kPage;
  const Region& region = regions[page < region_of_page.size() ? region_of_page[page] : 0];
  if (address < region.begin || address + bytes > region.end) {
    fail("uses " + std::to_string(bytes) + " bytes outside of what was allocated");
  }
  if (place % bytes != 0) {
    fail("uses " + std::to_string(bytes) + " bytes at an address that is no multiple of them");
  }
  if (region.kind == Kind::kShared) {
    if (region.block != running.block && !of_another_block) {
      fail("uses the shared memory of another block");
    }
  } else if (
      kernel.overlaps && !running.waited &&
      !(region.kind == Kind::kInput && kernel.input_settled)) {
    fail("does not wait for the kernel launched before");
  }
  if (observer != nullptr) {
    observer({region.kind, how, static_cast<size_t>(address - region.begin), bytes, value});
  }
  if (region.kind == Kind::kInput) {
    if (how != How::kRead) {
      fail("writes the input");
    }
    return;
  }
  if (bytes < kWord) {
    check_word(word_of(address), region, how, ((1u << bytes) - 1) << place % kWord);
    return;
  }
  for (size_t i = 0; i < bytes; i += kWord) {
    check_word(word_of(address + i), region, how, kWholeWord);
  }
}

/// A struct, whose members are words.
void touch_range(const void* pointer, size_t bytes, How how) {
  for (size_t i = 0; i < bytes; i += kWord) {
    touch(static_cast<const uint8_t*>(pointer) + i, kWord, how);
  }
}

} // namespace

uint32_t new_interval() {
  return ++intervals;
}

void fail(const std::string& what) {
  std::fprintf(
      stderr, "%s: thread %u of block %u %s\n", kernel.name.c_str(), running.thread, running.block,
      what.c_str());
  std::exit(3);
}

uint8_t* allocate(Kind kind, size_t bytes, size_t offset, unsigned block) {
  const size_t first = region_of_page.size() + 1; // behind a page of nobody's
  region_of_page.push_back(0);
  region_of_page.insert(
      region_of_page.end(), (offset + bytes + kPage - 1) / kPage,
      static_cast<uint32_t>(regions.size()));
  if (region_of_page.size() + 1 > kPages) {
    fail("needs more memory than the emulated GPU has");
  }
  uint8_t* begin = arena + first * kPage + offset;
  const uint32_t born = running.interval > 0 ? running.block_since : new_interval();
  regions.push_back({begin, begin + bytes, kind, block, born});
  std::memset(begin, kPoison, bytes);
  return begin;
}
size_t allocated_pages() {
  return region_of_page.size();
}
void release_pages(size_t from) {
  region_of_page.resize(from);
}

void fill(uint8_t* memory, uint8_t value, size_t bytes) {
  std::memset(memory, value, bytes);
  const uint32_t now = new_interval();
  for (size_t i = 0; i < bytes; i += kWord) {
    word_of(memory + i) = {{now, 0, 0, 0}, {0, 0, 0, 0}, now, kWholeWord, 0};
  }
}

uint32_t add(uint32_t* address, uint32_t value) {
  touch(address, sizeof(*address), How::kAdd, value);
  return std::exchange(*address, *address + value);
}
uint64_t add(uint64_t* address, uint64_t value) {
  touch(address, sizeof(*address), How::kAdd, value);
  return std::exchange(*address, *address + value);
}
uint32_t compare_and_swap(uint32_t* address, uint32_t expected, uint32_t value) {
  touch(address, sizeof(*address), How::kAdd);
  return std::exchange(*address, *address == expected ? value : *address);
}
uint32_t set_bits(uint32_t* address, uint32_t bits) {
  touch(address, sizeof(*address), How::kAdd);
  return std::exchange(*address, *address | bits);
}
uint32_t raise(uint32_t* address, uint32_t value) {
  touch(address, sizeof(*address), How::kAdd);
  return std::exchange(*address, std::max(*address, value));
}
uint64_t raise(uint64_t* address, uint64_t value) {
  touch(address, sizeof(*address), How::kAdd);
  return std::exchange(*address, std::max(*address, value));
}
int64_t raise(int64_t* address, int64_t value) {
  touch(address, sizeof(*address), How::kAdd);
  return std::exchange(*address, std::max(*address, value));
}
int64_t lower(int64_t* address, int64_t value) {
  touch(address, sizeof(*address), How::kAdd);
  return std::exchange(*address, std::min(*address, value));
}
/// Two threads may write the halves of a word.
void store_half(uint16_t* address, uint16_t value) {
  touch(address, sizeof(*address), How::kAdd);
  *address = value;
}
uint32_t load_of_rank(const uint32_t* address, uint32_t rank) {
  const auto offset = reinterpret_cast<const uint8_t*>(address) - dynamic_shared();
  const auto* there = reinterpret_cast<const uint32_t*>(dynamic_shared_of(rank) + offset);
  touch(there, sizeof(*there), How::kRead, 0, true);
  return *there;
}
uint32_t load_acquired(const uint32_t* address) {
  touch(address, sizeof(*address), How::kReadAtomically);
  return *address;
}
void discard(const void* address, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kWord) {
    const uint8_t* word = static_cast<const uint8_t*>(address) + i;
    touch(word, kWord, How::kWrite);
    word_of(word).written = 0;
  }
  std::memset(const_cast<void*>(address), kPoison, bytes);
}

uint32_t shared_address(const void* pointer) {
  return kFirstAddress +
         static_cast<uint32_t>(static_cast<const uint8_t*>(pointer) - dynamic_shared());
}
uint8_t* shared_pointer(uint32_t address) {
  return dynamic_shared() + (int64_t{address} - kFirstAddress);
}

} // namespace emulated

// The compiler calls these functions before each load and store of a kernel.
#define EMULATED_ACCESS(bytes)                                       \
  void __tsan_read##bytes(void* address) {                           \
    emulated::touch(address, bytes, emulated::How::kRead);           \
  }                                                                  \
  void __tsan_write##bytes(void* address) {                          \
    emulated::touch(address, bytes, emulated::How::kWrite);          \
  }                                                                  \
  void __tsan_unaligned_read##bytes(void* address) {                 \
    emulated::touch(address, bytes, emulated::How::kRead);           \
  }                                                                  \
  void __tsan_unaligned_write##bytes(void* address) {                \
    emulated::touch(address, bytes, emulated::How::kWrite);          \
  }                                                                  \
  void __tsan_volatile_read##bytes(void* address) {                  \
    emulated::touch(address, bytes, emulated::How::kReadAtomically); \
  }                                                                  \
  void __tsan_volatile_write##bytes(void* address) {                 \
    emulated::touch(address, bytes, emulated::How::kWrite);          \
  }

extern "C" {
EMULATED_ACCESS(1)
EMULATED_ACCESS(2)
EMULATED_ACCESS(4)
EMULATED_ACCESS(8)
EMULATED_ACCESS(16)
void __tsan_read_range(void* address, size_t bytes) {
  emulated::touch_range(address, bytes, emulated::How::kRead);
}
void __tsan_write_range(void* address, size_t bytes) {
  emulated::touch_range(address, bytes, emulated::How::kWrite);
}
void __tsan_vptr_update(void**, void*) {
}
void __tsan_init() {
}
}
