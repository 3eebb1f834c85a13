#include "attune/layers/attention.h"

namespace attune {
namespace {

bool same_leading(const Shape& a, const Shape& b) {
  return a.rank() == b.rank() && std::equal(a.begin(), a.end() - 2, b.begin());
}

void check_shapes(const Shape& q, const Shape& k, const Shape& v) {
  check(q.rank() >= 2 && same_leading(q, k) && same_leading(q, v),
        "attention: q {}, k {} and v {} need two axes and the same leading ones", q, k, v);
  check(q.last() == k.last(), "attention: q {} and k {}: widths {} and {} differ", q, k, q.last(), k.last());
  check(k.last(1) == v.last(1), "attention: k {} has {} keys and v {} has {}", k, k.last(1), v, v.last(1));
  check(q.last() > 0 && v.last() > 0, "attention: q {}, v {}: a head has no width", q, v);
}

// [..., L, H, width] as [..., H, L, width], and back.
View swap_heads(const View& x) {
  int order[kMaxRank] = {0, 1, 2, 3, 4, 5};
  std::swap(order[x.rank() - 2], order[x.rank() - 3]);
  return x.permute(std::span(order).first(static_cast<std::size_t>(x.rank())));
}

// weights v, with the heads' axis moved behind the queries' in memory.
Var weigh(Var weights, Var v) {
  Shape shape = v.shape();
  const int rank = shape.rank();
  shape[rank - 2] = weights.size(-2);
  if (rank < 3) return matmul(weights, v);
  std::swap(shape[rank - 2], shape[rank - 3]);
  const Var y = view_of("weigh", output(shape, {weights, v}), swap_heads);
  kernels::gemm(into(y), weights.value(), v.value());
  return record("weigh", y, [=] {
    if (Out d = add_to(weights)) kernels::gemm(d, y.grad(), v.value().t());  // dweights += dy vᵀ
    if (Out d = add_to(v)) kernels::gemm(d, weights.value().t(), y.grad());  // dv += weightsᵀ dy
  });
}

}  // namespace

Var attention(Var q, Var k, Var v, const AttentionOptions& options) {
  check_shapes(q.shape(), k.shape(), v.shape());
  const Index queries = q.size(-2), keys = k.size(-2);
  const Var scores = tap("scores", matmul(q, t(k), options.scale(q.size(-1))));
  const Var weights = tap("weights", softmax(scores, options.mask.visible(queries, keys)));
  return weigh(weights, v);
}

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
      return swap_heads(view.reshape(shape));
    });
  };
  const Var q = split(0, keys, key_width);
  const Var k = split(keys, 2 * keys, key_width);
  const Var v = split(2 * keys, total, value_width);
  const Var y = attention(q, k, v, attend);
  const Var said = tap("heads", view_of("merge_heads", y, swap_heads));
  Shape flat = x.shape();
  flat[flat.rank() - 1] = heads * value_width;
  return out(reshape(contiguous(said), flat));
}

}  // namespace attune
