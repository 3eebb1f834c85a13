// Self-attention with several heads (Vaswani et al. 2017, section 3.2.2): project, attend, project back.
//
// Letters in shapes: H heads, L queries, d width of a query and a key, dv width of a value, C model width.
#pragma once

#include "attune/layers/attention.h"
#include "attune/layers/linear.h"

namespace attune {

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
