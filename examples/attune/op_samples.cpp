#include "op_samples.h"

namespace attune::program {
namespace {

using Inputs = std::span<const Var>;

// N(0, 1). Inputs of one op take different streams: equal ones would hide what it makes of their difference.
Tensor normal(const Shape& shape, std::uint64_t stream = 0) {
  Tensor x(shape, f64);
  Rng random(7, stream);
  fill_normal(x, random);
  return x;
}

// Above 0, as logarithms and roots want them.
Tensor positive(const Shape& shape) {
  Tensor x = normal(shape);
  for (double& number : x.data<double>()) number = 0.25 + number * number;
  return x;
}

// Rows that are distributions.
Tensor shares(const Shape& shape) {
  const NoGrad scope;
  return Tensor::copy_of(softmax(normal(shape)).value());
}

Tensor ids(std::initializer_list<int> numbers) {
  Tensor list({static_cast<Index>(numbers.size())}, i32);
  std::copy(numbers.begin(), numbers.end(), list.data<std::int32_t>().begin());
  return list;
}

class Samples {
 public:
  std::vector<OpSample> list;

  template <class F, class... Tensors>
  void add(const char* name, F f, Tensors... inputs) {
    OpSample sample{name, {}, {}};
    (sample.inputs.push_back(std::move(inputs)), ...);
    sample.f = [f](Inputs x) {
      return [&]<std::size_t... i>(std::index_sequence<i...>) { return f(x[i]...); }
      (std::index_sequence_for<Tensors...>{});
    };
    list.push_back(std::move(sample));
  }
};

void add_elementwise(Samples& s) {
  const Shape shape{3, 5};
  s.add("add", [](Var a, Var b) { return a + b; }, normal(shape), normal({5}, 1));
  s.add("sub", [](Var a, Var b) { return a - b; }, normal(shape), normal({3, 1}));
  s.add("mul", [](Var a, Var b) { return a * b; }, normal(shape), normal({5}, 1));
  s.add("div", [](Var a, Var b) { return a / b; }, normal(shape), positive({3, 1}));
  s.add(
      "add, one shape", [](Var a, Var b) { return a + b; }, normal(shape), normal(shape, 1));
  s.add(
      "sub, one shape", [](Var a, Var b) { return a - b; }, normal(shape), normal(shape, 1));
  s.add(
      "mul, one shape", [](Var a, Var b) { return a * b; }, normal(shape), normal(shape, 1));
  s.add(
      "mul, itself", [](Var a) { return a * a; }, normal(shape));
  s.add(
      "mul, a number", [](Var a) { return a * 3; }, normal(shape));
  s.add(
      "div, one shape", [](Var a, Var b) { return a / b; }, normal(shape), positive(shape));
  s.add("neg", [](Var x) { return -x; }, normal(shape));
  s.add("exp", [](Var x) { return exp(x); }, normal(shape));
  s.add("expm1", [](Var x) { return expm1(x); }, normal(shape));
  s.add("log", [](Var x) { return log(x); }, positive(shape));
  s.add("log1p", [](Var x) { return log1p(x); }, positive(shape));
  s.add("sqrt", [](Var x) { return sqrt(x); }, positive(shape));
  s.add("rsqrt", [](Var x) { return rsqrt(x); }, positive(shape));
  s.add("pow", [](Var x, Var e) { return pow(x, e); }, positive(shape), normal({5}));
  s.add(
      "pow, one shape", [](Var x, Var e) { return pow(x, e); }, positive(shape), normal(shape, 1));
  s.add("sin", [](Var x) { return sin(x); }, normal(shape));
  s.add("cos", [](Var x) { return cos(x); }, normal(shape));
  s.add("abs", [](Var x) { return abs(x); }, normal(shape));
  s.add(
      "maximum", [](Var a, Var b) { return maximum(a, b); }, normal(shape), normal({5}, 2));
  s.add("minimum", [](Var a, Var b) { return minimum(a, b); }, normal(shape), normal({5}, 1));
  s.add(
      "maximum, one shape", [](Var a, Var b) { return maximum(a, b); }, normal(shape), normal(shape, 3));
  s.add("clamp", [](Var x) { return clamp(x, -1, 0.5); }, normal(shape));
  s.add("relu", [](Var x) { return relu(x); }, normal(shape));
  s.add("leaky_relu", [](Var x) { return leaky_relu(x); }, normal(shape));
  s.add("gelu", [](Var x) { return gelu(x); }, normal(shape));
  s.add("gelu_tanh", [](Var x) { return gelu_tanh(x); }, normal(shape));
  s.add("silu", [](Var x) { return silu(x); }, normal(shape));
  s.add("sigmoid", [](Var x) { return sigmoid(x); }, normal(shape));
  s.add("tanh", [](Var x) { return tanh(x); }, normal(shape));
  s.add("softplus", [](Var x) { return softplus(x); }, normal(shape));
  s.add("where", [](Var a, Var b) { return where(ids({1, 0, 1, 1, 0}), a, b); }, normal(shape), normal({5}, 1));
  s.add(
      "where, one shape",
      [](Var a, Var b) {
        return where(ids({1, 0, 1, 1, 0}), a, b);
      },
      normal(shape), normal(shape, 1));
  s.add("dropout", [](Var x) { return dropout(x, 0.3); }, normal(shape));
}

void add_reductions(Samples& s) {
  const Shape shape{3, 4, 5};
  s.add("sum", [](Var x) { return sum(x, {1}); }, normal(shape));
  s.add(
      "mean", [](Var x) { return mean(x, {1}); }, normal(shape));
  s.add("var", [](Var x) { return var(x, {-1}); }, normal(shape));
  s.add("max", [](Var x) { return max(x, {-1}); }, normal(shape));
  s.add("min", [](Var x) { return min(x, {0}); }, normal(shape));
  s.add("logsumexp", [](Var x) { return logsumexp(x, {-1}); }, normal(shape));
  s.add("cumsum", [](Var x) { return cumsum(x, 1); }, normal(shape));
}

void add_matrices(Samples& s) {
  s.add("matmul", [](Var a, Var b) { return matmul(a, b); }, normal({2, 3, 4}), normal({4, 5}));
  s.add(
      "matmul, batches", [](Var a, Var b) { return matmul(a, b); }, normal({2, 3, 4}), normal({2, 4, 5}, 1));
  s.add(
      "matmul, square", [](Var a, Var b) { return matmul(a, b, 0.5); }, normal({4, 4}), normal({4, 4}, 1));
  s.add("linear", [](Var x, Var w, Var b) { return linear(x, w, b); }, normal({3, 4}), normal({4, 5}, 1), normal({5}, 2));
  s.add("outer", [](Var a, Var b) { return outer(a, b); }, normal({3}), normal({4}));
  s.add("tril", [](Var x) { return tril(x); }, normal({4, 4}));
  const auto turned = [](Var x) {
    Tensor cosine({3, 2}, f64), sine({3, 2}, f64);
    for (Index i = 0; i < cosine.count(); ++i) {
      cosine.data<double>()[static_cast<std::size_t>(i)] = math::cos(static_cast<double>(i));
      sine.data<double>()[static_cast<std::size_t>(i)] = math::sin(static_cast<double>(i));
    }
    const Var c = cosine.to(x.dtype()), d = sine.to(x.dtype());
    return rotate(x, c, d);
  };
  s.add("rotate", turned, normal({3, 4}));
}

void add_movers(Samples& s) {
  const Shape shape{3, 4};
  s.add("reshape", [](Var x) { return exp(reshape(x, {2, 6})); }, normal(shape));
  s.add("permute", [](Var x) { return exp(permute(x, {1, 0})); }, normal(shape));
  s.add("slice", [](Var x) { return exp(slice(x, 1, 1, 4, 2)); }, normal(shape));
  s.add("select", [](Var x) { return exp(select(x, 0, 1)); }, normal(shape));
  s.add("split", [](Var x) { return exp(split(x, 2, 1)[1]); }, normal(shape));
  s.add("expand", [](Var x) { return exp(expand(x, {2, 3, 4})); }, normal(shape));
  s.add("contiguous", [](Var x) { return exp(contiguous(t(x))); }, normal(shape));
  s.add("concat", [](Var a, Var b) { return concat({a, b}, 1); }, normal(shape), normal({3, 2}));
  s.add("stack", [](Var a, Var b) { return stack({a, b}, 1); }, normal(shape), normal(shape, 1));
  s.add("embedding", [](Var table) { return embedding(table, ids({2, 0, 2})); }, normal(shape));
  s.add("gather", [](Var x) { return gather(x, reshape(ids({2, 0, 1, 1, 0, 0}), {3, 2}), 1); }, normal(shape));
  s.add("scatter_add", [](Var x, Var source) {
    return scatter_add(x, reshape(ids({2, 0, 1, 1, 0, 0}), {3, 2}), source, 1);
  }, normal(shape), normal({3, 2}));
}

void add_normalisation(Samples& s) {
  const Shape shape{4, 8};
  s.add("softmax", [](Var x) { return softmax(x); }, normal(shape));
  s.add(
      "softmax, columns", [](Var x) { return softmax(x, 0); }, normal(shape));
  s.add(
      "softmax, causal", [](Var x) { return softmax(x, kernels::Visible::causal(4, 8)); }, normal(shape));
  s.add("log_softmax", [](Var x) { return log_softmax(x); }, normal(shape));
  s.add("sparsemax", [](Var x) { return sparsemax(x); }, normal(shape));
  s.add("entmax15", [](Var x) { return entmax15(x); }, normal(shape));
  s.add("layer_norm", [](Var x, Var w, Var b) { return layer_norm(x, w, b); }, normal(shape), normal({8}, 1), normal({8}, 2));
  s.add("rms_norm", [](Var x, Var w) { return rms_norm(x, w); }, normal(shape), normal({8}));
  s.add("l2_normalize", [](Var x) { return l2_normalize(x); }, normal(shape));
}

void add_losses(Samples& s) {
  const Shape shape{4, 6};
  const auto targets = [] { return ids({5, 0, -100, 2}); };
  s.add("cross_entropy", [=](Var x) { return cross_entropy(x, targets(), {.smoothing = 0.1}); }, normal(shape));
  s.add(
      "cross_entropy, of each", [=](Var x) { return cross_entropy(x, targets(), {.reduction = Reduction::none}); },
      normal(shape));
  s.add("nll", [=](Var x) { return nll(x, targets()); }, normal(shape));
  s.add("bce_with_logits", [](Var x, Var p) { return bce_with_logits(x, p); }, normal(shape), shares(shape));
  s.add("kl_div", [](Var x, Var p) { return kl_div(x, p); }, normal(shape), shares(shape));
  s.add("mse", [](Var a, Var b) { return mse(a, b); }, normal(shape), normal(shape, 1));
}

void add_attention(Samples& s) {
  const auto with = [&](const char* name, auto options) {
    s.add(name, [=](Var q, Var k, Var v) { return attention(q, k, v, options()); }, normal({2, 4, 6}), normal({2, 5, 6}),
          normal({2, 5, 3}));
  };
  with("attention", [] { return AttentionOptions{}; });
  with("attention, causal", [] { return AttentionOptions{.mask = Mask::causal()}; });
  with("attention, softcap", [] { return AttentionOptions{.softcap = 2}; });
  with("attention, unscaled", [] { return AttentionOptions{.scale = Scale::none()}; });
  with("attention, sparsemax", [] { return AttentionOptions{.normalizer = Normalizer::sparsemax}; });
  with("attention, sigmoid", [] { return AttentionOptions{.normalizer = Normalizer::sigmoid}; });
  with("attention, window", [] { return AttentionOptions{.mask = Mask::window(2)}; });
  with("attention, padding", [] { return AttentionOptions{.mask = Mask::padding({3})}; });
  with("attention, entmax15", [] { return AttentionOptions{.normalizer = Normalizer::entmax15}; });
  with("attention, sparse, cap",
       [] { return AttentionOptions{.mask = Mask::causal(), .softcap = 2, .normalizer = Normalizer::sparsemax}; });
  with("attention, dropout", [] { return AttentionOptions{.dropout = 0.3}; });
  const auto scaled = [](Var q, Var k, Var v, Var g) { return attention(q, k, v, {.scale = g}); };
  s.add("attention, learned", scaled, normal({2, 4, 6}), normal({2, 5, 6}, 1), normal({2, 5, 3}, 2), positive({1}));
  s.add(
      "attention, one shape", [](Var q, Var k, Var v) { return attention(q, k, v); }, normal({2, 4, 4}),
      normal({2, 4, 4}, 1), normal({2, 4, 4}, 2));
  s.add(
      "attention, sinks", [](Var q, Var k, Var v, Var sinks) { return attention(q, k, v, {.sinks = sinks}); },
      normal({4, 3, 2}), normal({2, 3, 2}, 1), normal({2, 3, 2}, 2), normal({4}, 3));
  const auto composed = [](Var q, Var k, Var v, Var bias, Var sinks) {
    return attention(q, k, v, {.bias = bias, .sinks = sinks, .normalizer = Normalizer::entmax15});
  };
  s.add("attention, stepwise", composed, normal({2, 3, 2}), normal({1, 3, 2}, 1), normal({1, 3, 2}, 2),
        normal({3, 3}, 3), normal({2}, 4));
  s.add("attention, bias", [](Var q, Var k, Var v, Var b) { return attention(q, k, v, {.bias = b}); }, normal({2, 4, 6}),
        normal({2, 5, 6}, 1), normal({2, 5, 3}, 2), normal({4, 5}, 3));
}

}  // namespace

std::vector<OpSample> op_samples() {
  Samples s;
  add_elementwise(s);
  add_reductions(s);
  add_matrices(s);
  add_movers(s);
  add_normalisation(s);
  add_losses(s);
  add_attention(s);
  s.add(
      "checkpoint", [](Var x, Var w) { return checkpoint([](Var a, Var b) { return gelu(a) * b; }, x, w); },
      normal({3, 5}), normal({5}, 1));
  return std::move(s.list);
}

}  // namespace attune::program
