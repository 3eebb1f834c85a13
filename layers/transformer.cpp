#include "attune/layers/transformer.h"

namespace attune {
namespace {

// One part of a layer, with its norm and its sum.
template <class Part>
Var added(Var x, const Norm& norm, NormPlace place, const Dropout& dropout, Part&& part) {
  if (place == NormPlace::pre) {
    const Var said = dropout(part(norm(x)));
    return tap("residual", x + said);
  }
  const Var said = dropout(part(x));
  return tap("residual", norm(x + said));
}

template <class Attend>
Var block(const TransformerBlock& b, Var x, Attend&& attend) {
  const Var between = added(x, b.norm1, b.place, b.dropout, [&](Var y) {
    const Within within("attention");
    return attend(y);
  });
  return added(between, b.norm2, b.place, b.dropout, [&](Var y) {
    const Within within("mlp");
    return b.mlp(y);
  });
}

TransformerBlockOptions block_options(const EncoderLayerOptions& o) {
  return {.attention = {.width = o.width, .heads = o.heads, .bias = o.bias, .dropout = o.dropout},
          .mlp = {.width = o.width, .hidden = o.hidden, .activation = o.activation, .bias = o.bias},
          .place = o.place,
          .dropout = o.dropout};
}

MultiHeadAttentionOptions causal(MultiHeadAttentionOptions o) {
  o.mask = Mask::causal();
  return o;
}
MultiHeadAttentionOptions crossing(MultiHeadAttentionOptions o, Index memory_width) {
  o.memory_width = memory_width == 0 ? o.width : memory_width;
  return o;
}

}  // namespace

Var TransformerBlock::operator()(Var x, const Mask& mask) const {
  return block(*this, x, [&](Var y) { return attention(y, mask); });
}

Var TransformerBlock::operator()(Var x, KvCache& cache) const {
  return block(*this, x, [&](Var y) { return attention(y, cache); });
}

EncoderLayer::EncoderLayer(const EncoderLayerOptions& options, Rng& rng)
    : TransformerBlock(block_options(options), rng) {}

DecoderLayer::DecoderLayer(const DecoderLayerOptions& o, Rng& rng, Index memory_width)
    : norm1(o.width),
      attention(causal(block_options(o).attention), rng),
      norm2(o.width),
      cross(crossing(block_options(o).attention, memory_width), rng),
      norm3(o.width),
      mlp(block_options(o).mlp, rng),
      place(o.place),
      dropout(o.dropout) {}

Var DecoderLayer::operator()(Var x, Var memory, const Mask& memory_mask) const {
  const Var self = added(x, norm1, place, dropout, [&](Var y) {
    const Within within("attention");
    return attention(y);
  });
  const Var informed = added(self, norm2, place, dropout, [&](Var y) {
    const Within within("cross");
    return cross(y, memory, memory_mask);
  });
  return added(informed, norm3, place, dropout, [&](Var y) {
    const Within within("mlp");
    return mlp(y);
  });
}

}  // namespace attune
