// Attention (Vaswani et al. 2017, section 3.2): weights = softmax(scale q kᵀ), y = weights v.
//
// Letters in shapes: B batch, H heads, L queries, S keys, d width of a query and a key, dv width of a value, C model width.
#pragma once

#include <cmath>

#include "attune/layers/linear.h"
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

struct MultiHeadAttentionOptions {
  Index width = 0;  // C
  Index heads = 1;
  Index key_width = 0, value_width = 0;  // d and dv, per head; 0 stands for C / heads
  bool bias = true;
  Mask mask = {};
  Scale scale = {};
  double deviation = 0, out_deviation = 0;  // as in LinearOptions
};

// Self-attention with several heads.
struct MultiHeadAttention {
  Linear qkv;  // C -> H d + H d + H dv, heads side by side
  Linear out;  // H dv -> C
  Index heads, key_width, value_width;
  AttentionOptions attend;

  MultiHeadAttention(const MultiHeadAttentionOptions& options, Rng& rng);

  // [..., L, C] -> [..., L, C]. Tap: "heads" [..., L, H, dv], what each head says.
  Var operator()(Var x) const;

  void each(auto&& visit) { visit("qkv", qkv), visit("out", out); }
  void each(auto&& visit) const { visit("qkv", qkv), visit("out", out); }
};

}  // namespace attune
