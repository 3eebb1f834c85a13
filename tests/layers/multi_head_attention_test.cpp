// MultiHeadAttention: the formula in double, its widths, what it may and may not depend on, and what it refuses.
#include "attune/layers/multi_head_attention.h"

#include "../lib/kernel_check.h"
#include "attune/autograd/gradcheck.h"
#include "attune/autograd/ops.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

using Doubles = std::vector<double>;

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

bool sees(Index query, Index key, Index queries, Index keys, bool causal) {
  return !causal || key <= query + keys - queries;
}

// One head by the book: q [L, d], k [S, d], v [S, dv], as functions of (row, column).
template <class Q, class K, class V>
Doubles one_head(Q q, K k, V v, Index queries, Index keys, Index d, Index dv, double scale, bool causal) {
  Doubles y;
  for (Index i = 0; i < queries; ++i) {
    Doubles weights(at(keys), 0.0);
    double total = 0;
    for (Index j = 0; j < keys; ++j) {
      if (!sees(i, j, queries, keys, causal)) continue;
      double score = 0;
      for (Index c = 0; c < d; ++c) score += q(i, c) * k(j, c);
      total += weights[at(j)] = std::exp(scale * score);
    }
    for (Index c = 0; c < dv; ++c) {
      double sum = 0;
      for (Index j = 0; j < keys; ++j) sum += total > 0 ? weights[at(j)] / total * v(j, c) : 0;
      y.push_back(sum);
    }
  }
  return y;
}

// Self-attention of x [L, C] by the book.
Doubles reference(const ConstView& x, const MultiHeadAttention& layer, bool causal) {
  const auto affine = [](const ConstView& rows, const Linear& map) {
    Tensor y({rows.size(0), map.weight.shape()[1]}, f64);
    for (Index i = 0; i < y.size(0); ++i)
      for (Index j = 0; j < y.size(1); ++j) {
        double sum = map.bias.exists() ? map.bias.value().at({j}) : 0;
        for (Index c = 0; c < rows.size(1); ++c) sum += rows.at({i, c}) * map.weight.value().at({c, j});
        y.set({i, j}, sum);
      }
    return y;
  };
  const Tensor all = affine(x, layer.qkv);
  const Index length = x.size(0), d = layer.options.key_width, dv = layer.options.value_width, heads = layer.options.heads;
  Tensor said({length, heads * dv}, f64);
  for (Index h = 0; h < heads; ++h) {
    const auto columns = [&](Index from) {
      return [&all, from](Index i, Index c) { return all.at({i, from + c}); };
    };
    const Doubles y = one_head(columns(h * d), columns((heads + h) * d), columns(2 * heads * d + h * dv),
                               length, length, d, dv, 1 / std::sqrt(static_cast<double>(d)), causal);
    for (Index i = 0; i < length; ++i)
      for (Index c = 0; c < dv; ++c) said.set({i, h * dv + c}, y[at(i * dv + c)]);
  }
  return values(affine(said, layer.out));
}

MultiHeadAttention make_layer(const MultiHeadAttentionOptions& options) {
  Rng rng(1);
  return MultiHeadAttention(options, rng);
}

Tensor evaluate(const MultiHeadAttention& layer, const Tensor& x) {
  const NoGrad scope;
  return Tensor::copy_of(layer(x).value());
}

}  // namespace

TEST_CASE("multi-head attention: the formula, with any widths per head") {
  for (const DType dtype : {f32, f64})
    for (const bool causal : {false, true})
      for (const bool bias : {false, true})
        for (const auto& [d, dv] : {std::pair<Index, Index>{0, 0}, {5, 7}, {1, 2}, {4, 0}}) {
          MultiHeadAttention layer = make_layer({.width = 6,
                                                 .heads = 3,
                                                 .key_width = d,
                                                 .value_width = dv,
                                                 .bias = bias,
                                                 .mask = causal ? Mask::causal() : Mask()});
          const Cast cast(layer, dtype);
          if (bias) kernels::copy(layer.qkv.bias.mutable_value(), random(layer.qkv.bias.shape(), dtype, 9));
          if (bias) kernels::copy(layer.out.bias.mutable_value(), random({6}, dtype, 8));
          const Tensor x = random({2, 5, 6}, dtype, 1);
          const Tensor y = evaluate(layer, x);
          REQUIRE(y.shape() == Shape{2, 5, 6});
          for (Index b = 0; b < 2; ++b)
            check_close(y.view().select(0, b), reference(x.view().select(0, b), layer, causal),
                        tolerance(dtype), tolerance(dtype));
        }
}

