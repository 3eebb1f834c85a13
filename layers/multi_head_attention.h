// Attention with several heads (Vaswani et al. 2017, section 3.2.2): project, attend, project back.
//
// Letters in shapes: B batch, L queries, S keys, C model width, Hq and Hkv heads of queries and of keys and values,
// d width of a query and a key, dv width of a value.
#pragma once

#include <optional>

#include "attune/layers/attention.h"
#include "attune/layers/kv_cache.h"
#include "attune/layers/linear.h"
#include "attune/layers/position.h"

namespace attune {

struct MultiHeadAttentionOptions {
  Index width = 0;                       // C
  Index memory_width = 0;                // of what keys and values are made of, for cross-attention; 0: self-attention
  Index heads = 1;                       // Hq
  Index kv_heads = 0;                    // Hkv, which divides Hq (Ainslie et al. 2023; 1: Shazeer 2019); 0 stands for Hq
  Index key_width = 0, value_width = 0;  // d and dv, per head; 0 stands for C / Hq
  bool bias = true;
  Mask mask = {};
  Scale scale = {};
  double softcap = 0;             // c tanh(s / c) of the scores; 0: none
  double dropout = 0;             // of the weights
  Normalizer normalizer = Normalizer::softmax;  // as in AttentionOptions, and so is ssmax
  bool ssmax = false;
  bool qk_norm = false;           // queries and keys of length 1 (Henry et al. 2020), and a learned scale
  std::optional<double> learned_scale = {};  // a factor per head that training changes, from here, in place of `scale`;
                                             // with qk_norm sqrt(d) unless given
  bool sinks = false;             // a learned logit per head that takes weight and has no value
  std::optional<Rope> rope = {};  // turns queries and keys, of width d
  bool alibi = false;             // a bias that falls with distance (Press et al. 2022)
  Init init = Init::lecun_normal(), out_init = Init::lecun_normal();
};

// Where heads do not divide the width, or kv_heads the heads, or a number is out of range, it throws. Dropout draws as
// that of attention().
struct MultiHeadAttention {
  Linear qkv;               // self-attention: C -> Hq d + Hkv d + Hkv dv, heads side by side
  Linear query, key_value;  // cross-attention: C -> Hq d, and the memory's width -> Hkv d + Hkv dv
  Parameter sinks;          // [Hq], zeros at first
  Parameter scale;          // [Hq, 1, 1], where it is learned
  Linear out;               // Hq dv -> C
  MultiHeadAttentionOptions options;  // with the zeros replaced by what they stand for

  MultiHeadAttention(const MultiHeadAttentionOptions& options, Rng& rng);

  // Self-attention: [..., L, C] -> [..., L, C]. `mask` comes in addition to the options' own.
  // Taps: "queries" [..., Hq, L, d], "keys" [..., Hkv, S, d] (after rope and qk_norm) and "values" [..., Hkv, S, dv];
  // "scores", "weights"; and "heads" [..., L, Hq, dv], what each head says.
  Var operator()(Var x, const Mask& mask = {}) const;
  // Cross-attention: x [..., L, C] asks memory [..., S, memory_width].
  Var operator()(Var x, Var memory, const Mask& mask = {}) const;
  // Self-attention of L more tokens after those that the cache has read, under NoGrad: the rows of the whole, to the bit.
  // For a causal mask or a window, aligned at the bottom right: another is an error. What throws leaves the cache as it was.
  Var operator()(Var x, KvCache& cache) const;

  // An empty cache for that many sequences of that many tokens, of the parameters' type.
  KvCache cache(Index batch, Index capacity) const;

  void each(auto&& visit) {
    visit("qkv", qkv), visit("query", query), visit("key_value", key_value);
    visit("sinks", sinks), visit("scale", scale), visit("out", out);
  }

 private:
  struct Heads;  // queries, keys and values
  Heads project(Var x, Index first_position) const;
  Var attend(const Heads& heads, const Mask& mask) const;
};

}  // namespace attune
