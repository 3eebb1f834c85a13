#include "attune/layers/multi_head_attention.h"

namespace attune {
namespace {

Index per_head(Index given, const MultiHeadAttentionOptions& o) {
  if (given > 0) return given;
  check(o.heads >= 1 && o.width % o.heads == 0, "attention: a width of {} does not divide among {} heads", o.width,
        o.heads);
  return o.width / o.heads;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const MultiHeadAttentionOptions& o, Rng& rng)
    : qkv({.in = o.width,
           .out = o.heads * (2 * per_head(o.key_width, o) + per_head(o.value_width, o)),
           .bias = o.bias,
           .deviation = o.deviation},
          rng),
      out({.in = o.heads * per_head(o.value_width, o), .out = o.width, .bias = o.bias, .deviation = o.out_deviation},
          rng),
      heads(o.heads),
      key_width(per_head(o.key_width, o)),
      value_width(per_head(o.value_width, o)),
      attend{o.mask, o.scale} {}

Var MultiHeadAttention::operator()(Var x) const {
  const Var all = qkv(x);
  const Index keys = heads * key_width, total = all.size(-1);
  // Columns begin ... end - 1 of the buffer, as heads: [..., L, H width] -> [..., H, L, width].
  const auto split = [&](Index begin, Index end, Index width) {
    const Var columns = slice(all, -1, begin, end);
    return view_of("split_heads", columns, [&](const View& view) {
      Shape shape = view.shape();
      shape[shape.rank() - 1] = heads;
      shape.append(width);
      return detail::swap_heads(view.reshape(shape));
    });
  };
  const Var q = split(0, keys, key_width);
  const Var k = split(keys, 2 * keys, key_width);
  const Var v = split(2 * keys, total, value_width);
  const Var y = attention(q, k, v, attend);
  const Var said = tap("heads", view_of("merge_heads", y, detail::swap_heads));
  Shape flat = x.shape();
  flat[flat.rank() - 1] = heads * value_width;
  return out(reshape(contiguous(said), flat));
}

}  // namespace attune