TEST_CASE("multi-head attention: the widths of its maps") {
  const MultiHeadAttention usual = make_layer({.width = 6, .heads = 3});
  CHECK(usual.qkv.weight.shape() == Shape{6, 18});
  CHECK(usual.out.weight.shape() == Shape{6, 6});
  const MultiHeadAttention free = make_layer({.width = 6, .heads = 3, .key_width = 5, .value_width = 7});
  CHECK(free.qkv.weight.shape() == Shape{6, 51});
  CHECK(free.out.weight.shape() == Shape{21, 6});
  // A width that the heads do not divide, where both are given.
  CHECK(make_layer({.width = 7, .heads = 2, .key_width = 3, .value_width = 3}).qkv.weight.shape() ==
        Shape{7, 18});
}

TEST_CASE("multi-head attention: causal, what comes later changes no bit") {
  const MultiHeadAttention layer = make_layer({.width = 16, .heads = 4, .mask = Mask::causal()});
  const Tensor x = random({2, 9, 16}, f32, 1), other = random({2, 9, 16}, f32, 2);
  const Tensor y = evaluate(layer, x);
  for (Index t = 1; t < 9; ++t) {
    Tensor changed = x.clone();
    kernels::copy(changed.view().slice(1, t, 9), other.view().slice(1, t, 9));
    const Tensor after = evaluate(layer, changed);
    CHECK(same_bits(after.view().slice(1, 0, t), y.view().slice(1, 0, t)));
    CHECK_FALSE(same_bits(after.view().select(1, t), y.view().select(1, t)));
  }
}

TEST_CASE("multi-head attention: without a mask, tokens in another order give results in that order") {
  MultiHeadAttention layer = make_layer({.width = 8, .heads = 2});
  const Cast cast(layer, f64);
  const Tensor x = random({1, 5, 8}, f64, 1);
  Tensor turned(x.shape(), f64);
  for (Index t = 0; t < 5; ++t) kernels::copy(turned.view().select(1, 4 - t), x.view().select(1, t));
  const Tensor y = evaluate(layer, x), after = evaluate(layer, turned);
  for (Index t = 0; t < 5; ++t)
    check_close(after.view().select(1, 4 - t), values(y.view().select(1, t)), 1e-13, 1e-14);
}

TEST_CASE("multi-head attention: heads may change places, with their columns and rows") {
  MultiHeadAttention layer = make_layer({.width = 8, .heads = 2, .mask = Mask::causal()});
  const Cast cast(layer, f64);
  const Tensor x = random({2, 5, 8}, f64, 1), before = evaluate(layer, x);
  const Tensor qkv = Tensor::copy_of(layer.qkv.weight.value()),
               out = Tensor::copy_of(layer.out.weight.value());
  for (Index part = 0; part < 3; ++part)
    for (Index head = 0; head < 2; ++head)
      kernels::copy(
          layer.qkv.weight.mutable_value().slice(1, 8 * part + 4 * (1 - head), 8 * part + 4 * (2 - head)),
          qkv.view().slice(1, 8 * part + 4 * head, 8 * part + 4 * (head + 1)));
  for (Index head = 0; head < 2; ++head)
    kernels::copy(layer.out.weight.mutable_value().slice(0, 4 * (1 - head), 4 * (2 - head)),
                  out.view().slice(0, 4 * head, 4 * (head + 1)));
  check_close(evaluate(layer, x), values(before), 1e-13, 1e-14);
}

