// The transformer block, and a GPT made of them.
#pragma once

#include <string>
#include <vector>

#include "attune/layers/embedding.h"
#include "attune/layers/layer_norm.h"
#include "attune/layers/mlp.h"
#include "attune/layers/multi_head_attention.h"

namespace attune {

struct TransformerBlockOptions {
  MultiHeadAttentionOptions attention;
  MlpOptions mlp;
};

// Pre-norm (Xiong et al. 2020): x + attention(norm1(x)), then + mlp(norm2(...)).
struct TransformerBlock {
  LayerNorm norm1;
  MultiHeadAttention attention;
  LayerNorm norm2;
  Mlp mlp;

  TransformerBlock(const TransformerBlockOptions& options, Rng& rng)
      : norm1(options.attention.width),
        attention(options.attention, rng),
        norm2(options.attention.width),
        mlp(options.mlp, rng) {}

  // [..., T, C] -> [..., T, C]. Tap: "residual", the stream behind each of the two sums.
  Var operator()(Var x) const;

  void each(auto&& visit) { visit("norm1", norm1), visit("attention", attention), visit("norm2", norm2), visit("mlp", mlp); }
  void each(auto&& visit) const {
    visit("norm1", norm1), visit("attention", attention), visit("norm2", norm2), visit("mlp", mlp);
  }
};

struct GptOptions {
  Index vocab = 0;    // V: how many tokens there are
  Index context = 0;  // the longest sequence
  int layers = 1;
  Index heads = 1;
  Index width = 0;           // C
  bool bias = false;         // in the linear maps; layer norms keep theirs
  Scale scale = {};          // on the attention scores
  double deviation = 0.02;   // of initial weights; those that write into the residual stream get 1/sqrt(2 layers) of it
};

// A causal language model (Radford et al. 2019): token and learned position embeddings, pre-norm blocks, a last norm,
// and the token embedding once more as the output layer.
struct Gpt {
  GptOptions options;
  Embedding token;     // [V, C]
  Embedding position;  // [context, C]
  std::vector<TransformerBlock> blocks;
  LayerNorm norm;

  Gpt(const GptOptions& options, Rng rng);

  // tokens i32 [B, T], T at most the context -> logits [B, T, V] of the token that follows each.
  Var operator()(Var tokens) const;

  void each(auto&& visit) { each_of(*this, visit); }
  void each(auto&& visit) const { each_of(*this, visit); }

 private:
  static void each_of(auto& self, auto& visit) {
    visit("token", self.token);
    visit("position", self.position);
    for (std::size_t i = 0; i < self.blocks.size(); ++i) visit("blocks." + std::to_string(i), self.blocks[i]);
    visit("norm", self.norm);
  }
};

}  // namespace attune
