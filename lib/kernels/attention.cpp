#include "attune/lib/kernels/attention.h"

#include <algorithm>

#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/kernels/rowwise.h"
#include "attune/lib/kernels/run.h"

namespace attune::kernels {
namespace {

// Which scratch slot holds what; the kernels called from here use none of them.
enum Slot { kQ, kK, kV, kDy, kY, kDq, kDk, kDv, kDots, kMemory };

// ---- Checks -------------------------------------------------------------------------------------------------

bool same_batch(const Shape& a, const Shape& b) {
  return a.rank() == b.rank() && std::equal(a.begin(), a.end() - std::min(3, a.rank()), b.begin());
}

Index heads_of(const Shape& shape) { return shape.rank() >= 3 ? shape.last(2) : 1; }

Index batch_of(const Shape& shape) {
  Index count = 1;
  for (int axis = 0; axis < shape.rank() - 3; ++axis) count *= shape[axis];
  return count;
}

void check_shapes(const Shape& q, const Shape& k, const Shape& v) {
  check(q.rank() >= 2 && same_batch(q, k) && same_batch(q, v) && heads_of(k) == heads_of(v),
        "attention: q {}, k {} and v {} need two axes and the same leading ones", q, k, v);
  const Index heads = heads_of(q), key_heads = heads_of(k);
  check(key_heads > 0 ? heads % key_heads == 0 : heads == 0,
        "attention: q {} and k {}: {} heads of queries do not divide among {} heads of keys", q, k, heads, key_heads);
  check(q.last() == k.last(), "attention: q {} and k {}: widths {} and {} differ", q, k, q.last(), k.last());
  check(k.last(1) == v.last(1), "attention: k {} has {} keys and v {} has {}", k, k.last(1), v, v.last(1));
  check(q.last() > 0 && v.last() > 0, "attention: q {}, v {}: a head has no width", q, v);
}

void check_type(DType actual, DType expected) {
  check(actual == expected, "attention: element types {} and {} differ", expected, actual);
}

void check_mask(const AttentionMask& mask, const Shape& scores) {
  const Index batch = batch_of(scores), keys = scores.last();
  if (!mask.lengths.empty()) {
    check(static_cast<Index>(mask.lengths.size()) == batch,
          "attention: scores {} have a batch of {}, and the padding {} lengths", scores, batch, mask.lengths.size());
    for (std::size_t entry = 0; entry < mask.lengths.size(); ++entry)
      check(mask.lengths[entry] >= 0 && mask.lengths[entry] <= keys,
            "attention: batch entry {} has a length of {} of {} keys", entry, mask.lengths[entry], keys);
  }
  if (!mask.allow) return;
  check(mask.allow->dtype() == i32, "attention: allow is i32 of 0 and 1, not {}", mask.allow->dtype());
  check(broadcasts_to(mask.allow->shape(), scores), "attention: allow {} does not stretch to the scores {}",
        mask.allow->shape(), scores);
}

void check_same_shape(const char* what, const Shape& actual, const Shape& expected) {
  check(actual == expected, "attention: {} {} is not {}", what, actual, expected);
}

Shape shape_of_y(const Attention& a) {
  Shape shape = a.q.shape();
  shape[shape.rank() - 1] = a.v.shape().last();
  return shape;
}

Shape shape_of_rows(const Attention& a) { return without_last(a.q.shape()); }

// ---- Lowering -----------------------------------------------------------------------------------------------

AttentionOperand operand_of(const ConstView& view) {
  AttentionOperand operand{};
  operand.data = const_cast<void*>(view.data());
  operand.column = view.stride(-1);
  operand.row = view.stride(-2);
  if (view.rank() >= 3) operand.head = view.stride(-3);
  for (int axis = 0; axis < view.rank() - 3; ++axis)
    operand.batch[axis] = view.strides()[static_cast<std::size_t>(axis)];
  return operand;
}

AttentionOperand operand_of(const DenseOut& out) { return out.wanted() ? operand_of(out.view()) : AttentionOperand{}; }

// What a call is made of, and how much of it there is.
struct Call {
  AttentionArguments arguments{};
  DType type;
  Index batch, pairs;  // how many batch entries, and heads of queries in all of them

