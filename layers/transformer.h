// The transformer's layers: blocks that attend and think, in either order of norm and sum.
#pragma once

#include "attune/layers/mlp.h"
#include "attune/layers/multi_head_attention.h"
#include "attune/layers/norm.h"

namespace attune {

// Where the norms stand: pre, before attention and perceptron, x + f(norm(x)) (Xiong et al. 2020); or post, behind the
// sums, norm(x + f(x)) (Vaswani et al. 2017).
enum class NormPlace { pre, post };

struct TransformerBlockOptions {
  MultiHeadAttentionOptions attention;
  MlpOptions mlp;
  NormPlace place = NormPlace::pre;
  Normalize normalize = Normalize::layer;
  double dropout = 0;  // of what attention and perceptron add to the stream
};

// Self-attention, then a perceptron, each with a sum around it.
struct TransformerBlock {
  Norm norm1;
  MultiHeadAttention attention;
  Norm norm2;
  Mlp mlp;
  NormPlace place;
  Dropout dropout;

  TransformerBlock(const TransformerBlockOptions& options, Rng& rng)
      : norm1(options.attention.width, options.normalize),
        attention(options.attention, rng),
        norm2(options.attention.width, options.normalize),
        mlp(options.mlp, rng),
        place(options.place),
        dropout(options.dropout) {}

  // [..., T, C] -> [..., T, C]. `mask` comes in addition to the attention's own. Tap: "residual", the stream behind each
  // of the two sums.
  Var operator()(Var x, const Mask& mask = {}) const;
  // The same for T more tokens after those that the cache has read, under NoGrad.
  Var operator()(Var x, KvCache& cache) const;

  void each(auto&& visit) {
    visit("norm1", norm1), visit("attention", attention);
    visit("norm2", norm2), visit("mlp", mlp);
  }
};

struct EncoderLayerOptions {
  Index width = 0, heads = 1, hidden = 0;  // as in MlpOptions
  Activation activation = Activation::relu;
  NormPlace place = NormPlace::post;
  double dropout = 0;  // of the weights, and of what is added to the stream
  bool bias = true;
};

// The encoder's layer of Vaswani et al. 2017, section 3.1: a TransformerBlock in which every token sees every other.
struct EncoderLayer : TransformerBlock {
  EncoderLayer(const EncoderLayerOptions& options, Rng& rng);
};

using DecoderLayerOptions = EncoderLayerOptions;

// The decoder's layer of the same section: causal self-attention, attention to a memory (what the encoder made), and a
// perceptron, each with a sum around it.
struct DecoderLayer {
  Norm norm1;
  MultiHeadAttention attention;
  Norm norm2;
  MultiHeadAttention cross;
  Norm norm3;
  Mlp mlp;
  NormPlace place;
  Dropout dropout;

  // `memory_width` 0 stands for the width.
  DecoderLayer(const DecoderLayerOptions& options, Rng& rng, Index memory_width = 0);

  // x [..., L, C], memory [..., S, memory_width] -> [..., L, C]. `memory_mask`, such as Mask::padding, says which of the
  // memory may be read. Tap: "residual", behind each of the three sums.
  Var operator()(Var x, Var memory, const Mask& memory_mask = {}) const;

  void each(auto&& visit) {
    visit("norm1", norm1), visit("attention", attention);
    visit("norm2", norm2), visit("cross", cross);
    visit("norm3", norm3), visit("mlp", mlp);
  }
};

}  // namespace attune
