#include "attune/layers/composed_attention.h"

#include "attune/autograd/ops/dropout.h"
#include "attune/autograd/ops/slice.h"
#include "attune/lib/kernels/gemm.h"
#include "attune/lib/kernels/masked.h"
#include "attune/lib/kernels/softmax.h"
#include "attune/lib/kernels/sparse_softmax.h"

namespace attune::detail {
namespace {

using kernels::Unseen;

// How many heads of queries read each head of keys.
Index group_size(const AttentionCall& call) {
  if (call.q.rank() < 3) return 1;
  const Index key_heads = call.k.size(-3);
  return key_heads == 0 ? 0 : call.q.size(-3) / key_heads;
}

// Of each group of heads, the one at `member`: as many as there are heads of keys.
template <class AnyView>
AnyView member_of(const AnyView& x, Index group, Index member) {
  return group == 1 ? x : x.slice(-3, member, x.size(-3), group);
}
Out member_of(const Out& x, Index group, Index member) { return Out(member_of(x.view, group, member), x.accumulate); }

// What a head of keys gets from the members of its group: the first may write, the others add.
Out from_member(const Out& x, Index member) { return Out(x.view, x.accumulate || member > 0); }

ConstView without_sink(const ConstView& x, Index keys) { return x.slice(-1, 0, keys); }

}  // namespace

Var attention_scores(const AttentionCall& call) {
  Shape shape = call.q.shape();
  shape[shape.rank() - 1] = call.k.size(-2);
  Var y = output(shape, {call.q, call.k});
  const Index group = group_size(call);
  for (Index member = 0; member < group; ++member)
    kernels::gemm(member_of(into(y), group, member), member_of(call.q.value(), group, member), call.k.value().t(),
                  call.scale);
  return record("attention_scores", y, [=] {
    // A pair that is hidden has slope 0, whatever its query and key are.
    const bool plain = kernels::all_finite(call.q.value()) && kernels::all_finite(call.k.value());
    const auto product = [&](const Out& c, const ConstView& a, const ConstView& b) {
      if (plain)
        kernels::gemm(c, a, b, call.scale);
      else
        kernels::multiply_where_seen(c, a, b, call.scale, a, Unseen::zero);
    };
    if (Out d = add_to(call.q))  // dq += scale dscores k
      for (Index member = 0; member < group; ++member)
        product(member_of(d, group, member), member_of(y.grad(), group, member), call.k.value());
    if (Out d = add_to(call.k))  // dk += scale dscoresᵀ q
      for (Index member = 0; member < group; ++member)
        product(from_member(d, member), member_of(y.grad(), group, member).t(),
                member_of(call.q.value(), group, member));
  });
}

Var masked_scores(const AttentionCall& call, Var scores) {
  const Shape full = scores.shape();
  const Index keys = full.last();
  Shape shape = full;
  if (call.sinks) shape[shape.rank() - 1] = keys + 1;
  const std::array<Var, 3> inputs{scores, call.bias.value_or(scores), call.sinks.value_or(scores)};
  Var y = output(shape, inputs);
  ConstView capped = scores.value();
  if (call.softcap > 0) {  // c tanh(s / c)
    const View place = saved(full, scores.dtype());
    kernels::scale(place, scores.value(), 1 / call.softcap);
    kernels::tanh(place, place);
    kernels::scale(place, place, call.softcap);
    capped = place;
  }
  kernels::masked_scores(into(y).view, capped, call.values());
  return record("masked_scores", y, [=] {
    const ConstView seen = without_sink(y.value(), keys);
    const View slopes = scratch(full, scores.dtype());
    kernels::where_seen(slopes, without_sink(y.grad(), keys), seen);
    if (call.bias)
      if (Out d = add_to(*call.bias)) kernels::sum(d, slopes);  // dbias += dy, summed where it was stretched
    if (call.sinks)
      if (Out d = add_to(*call.sinks)) {
        const Shape rows{full.rank() >= 3 ? full.last(2) : 1, full.last(1)};
        const ConstView sink_slopes = y.grad().slice(-1, keys, keys + 1).select(-1, 0);
        const ConstView sink_scores = y.value().slice(-1, keys, keys + 1).select(-1, 0);
        const View seen_slopes = scratch(sink_slopes.shape(), scores.dtype());
        kernels::where_seen(seen_slopes, sink_slopes, sink_scores);
        kernels::sum(Out(d.view.reshape({rows[0], 1}), d.accumulate), seen_slopes);
      }
    if (call.softcap > 0) {  // dscores = dy (1 - tanh²)
      const View factor = scratch(full, scores.dtype()), one = scratch({}, scores.dtype());
      kernels::scale(factor, capped, 1 / call.softcap);
      kernels::multiply(factor, factor, factor);
      kernels::fill(one, 1);
      kernels::subtract(factor, one, factor);
      kernels::multiply(slopes, slopes, factor);
    }
    if (Out d = add_to(scores)) kernels::where_seen(d, slopes, seen);
  });
}

namespace {

// `shifted` is what sigmoid reads: masked - ln n.
void normalize(const AttentionCall& call, const Out& y, const ConstView& masked, const View& shifted) {
  switch (call.normalizer) {
    case Normalizer::softmax:
    case Normalizer::softmax1:
      return kernels::softmax(y, masked);
    case Normalizer::sigmoid:
      kernels::add(shifted, masked, call.less_log_keys->value());
      return kernels::sigmoid(y, shifted);
    case Normalizer::sparsemax:
      return kernels::sparsemax(y, masked);
    case Normalizer::entmax15:
      return kernels::entmax15(y, masked);
  }
}

void normalize_backward(const AttentionCall& call, const Out& dx, const ConstView& dy, const ConstView& y,
                        const ConstView& shifted) {
  switch (call.normalizer) {
    case Normalizer::softmax:
    case Normalizer::softmax1:
      return kernels::softmax_backward(dx, dy, y);  // dx = y (dy - dy·y)
    case Normalizer::sigmoid:
      return kernels::sigmoid_backward(dx, dy, shifted);  // dx = dy y (1 - y)
    case Normalizer::sparsemax:
      return kernels::sparsemax_backward(dx, dy, y);
    case Normalizer::entmax15:
      return kernels::entmax15_backward(dx, dy, y);
  }
}

}  // namespace

Var attention_weights(const AttentionCall& call, Var masked) {
  Var y = output(masked.shape(), {masked});
  const bool keeps_shifted = call.normalizer == Normalizer::sigmoid;
  const View shifted = keeps_shifted ? saved(masked.shape(), masked.dtype()) : View();
  normalize(call, into(y), masked.value(), shifted);
  kernels::where_seen(into(y).view, into(y).view, masked.value());  // in a row of NaN, too
  record("attention_weights", y, [=] {
    if (Out d = add_to(masked)) {
      const View seen = scratch(y.shape(), y.dtype()), slopes = scratch(y.shape(), y.dtype());
      kernels::where_seen(seen, y.grad(), masked.value());
      normalize_backward(call, slopes, seen, y.value(), shifted);
      kernels::where_seen(d, slopes, masked.value());
    }
  });
  return call.sinks ? slice(y, -1, 0, y.size(-1) - 1) : y;
}

Var weigh(const AttentionCall& call, Var all_weights, const std::optional<Var>& masked) {
  const Var weights = call.dropout ? dropout(all_weights, *call.dropout) : all_weights, v = call.v;
  const Index keys = weights.size(-1), group = group_size(call);
  Shape shape = weights.shape();
  const int rank = shape.rank();
  shape[rank - 1] = v.size(-1);
  if (rank >= 3) std::swap(shape[rank - 2], shape[rank - 3]);
  const Var root = output(shape, {weights, v});
  const Var y = rank >= 3 ? view_of("weigh", root, swap_heads) : root;
  const ConstView sight = masked ? without_sink(masked->value(), keys) : all_weights.value();
  const Unseen unseen = masked ? Unseen::minus_infinity : Unseen::zero;
  const auto product = [=](const Out& c, const ConstView& a, const ConstView& b, const ConstView& seen) {
    if (kernels::all_finite(b))
      kernels::gemm(c, a, b);
    else
      kernels::multiply_where_seen(c, a, b, 1, seen, unseen);
  };
  for (Index member = 0; member < group; ++member)
    product(member_of(into(y), group, member), member_of(weights.value(), group, member), v.value(),
            member_of(sight, group, member));
  return record("weigh", y, [=] {
    if (Out d = add_to(weights))  // dweights += dy vᵀ
      for (Index member = 0; member < group; ++member)
        kernels::gemm(member_of(d, group, member), member_of(y.grad(), group, member), v.value().t());
    if (Out d = add_to(v))  // dv += weightsᵀ dy
      for (Index member = 0; member < group; ++member)
        product(from_member(d, member), member_of(weights.value(), group, member).t(),
                member_of(y.grad(), group, member), member_of(sight, group, member).t());
  });
}

AttentionResult composed_attention(const AttentionCall& call) {
  const Var scores = attention_scores(call);
  const Var masked = masked_scores(call, scores);
  const Var weights = attention_weights(call, masked);
  const Var y = weigh(call, weights, masked);
  Tensor log_sum_exp(Shape(std::span(scores.shape().begin(), scores.shape().end() - 1)), scores.dtype());
  kernels::log_sum_exp(log_sum_exp, masked.value());
  return {y, weights, std::move(log_sum_exp)};
}

}  // namespace attune::detail
