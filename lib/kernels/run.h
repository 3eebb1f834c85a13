// How a public kernel runs a body: over all its items, on the pool where that pays, with denormals as its type wants.
#pragma once

#include <xmmintrin.h>

#include "attune/lib/dtype.h"
#include "attune/lib/kernels/rows.h"
#include "attune/lib/threads.h"

namespace attune::kernels {

// While it lives, f32 arithmetic on this thread flushes denormals to zero, and f64 arithmetic does not, whatever
// the caller had set: the floating-point environment is part of the contract of the same bits.
class DenormalMode {
 public:
  explicit DenormalMode(DType type) : before_(_mm_getcsr()) {
    constexpr unsigned flush = 0x8040, rounding = 0x6000;
    const unsigned now = (before_ & ~(flush | rounding)) | (type == DType::f32 ? flush : 0);
    if (now != before_) {
      _mm_setcsr(now);
      changed_ = true;
    }
  }
  ~DenormalMode() {
    if (changed_) _mm_setcsr(before_);
  }
  DenormalMode(const DenormalMode&) = delete;
  DenormalMode& operator=(const DenormalMode&) = delete;

 private:
  unsigned before_;
  bool changed_ = false;
};

// Below this many scalar operations a second thread costs more than it brings.
inline constexpr Index kParallelCost = 1 << 17;

// Runs `body` over items 0 ... items - 1; an item is about `cost` scalar operations, which matters only
// for speed: an item's result never depends on which thread took it.
inline void run(Body body, DType type, const void* arguments, Index items, Index cost) {
  if (items <= 0) return;
  if (items == 1 || items * cost < kParallelCost) {
    const DenormalMode mode(type);
    body(arguments, 0, items);
    return;
  }
  const Index grain = cost >= kParallelCost / 8 ? 1 : kParallelCost / 8 / (cost > 0 ? cost : 1);
  parallel_for(items, grain, [&](Index begin, Index end) {
    const DenormalMode mode(type);
    body(arguments, begin, end);
  });
}

inline Body body_of(const Bodies& bodies, DType type) { return bodies[static_cast<int>(type)]; }

}  // namespace attune::kernels
