#include "attune/layers/attention.h"

#include "attune/autograd/ops.h"

namespace attune {

View detail::swap_heads(const View& x) {
  int order[kMaxRank] = {0, 1, 2, 3, 4, 5};
  std::swap(order[x.rank() - 2], order[x.rank() - 3]);
  return x.permute(std::span(order).first(static_cast<std::size_t>(x.rank())));
}

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

// weights v, with the heads' axis moved behind the queries' in memory.
Var weigh(Var weights, Var v) {
  Shape shape = v.shape();
  const int rank = shape.rank();
  shape[rank - 2] = weights.size(-2);
  if (rank < 3) return matmul(weights, v);
  std::swap(shape[rank - 2], shape[rank - 3]);
  const Var y = view_of("weigh", output(shape, {weights, v}), detail::swap_heads);
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

}  // namespace attune
