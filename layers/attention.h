// Attention (Vaswani et al. 2017, section 3.2): weights = softmax(scale q kᵀ), y = weights v.
//
// Letters in shapes: B batch, H heads, L queries, S keys, d width of a query and a key, dv width of a value.
#pragma once

#include <cmath>

#include "attune/layers/mask.h"
#include "attune/layers/tap.h"

namespace attune {

// The factor on q·k. 1/sqrt(d) keeps the scores' deviation at 1 whatever d is.
class Scale {
 public:
  Scale() = default;                // 1/sqrt(d)
  Scale(double factor) : factor_(factor), given_(true) {}  // NOLINT: a number is a scale
  static Scale none() { return 1.0; }
  double operator()(Index d) const { return given_ ? factor_ : 1 / std::sqrt(static_cast<double>(d)); }

 private:
  double factor_ = 1;
  bool given_ = false;
};

struct AttentionOptions {
  Mask mask = {};
  Scale scale = {};
};

// q [..., L, d], k [..., S, d], v [..., S, dv] -> [..., L, dv], with equal leading axes and any strides. With heads, the
// result of [B, H, L, dv] lies in memory as [B, L, H, dv], so that merging heads is a view.
// A query that sees no key gets zeros. Taps: "scores" (scaled, before the mask), "weights".
Var attention(Var q, Var k, Var v, const AttentionOptions& options = {});

namespace detail {
// [..., L, H, width] as [..., H, L, width], and back.
View swap_heads(const View& x);
}  // namespace detail

}  // namespace attune
