// The processor's mode for floats.
#pragma once

#ifdef __x86_64__
#include <immintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace histo::cpu {

/// While it lives, subnormal numbers of this thread are numbers. torch.set_flush_denormal(True)
/// makes zeros of them, and values would be compared as what they are not.
class ExactFloats {
 public:
  ExactFloats(const ExactFloats&) = delete;
  ExactFloats& operator=(const ExactFloats&) = delete;

#ifdef __x86_64__
  ExactFloats() : before_(_mm_getcsr()) {
    constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
    _mm_setcsr(before_ & ~(kFlushToZero | kDenormalsAreZero));
  }
  ~ExactFloats() {
    _mm_setcsr(before_);
  }

 private:
  unsigned before_;
#elif defined(__aarch64__)
  ExactFloats() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(before_));
    constexpr uint64_t kFlushToZero = uint64_t{1} << 24;
    __asm__ volatile("msr fpcr, %0" ::"r"(before_ & ~kFlushToZero));
  }
  ~ExactFloats() {
    __asm__ volatile("msr fpcr, %0" ::"r"(before_));
  }

 private:
  uint64_t before_;
#else
  ExactFloats() {
  }
  ~ExactFloats() {
  }
#endif
};

} // namespace histo::cpu
