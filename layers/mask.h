// Which keys a query may attend to: a type, so that no tensor's true can be taken for its false.
#pragma once

#include "attune/lib/kernels/softmax.h"

namespace attune {

// Where L queries and S keys differ in number: whether the last query meets the last key, or the first the first.
enum class Align { bottom_right, top_left };

class Mask {
 public:
  // Every query sees every key.
  Mask() = default;
  // A query sees the keys up to its own place: query i of L sees key j of S where j <= i + S - L, or, aligned at the
  // top left, where j <= i.
  static Mask causal(Align align = Align::bottom_right) {
    Mask mask;
    mask.causal_ = true;
    mask.align_ = align;
    return mask;
  }

  kernels::Visible visible(Index queries, Index keys) const {
    if (!causal_) return {};
    return align_ == Align::bottom_right ? kernels::Visible::causal(queries, keys) : kernels::Visible{false, 0};
  }

 private:
  bool causal_ = false;
  Align align_ = Align::bottom_right;
};

}  // namespace attune