TEST_CASE("multi-head attention: a sequence alone, and in a batch of batches") {
  const MultiHeadAttention layer = make_layer({.width = 6, .heads = 2, .mask = Mask::causal()});
  const Tensor x = random({4, 5, 6}, f32, 1), y = evaluate(layer, x);
  const Tensor alone = evaluate(layer, Tensor::copy_of(x.view().select(0, 2)));
  CHECK(alone.shape() == Shape{5, 6});
  CHECK(same_bits(alone, y.view().select(0, 2)));
  const Tensor nested = evaluate(layer, Tensor::copy_of(x.view().reshape({2, 2, 5, 6})));
  CHECK(nested.shape() == Shape{2, 2, 5, 6});
  CHECK(values(nested) == values(y));
}

TEST_CASE("multi-head attention: gradients of everything") {
  MultiHeadAttention layer =
      make_layer({.width = 4, .heads = 2, .key_width = 3, .value_width = 2, .mask = Mask::causal()});
  const Cast cast(layer, f64);
  Tensor x = random({2, 3, 4}, f64, 1);
  const GradcheckReport parameters = gradcheck_parameters(ParameterList(layer), [&] { return layer(x); });
  CHECK_MESSAGE(parameters.passed(), parameters.text());
  CHECK(parameters.inputs.size() == 4);
  const GradcheckReport input = gradcheck([&](Var in) { return layer(in); }, x);
  CHECK_MESSAGE(input.passed(), input.text());
}

TEST_CASE("multi-head attention: an empty batch and an empty sequence") {
  MultiHeadAttention layer = make_layer({.width = 6, .heads = 2, .mask = Mask::causal()});
  for (const Shape& shape : {Shape{0, 4, 6}, Shape{2, 0, 6}}) {
    Tape tape;
    const Var x = variable(Tensor(shape));
    const Var y = layer(x);
    CHECK(y.shape() == shape);
    tape.backward(sum(y));
    CHECK(x.grad().shape() == shape);
    CHECK(kernels::squared_norm(layer.qkv.weight.grad()) == 0);
  }
}

TEST_CASE("multi-head attention: what is refused") {
  CHECK_THROWS_WITH_AS(make_layer({.width = 16, .heads = 3}),
                       "attention: a width of 16 does not divide among 3 heads", std::invalid_argument);
  CHECK_THROWS_WITH_AS(make_layer({.width = 16, .heads = 0}),
                       "attention: 0 heads and a width of 16 must be at least 1", std::invalid_argument);
  CHECK_THROWS_AS(make_layer({.width = 16, .heads = 0, .key_width = 2, .value_width = 2}),
                  std::invalid_argument);
  const auto refused = [](const MultiHeadAttentionOptions& options, const char* message) {
    CHECK_THROWS_WITH_AS(make_layer(options), message, std::invalid_argument);
  };
  refused({.width = 16, .heads = 2, .kv_heads = -1}, "attention: 2 heads do not share -1 heads of keys and values");
  refused({.width = 16, .key_width = -3}, "attention: key_width -3, value_width 0 or memory_width 0 is negative");
  refused({.width = 16, .value_width = -3}, "attention: key_width 0, value_width -3 or memory_width 0 is negative");
  refused({.width = 16, .memory_width = -3}, "attention: key_width 0, value_width 0 or memory_width -3 is negative");
  refused({.width = 16, .softcap = -1}, "attention: a softcap of -1 is below 0");
  refused({.width = 16, .dropout = 1.5}, "attention: a dropout of 1.5 is not between 0 and 1");
}

TEST_CASE("B10: multi-head attention: heads are split and merged within a token") {
  const Tensor one = tensor({{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}});
  MultiHeadAttention layer = make_layer({.width = 4, .heads = 2, .bias = false});
  for (Index part = 0; part < 3; ++part)
    kernels::copy(layer.qkv.weight.mutable_value().slice(1, 4 * part, 4 * part + 4), one);
  kernels::copy(layer.out.weight.mutable_value(), one);
  const Tensor x = tensor({{{1, 2, 3, 4}, {5, 6, 7, 8}}});
  const NoGrad scope;
  // Each token sees itself alone, then both see the first alone.
  CHECK(values(layer(x, Mask::allow(tensor({{1, 0}, {0, 1}}, i32))).value()) == Doubles{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(values(layer(x, Mask::allow(tensor({{1, 0}, {1, 0}}, i32))).value()) == Doubles{1, 2, 3, 4, 1, 2, 3, 4});
}