  explicit Call(const Attention& a) : type(a.q.dtype()) {
    const Shape& q = a.q.shape();
    const Shape& k = a.k.shape();
    AttentionArguments& to = arguments;
    to.batch_rank = std::max(q.rank() - 3, 0);
    std::copy_n(q.begin(), to.batch_rank, to.batch_sizes);
    batch = batch_of(q);
    to.heads = heads_of(q);
    to.key_heads = heads_of(k);
    pairs = batch * to.heads;
    to.queries = q.last(1);
    to.keys = k.last(1);
    to.width = q.last();
    to.value_width = a.v.shape().last();
    to.q = operand_of(dense_rows(a.q, kQ));
    to.k = operand_of(dense_rows(a.k, kK));
    to.v = operand_of(dense_rows(a.v, kV));
    to.scale = a.scale;
    to.softcap = a.softcap;
    to.first = a.mask.first;
    to.last = a.mask.last;
    to.lengths = a.mask.lengths.empty() ? nullptr : a.mask.lengths.data();
    to.drops = a.dropout.has_value();
    if (a.dropout) to.dropout = *a.dropout;
    if (a.sinks) {
      to.sinks = a.sinks->data();
      to.sink_stride = a.sinks->stride(0);
    }
    Shape scores = q;
    scores[scores.rank() - 1] = to.keys;
    if (a.bias) to.bias = operand_of(a.bias->expand(scores));
    if (a.mask.allow) to.allow = operand_of(a.mask.allow->expand(scores));
  }

  // Statistics are two arrays, one after the other.
  void set_statistics(const ConstView& statistics) {
    const Index bytes = pairs * arguments.queries * size_of(type);
    arguments.maxima = const_cast<void*>(statistics.data());
    arguments.totals = static_cast<char*>(arguments.maxima) + bytes;
  }

  // Runs a body over its items, each thread with memory of its own.
  void run(const Bodies& bodies, Index items, Index cost) const {
    if (items <= 0) return;
    const Body body = body_of(bodies, type);
    const Index bytes = attention_memory(arguments.width, arguments.value_width) * size_of(type);
    const auto on_this_thread = [&](Index begin, Index end) {
      const DenormalMode mode(type);
      AttentionArguments own = arguments;
      own.memory = scratch(kMemory, bytes);
      body(&own, begin, end);
    };
    if (items == 1 || items * cost < kParallelCost) return on_this_thread(0, items);
    parallel_for(items, std::max<Index>(1, kParallelCost / 8 / std::max<Index>(cost, 1)), on_this_thread);
  }

