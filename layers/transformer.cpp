#include "attune/layers/transformer.h"

namespace attune {

Var TransformerBlock::operator()(Var x) const {
  const Var attended = [&] {
    const Within within("attention");
    return attention(norm1(x));
  }();
  const Var between = tap("residual", x + attended);
  const Var thought = mlp(norm2(between));
  return tap("residual", between + thought);
}

Gpt::Gpt(const GptOptions& o, Rng rng)
    : options(o),
      token({.tokens = o.vocab, .width = o.width, .deviation = o.deviation}, rng),
      position({.tokens = o.context, .width = o.width, .deviation = o.deviation}, rng),
      norm(o.width) {
  check(o.vocab >= 1 && o.context >= 1 && o.layers >= 1 && o.width >= 1,
        "gpt: vocab {}, context {}, layers {} and width {} must be at least 1", o.vocab, o.context, o.layers, o.width);
  // Two sums per layer reach the residual stream; each starts smaller, so that their total does not grow with depth (Radford et al. 2019).
  const double into_residual = o.deviation / std::sqrt(2.0 * o.layers);
  blocks.reserve(static_cast<std::size_t>(o.layers));
  for (int layer = 0; layer < o.layers; ++layer)
    blocks.push_back(TransformerBlock(
        {.attention = {.width = o.width,
                       .heads = o.heads,
                       .bias = o.bias,
                       .mask = Mask::causal(),
                       .scale = o.scale,
                       .deviation = o.deviation,
                       .out_deviation = into_residual},
         .mlp = {.width = o.width, .bias = o.bias, .deviation = o.deviation, .out_deviation = into_residual}},
        rng));
}

Var Gpt::operator()(Var tokens) const {
  check(tokens.rank() == 2 && tokens.size(1) <= options.context,
        "gpt: tokens {} are not [batch, time] with a time of at most {}", tokens.shape(), options.context);
  const Var places = slice(position.weight, 0, 0, tokens.size(1));
  const Var words = token(tokens);
  Var x = tap("residual", words + places);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Within within("blocks", static_cast<int>(i));
    x = blocks[i](x);
  }
  const Var last = norm(x);
  const Var head = t(token.weight);
  return matmul(last, head);
}

}  // namespace attune
