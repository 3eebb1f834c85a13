#include "attune/layers/multi_head_attention.h"

#include <cmath>

#include "attune/autograd/ops/l2_normalize.h"

namespace attune {
namespace {

// The options with what their zeros stand for.
MultiHeadAttentionOptions completed(MultiHeadAttentionOptions o) {
  check(o.heads >= 1 && o.width >= 1, "attention: {} heads and a width of {} must be at least 1", o.heads, o.width);
  check(o.key_width >= 0 && o.value_width >= 0 && o.memory_width >= 0,
        "attention: key_width {}, value_width {} or memory_width {} is negative", o.key_width, o.value_width,
        o.memory_width);
  detail::check_numbers(o.softcap, o.dropout);
  if (o.kv_heads == 0) o.kv_heads = o.heads;
  check(o.kv_heads >= 1 && o.heads % o.kv_heads == 0, "attention: {} heads do not share {} heads of keys and values",
        o.heads, o.kv_heads);
  check((o.key_width > 0 && o.value_width > 0) || o.width % o.heads == 0,
        "attention: a width of {} does not divide among {} heads", o.width, o.heads);
  if (o.key_width == 0) o.key_width = o.width / o.heads;
  if (o.value_width == 0) o.value_width = o.width / o.heads;
  if (o.qk_norm && !o.learned_scale) o.learned_scale = std::sqrt(static_cast<double>(o.key_width));
  check(!(o.rope && o.memory_width > 0), "attention: rope has no meaning between a sequence and a memory");
  return o;
}

bool attends_to_itself(const MultiHeadAttentionOptions& o) { return o.memory_width == 0; }
Index query_columns(const MultiHeadAttentionOptions& o) { return o.heads * o.key_width; }
Index key_value_columns(const MultiHeadAttentionOptions& o) { return o.kv_heads * (o.key_width + o.value_width); }

Linear map(Index in, Index out, const MultiHeadAttentionOptions& o, Rng& rng) {
  return Linear({.in = in, .out = out, .bias = o.bias, .init = o.init}, rng);
}

// Columns begin ... begin + heads * width - 1 of x as heads: [..., L, C] -> [..., heads, L, width], a view.
Var heads_of(Var x, Index begin, Index heads, Index width) {
  const Var columns = slice(x, -1, begin, begin + heads * width);
  return view_of("split_heads", columns, [&](const View& view) {
    Shape shape = view.shape();
    shape[shape.rank() - 1] = heads;
    shape.append(width);
    return detail::swap_heads(view.reshape(shape));
  });
}

}  // namespace

struct MultiHeadAttention::Heads {
  Var q, k, v;
};

MultiHeadAttention::MultiHeadAttention(const MultiHeadAttentionOptions& given, Rng& rng) : options(completed(given)) {
  const MultiHeadAttentionOptions& o = options;
  if (attends_to_itself(o)) {
    qkv = map(o.width, query_columns(o) + key_value_columns(o), o, rng);
  } else {
    query = map(o.width, query_columns(o), o, rng);
    key_value = map(o.memory_width, key_value_columns(o), o, rng);
  }
  out = Linear({.in = o.heads * o.value_width, .out = o.width, .bias = o.bias, .init = o.out_init}, rng);
  if (o.sinks) sinks = Parameter(Shape{o.heads});
  if (o.learned_scale) {
    scale = Parameter(full({o.heads, 1, 1}, *o.learned_scale));
    scale.set_decay(false);  // a number per head, whatever its rank
  }
}

MultiHeadAttention::Heads MultiHeadAttention::project(Var x, Index first_position) const {
  const MultiHeadAttentionOptions& o = options;
  check(attends_to_itself(o), "attention: this layer asks a memory of width {}, and got none", o.memory_width);
  const Var all = qkv(x);
  const Index keys = query_columns(o), values = keys + o.kv_heads * o.key_width;
  Var q = heads_of(all, 0, o.heads, o.key_width);
  Var k = heads_of(all, keys, o.kv_heads, o.key_width);
  const Var v = heads_of(all, values, o.kv_heads, o.value_width);
  if (o.rope) {
    q = (*o.rope)(q, first_position);
    k = (*o.rope)(k, first_position);
  }
  return {q, k, v};
}

Var MultiHeadAttention::attend(const Heads& heads, const Mask& mask) const {
  const MultiHeadAttentionOptions& o = options;
  AttentionOptions how{.mask = o.mask & mask,
                       .scale = o.scale,
                       .softcap = o.softcap,
                       .dropout = o.dropout,
                       .normalizer = o.normalizer,
                       .ssmax = o.ssmax};
  if (scale.exists()) how.scale = Var(scale);
  if (o.alibi) how.bias = Var(alibi_bias(o.heads, heads.q.size(-2), heads.k.size(-2), heads.q.dtype()));
  if (sinks.exists()) how.sinks = Var(sinks);
  const Var q = tap("queries", o.qk_norm ? l2_normalize(heads.q) : heads.q);
  const Var k = tap("keys", o.qk_norm ? l2_normalize(heads.k) : heads.k);
  const Var v = tap("values", heads.v);
  const Var y = attention(q, k, v, how);
  const Var said = tap("heads", view_of("merge_heads", y, detail::swap_heads));
  Shape flat = said.shape();
  flat = Shape(std::span(flat.begin(), flat.end() - 1));
  flat[flat.rank() - 1] = o.heads * o.value_width;
  return out(reshape(contiguous(said), flat));
}

Var MultiHeadAttention::operator()(Var x, const Mask& mask) const { return attend(project(x, 0), mask); }

Var MultiHeadAttention::operator()(Var x, Var memory, const Mask& mask) const {
  const MultiHeadAttentionOptions& o = options;
  check(!attends_to_itself(o), "attention: this layer attends to itself, and got a memory of {}", memory.shape());
  const Var asked = query(x);
  const Var known = key_value(memory);
  const Var q = heads_of(asked, 0, o.heads, o.key_width);
  const Var k = heads_of(known, 0, o.kv_heads, o.key_width);
  const Var v = heads_of(known, o.kv_heads * o.key_width, o.kv_heads, o.value_width);
  return attend({q, k, v}, mask);
}

Var MultiHeadAttention::operator()(Var x, KvCache& cache) const {
  check(options.mask.suits_cache(),
        "attention: a cache is for a causal mask or a window, aligned at the bottom right, and this layer's is {}",
        options.mask);
  const Heads now = project(x, cache.length());
  check(!now.k.needs_grad(), "attention: a cache holds no gradients: read it under NoGrad");
  return detail::read_or_forget(cache, [&] {
    cache.append(now.k.value(), now.v.value());
    const Var keys = cache.keys_;
    const Var values = cache.values_;
    const Var k = slice(keys, 2, 0, cache.length());
    const Var v = slice(values, 2, 0, cache.length());
    return attend({now.q, k, v}, {});
  });
}

KvCache MultiHeadAttention::cache(Index batch, Index capacity) const {
  const MultiHeadAttentionOptions& o = options;
  check(attends_to_itself(o), "attention: a cache is for a layer that attends to itself");
  return KvCache({batch, o.kv_heads, capacity, o.key_width}, {batch, o.kv_heads, capacity, o.value_width},
                 qkv.weight.dtype());
}

}  // namespace attune
