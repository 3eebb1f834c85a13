// A GPT: a causal language model made of transformer blocks (Radford et al. 2019).
//
// Letters in shapes: B batch, T tokens, C width, V vocabulary.
#pragma once

#include <optional>
#include <vector>

#include "attune/layers/embedding.h"
#include "attune/layers/transformer.h"

namespace attune {

enum class Positions { learned, rope };

struct GptOptions {
  Index vocab = 0;    // V: how many tokens there are
  Index context = 0;  // the longest sequence
  int layers = 1;
  Index heads = 1;
  Index kv_heads = 0;  // as in MultiHeadAttentionOptions
  Index width = 0;     // C
  Index hidden = 0;    // of the perceptrons, as in MlpOptions
  bool bias = false;   // in the linear maps; layer norms keep theirs
  bool tied = true;    // the output layer is the token embedding once more, and no map of its own
  Positions positions = Positions::learned;
  double rope_base = 10000;
  Normalize normalize = Normalize::layer;
  Activation activation = Activation::gelu;
  Scale scale = {};  // on the attention scores
  double softcap = 0;
  Normalizer normalizer = Normalizer::softmax;  // this and the next three as in MultiHeadAttentionOptions
  bool ssmax = false;
  bool qk_norm = false;
  std::optional<double> learned_scale = {};
  double dropout = 0;       // of embeddings, weights, and what is added to the stream: Tape tape({.random = &rng})
  double deviation = 0.02;  // of initial weights; those that write into the residual stream get Init::residual
};

// What a Gpt has read so far, layer by layer. It owns its memory, and outlives the scopes in which it is used.
class GptCache {
 public:
  Index length() const { return layers_.empty() ? 0 : layers_.front().length(); }
  Index capacity() const { return layers_.empty() ? 0 : layers_.front().capacity(); }
  void truncate(Index length);  // forgets all but the first `length` tokens

 private:
  friend struct Gpt;
  std::vector<KvCache> layers_;
};

// Embeddings of tokens and positions, pre-norm blocks, a last norm, and the output layer. It owns its parameters, and
// moves. Options that make no model are a std::invalid_argument.
struct Gpt {
  GptOptions options;
  Embedding token;     // [V, C]
  Embedding position;  // [context, C], where positions are learned
  std::vector<TransformerBlock> blocks;
  Norm norm;
  Linear head;  // C -> V, where it is not tied

  Gpt(const GptOptions& options, Rng rng);

  // tokens i32 [B, T], T at most the context -> logits [B, T, V] of the token that follows each. More tokens than the
  // context, and ids outside of the vocabulary, are errors. Taps: those of the blocks, under "blocks.0." and so on.
  Var operator()(Var tokens) const;
  // The logits of T more tokens after those that the cache has read, under NoGrad: to the bit those of the whole
  // sequence, however it is cut.
  Var operator()(Var tokens, GptCache& cache) const;

  // An empty cache for `batch` sequences of up to the context.
  GptCache cache(Index batch = 1) const;

  void each(auto&& visit) {
    visit("token", token);
    visit("position", position);
    visit("blocks", blocks);
    visit("norm", norm);
    visit("head", head);
  }

 private:
  Var embed(Var tokens, Index first_position) const;
  Var logits(Var x) const;
};

}  // namespace attune