  Index query_blocks() const { return (arguments.queries + kAttentionQueries - 1) / kAttentionQueries; }
  Index key_blocks() const { return (arguments.keys + kAttentionKeys - 1) / kAttentionKeys; }
  // Of all scores of a head, times what each costs.
  Index cost_of_head() const {
    return arguments.queries * arguments.keys * (arguments.width + arguments.value_width + 16) / 2 + 64;
  }
};

void check_statistics(const ConstView& statistics, const Attention& a) {
  Shape expected{2};
  for (const Index size : shape_of_rows(a)) expected.append(size);
  check_same_shape("the statistics'", statistics.shape(), expected);
  check(statistics.dtype() == a.q.dtype() && statistics.is_contiguous(),
        "attention: statistics of {} must be contiguous {}", statistics.dtype(), a.q.dtype());
}

}  // namespace

Shape check_attention(const Attention& a) {
  const DType type = a.q.dtype();
  for (const ConstView* x : {&a.k, &a.v}) check_type(x->dtype(), type);
  check(is_float(type), "attention: it computes with f32, f64 or dual, and got {}", type);
  check_shapes(a.q.shape(), a.k.shape(), a.v.shape());
  check(a.softcap >= 0, "attention: a softcap of {} is below 0", a.softcap);
  Shape scores = a.q.shape();
  scores[scores.rank() - 1] = a.k.shape().last(1);
  if (a.bias) {
    check_type(a.bias->dtype(), type);
    check(broadcasts_to(a.bias->shape(), scores), "attention: bias {} does not stretch to the scores {}",
          a.bias->shape(), scores);
  }
  if (a.sinks) {
    check_type(a.sinks->dtype(), type);
    check(a.sinks->shape() == Shape{heads_of(scores)}, "attention: sinks {} are not one for each of {} heads",
          a.sinks->shape(), heads_of(scores));
  }
  check_mask(a.mask, scores);
  return scores;
}

void attention(const Out& y, const View& statistics, const Attention& a) {
  if (!y) return;
  check_attention(a);
  check_same_shape("y", y.view.shape(), shape_of_y(a));
  check_statistics(statistics, a);
  Call call(a);
  const DenseOut out(y, false, kY);
  call.arguments.y = operand_of(out);
  call.set_statistics(statistics);
  const Index blocks = call.query_blocks();
  call.run(table().attention, call.pairs * blocks, call.cost_of_head() / std::max<Index>(blocks, 1));
  out.finish();
}

void attention_weights(const View& weights, const ConstView& statistics, const Attention& a) {
  check_same_shape("weights", weights.shape(), check_attention(a));
  check(weights.is_contiguous(), "attention: weights {} must be contiguous", weights.shape());
  check_statistics(statistics, a);
  fill(weights, 0);
  Call call(a);
  call.arguments.y = operand_of(weights);
  call.set_statistics(statistics);
  const Index blocks = call.query_blocks();
  call.run(table().attention_weights, call.pairs * blocks, call.cost_of_head() / std::max<Index>(blocks, 1));
}

void attention_backward(const AttentionGradients& gradients, const ConstView& dy, const ConstView& y,
                        const ConstView& statistics, const Attention& a) {
  const Shape scores = check_attention(a);
  check_same_shape("y", y.shape(), shape_of_y(a));
  check_same_shape("dy", dy.shape(), shape_of_y(a));
  check_statistics(statistics, a);
  Call call(a);
  AttentionArguments& to = call.arguments;
  const DenseOut dq(gradients.dq, true, kDq), dk(gradients.dk, true, kDk), dv(gradients.dv, true, kDv);
  to.dq = operand_of(dq);
  to.dk = operand_of(dk);
  to.dv = operand_of(dv);
  to.adds_to_dq = dq.accumulate();
  to.adds_to_dk = dk.accumulate();
  to.adds_to_dv = dv.accumulate();
  to.dy = operand_of(dense_rows(dy, kDy));
  to.y = operand_of(dense_rows(y, kY));
  to.dots = scratch(kDots, call.pairs * to.queries * size_of(call.type));
  if (gradients.dscores) {
    check_same_shape("dscores", gradients.dscores->shape(), scores);
    fill(*gradients.dscores, 0);
    to.dscores = operand_of(*gradients.dscores);
  }
  if (gradients.dsinks) to.dsinks = gradients.dsinks->data();
  call.set_statistics(statistics);

  // One pass computes each weight once, but has an item only for each head of keys; two passes compute 7 products where
  // one computes 5. Both have the same bits.
  const Index items = call.batch * to.key_heads, all_threads = threads(), cost = 5 * call.cost_of_head() / 2;
  const Index rounds = (items + all_threads - 1) / all_threads;
  const Index blocks = call.query_blocks(), key_blocks = call.key_blocks();
  const bool in_two_passes = 5 * rounds * all_threads > 7 * items && blocks > 1 && key_blocks > 1;
  if (in_two_passes) {
    call.run(table().attention_backward_queries, call.pairs * blocks, cost / blocks);
    call.run(table().attention_backward_keys, items * key_blocks, cost * (to.heads / to.key_heads) / key_blocks);
  } else {
    call.run(table().attention_backward, items, cost * (to.key_heads > 0 ? to.heads / to.key_heads : 0));
  }
  for (const DenseOut* out : {&dq, &dk, &dv}) out->finish();
}

}  // namespace attune::kernels
