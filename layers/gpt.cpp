#include "attune/layers/gpt.h"

namespace attune {
namespace {

TransformerBlockOptions block_options(const GptOptions& o) {
  const Init init = Init::normal(o.deviation), out_init = Init::residual(o.deviation, o.layers);
  TransformerBlockOptions block{.attention = {.width = o.width,
                                              .heads = o.heads,
                                              .kv_heads = o.kv_heads,
                                              .bias = o.bias,
                                              .mask = Mask::causal(),
                                              .scale = o.scale,
                                              .softcap = o.softcap,
                                              .dropout = o.dropout,
                                              .normalizer = o.normalizer,
                                              .ssmax = o.ssmax,
                                              .qk_norm = o.qk_norm,
                                              .learned_scale = o.learned_scale,
                                              .init = init,
                                              .out_init = out_init},
                                .mlp = {.width = o.width,
                                        .hidden = o.hidden,
                                        .activation = o.activation,
                                        .bias = o.bias,
                                        .init = init,
                                        .out_init = out_init},
                                .normalize = o.normalize,
                                .dropout = o.dropout};
  if (o.positions == Positions::rope) {
    check(o.heads >= 1 && o.width % o.heads == 0, "gpt: a width of {} does not divide among {} heads", o.width, o.heads);
    block.attention.rope = Rope({.width = o.width / o.heads, .context = o.context, .base = o.rope_base});
  }
  return block;
}

const GptOptions& checked(const GptOptions& o) {
  check(o.vocab >= 1 && o.context >= 1 && o.layers >= 1 && o.width >= 1,
        "gpt: vocab {}, context {}, layers {} and width {} must be at least 1", o.vocab, o.context, o.layers, o.width);
  return o;
}

Embedding embedding_of(Index tokens, const GptOptions& o, Rng& rng) {
  return Embedding({.tokens = tokens, .width = o.width, .init = Init::normal(o.deviation)}, rng);
}

}  // namespace

void GptCache::truncate(Index length) {
  for (KvCache& layer : layers_) layer.truncate(length);
}

Gpt::Gpt(const GptOptions& o, Rng rng) : options(checked(o)), norm(o.width, o.normalize) {
  token = embedding_of(o.vocab, o, rng);
  if (o.positions == Positions::learned) position = embedding_of(o.context, o, rng);
  const TransformerBlockOptions block = block_options(o);
  blocks.reserve(static_cast<std::size_t>(o.layers));
  for (int layer = 0; layer < o.layers; ++layer) blocks.emplace_back(block, rng);
  if (!o.tied) head = Linear({.in = o.width, .out = o.vocab, .bias = o.bias, .init = Init::normal(o.deviation)}, rng);
}

Var Gpt::embed(Var tokens, Index first) const {
  check(tokens.rank() == 2, "gpt: tokens {} are not [batch, time]", tokens.shape());
  const Index end = first + tokens.size(1);
  check(end <= options.context, "gpt: {} tokens do not fit into a context of {}", end, options.context);
  Var x = token(tokens);
  if (position.weight.exists()) {
    const Var places = slice(position.weight, 0, first, end);
    x = x + places;
  }
  return tap("residual", dropout(x, options.dropout));
}

Var Gpt::logits(Var x) const {
  const Var last = norm(x);
  if (head.exists()) return head(last);
  const Var words = t(token.weight);
  return matmul(last, words);
}

Var Gpt::operator()(Var tokens) const {
  Var x = embed(tokens, 0);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Within within("blocks", static_cast<int>(i));
    x = blocks[i](x);
  }
  return logits(x);
}

Var Gpt::operator()(Var tokens, GptCache& cache) const {
  check(cache.layers_.size() == blocks.size(), "gpt: a cache of {} layers does not fit a model of {}",
        cache.layers_.size(), blocks.size());
  return detail::read_or_forget(cache, [&] {
    Var x = embed(tokens, cache.length());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const Within within("blocks", static_cast<int>(i));
      x = blocks[i](x, cache.layers_[i]);
    }
    return logits(x);
  });
}

GptCache Gpt::cache(Index batch) const {
  GptCache cache;
  for (const TransformerBlock& block : blocks) cache.layers_.push_back(block.attention.cache(batch, options.context));
  return cache;
}

}  // namespace attune
