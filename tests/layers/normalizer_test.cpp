// Attention with other normalizers than softmax, and with SSMax and QK-norm: the formula in double, gradients
// in every mode, and what is hidden.
#include <algorithm>
#include <cmath>
#include <limits>

#include "../support/golden.h"
#include "../support/op_check.h"
#include "attune/autograd/ops.h"
#include "attune/layers/gpt.h"
#include "attune/layers/multi_head_attention.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Rule {
  Normalizer normalizer = Normalizer::softmax;
  bool ssmax = false, causal = false;
  double softcap = 0, sink = kInf;  // kInf: none
};

using Row = std::vector<double>;

Row by_threshold(const Row& s, double (*above)(double, double), double low, double high) {
  const auto sum = [&](double tau) {
    double total = 0;
    for (const double x : s) total += above(x, tau);
    return total;
  };
  for (int step = 0; step < 200; ++step) {
    const double middle = (low + high) / 2;
    (sum(middle) > 1 ? low : high) = middle;
  }
  Row p;
  for (const double x : s) p.push_back(above(x, low));
  return p;
}

// The weights of one row of visible scores.
Row weights_of(const Row& s, Normalizer normalizer) {
  Row p;
  const double top = *std::max_element(s.begin(), s.end()), n = static_cast<double>(s.size());
  double total = normalizer == Normalizer::softmax1 ? 1 : 0;
  switch (normalizer) {
    case Normalizer::softmax:
    case Normalizer::softmax1:
      for (const double x : s) total += std::exp(x);
      for (const double x : s) p.push_back(std::exp(x) / total);
      return p;
    case Normalizer::sigmoid:
      for (const double x : s) p.push_back(1 / (1 + n * std::exp(-x)));
      return p;
    case Normalizer::sparsemax:
      return by_threshold(
          s, [](double x, double tau) { return std::max(x - tau, 0.0); }, top - 1, top);
    case Normalizer::entmax15:
      return by_threshold(
          s, [](double x, double tau) { return std::pow(std::max(x / 2 - tau, 0.0), 2); }, top / 2 - 1,
          top / 2);
  }
  return p;
}

Plain reference(const Plain& q, const Plain& k, const Plain& v, const Rule& rule) {
  const Index heads = q.shape[0], queries = q.shape[1], keys = k.shape[1], d = q.shape[2], dv = v.shape[2];
  Plain y({heads, queries, dv});
  for (Index h = 0; h < heads; ++h)
    for (Index i = 0; i < queries; ++i) {
      const Index seen = rule.causal ? i + 1 + keys - queries : keys;
      Row s;
      for (Index j = 0; j < seen; ++j) {
        double product = 0;
        for (Index c = 0; c < d; ++c) product += q(h, i, c) * k(h, j, c);
        product /= std::sqrt(static_cast<double>(d));
        if (rule.ssmax) product *= std::log(static_cast<double>(seen));
        s.push_back(rule.softcap > 0 ? rule.softcap * std::tanh(product / rule.softcap) : product);
      }
      if (rule.sink < kInf) s.push_back(rule.sink);
      const Row p = weights_of(s, rule.normalizer);
      for (Index j = 0; j < seen; ++j)
        for (Index c = 0; c < dv; ++c) y(h, i, c) += p[static_cast<std::size_t>(j)] * v(h, j, c);
    }
  return y;
}

AttentionOptions options_of(const Rule& rule) {
  AttentionOptions options{.softcap = rule.softcap, .normalizer = rule.normalizer, .ssmax = rule.ssmax};
  if (rule.causal) options.mask = Mask::causal();
  return options;
}

void check_rule(const char* what, const Rule& rule) {
  check_op(
      {.name = std::string("attention, ") + what + " " + name_of(rule.normalizer),
       .f = [=](Var q, Var k, Var v) { return attention(q, k, v, options_of(rule)); },
       .reference = [=](const Plain& q, const Plain& k, const Plain& v) { return reference(q, k, v, rule); },
       .inputs = {{real({2, 3, 4}), real({2, 5, 4}), real({2, 5, 3})},
                  {real({1, 4, 2}), real({1, 4, 2}), real({1, 4, 2})}},
       .composed = true,
       .f32_bound = 2e-6});
}

constexpr Normalizer kAll[] = {Normalizer::softmax, Normalizer::softmax1, Normalizer::sigmoid,
                               Normalizer::sparsemax, Normalizer::entmax15};

}  // namespace

TEST_CASE("normalizers: values and gradients of attention, plain, causal, capped and with SSMax") {
  for (const Normalizer normalizer : kAll) {
    check_rule("plain", {.normalizer = normalizer});
    check_rule("causal", {.normalizer = normalizer, .causal = true});
    check_rule("capped", {.normalizer = normalizer, .softcap = 1.5});
    check_rule("ssmax", {.normalizer = normalizer, .ssmax = true, .causal = true});
  }
}

TEST_CASE(
    "normalizers: gradients are right where scores are saturated, and at least half of them are not 0") {
  for (const Normalizer normalizer : kAll)
    for (const double sigma : {0.1, 1.0, 4.0, 8.0, 16.0}) {
      CAPTURE(name_of(normalizer));
      CAPTURE(sigma);
      const Tensor q = check_kernels::random({3, 4}, f64, 11), k = check_kernels::random({5, 4}, f64, 12),
                   v = check_kernels::random({5, 3}, f64, 13);
      const auto f = [=](Var x, Var y, Var z) {
        return attention(x, y, z, {.scale = 1.5 * sigma, .normalizer = normalizer});
      };
      const Plain expected = [&] {
        Plain scaled(q.view());
        for (double& x : scaled.numbers) x *= 1.5 * sigma * 2;  // the reference divides by sqrt(4)
        scaled.shape = Shape{1, 3, 4};
        Plain keys(k.view()), values(v.view());
        keys.shape = Shape{1, 5, 4}, values.shape = Shape{1, 5, 3};
        return reference(scaled, keys, values, {.normalizer = normalizer});
      }();
      Tape tape;
      const Var qs = variable(q), y = f(qs, k, v);
      for (std::size_t i = 0; i < expected.numbers.size(); ++i)
        CHECK(Plain(y.value()).numbers[i] == doctest::Approx(expected.numbers[i]).epsilon(1e-12));
      tape.backward(y, ones({3, 3}, f64));
      // Central differences of the reference's own attention, in f64.
      const Plain slopes(qs.grad());
      int nonzero = 0;
      double worst = 0, largest = 0;
      for (std::size_t i = 0; i < slopes.numbers.size(); ++i) {
        const double h = 1e-5 / (1 + sigma);
        double difference = 0;
        for (const double side : {1.0, -1.0}) {
          Tensor moved = q.clone();
          moved.data<double>()[i] += side * h;
          const NoGrad scope;
          for (const double number : Plain(f(moved, k, v).value()).numbers)
            difference += side * number / (2 * h);
        }
        nonzero += slopes.numbers[i] != 0;
        worst = std::max(worst, std::abs(difference - slopes.numbers[i]));
        largest = std::max(largest, std::abs(slopes.numbers[i]));
      }
      CHECK(worst <= 1e-7 * std::max(1.0, largest));
      if (normalizer != Normalizer::sparsemax && normalizer != Normalizer::entmax15) CHECK(2 * nonzero >= 12);
    }
}

TEST_CASE("normalizers: SSMax keeps its weight where softmax loses it, as in its paper's first figure") {
  const struct {
    Index n;
    double softmax, ssmax;
  } figure[] = {
      {10, .942826, .940101}, {100, .599860, .995063}, {1000, .129346, .999646}, {10000, .014626, .999975}};
  for (const auto& line : figure) {
    Tensor k = full({line.n, 1}, -2, f64), v({line.n, 1}, f64);
    k.data<double>()[3] = 3;
    v.data<double>()[3] = 1;
    const NoGrad scope;
    const Tensor q = ones({1, 1}, f64);
    CHECK(attention(q, k, v).value().item() == doctest::Approx(line.softmax).epsilon(2e-6));
    CHECK(attention(q, k, v, {.scale = 0.43, .ssmax = true}).value().item() ==
          doctest::Approx(line.ssmax).epsilon(1e-6));
  }
}

TEST_CASE("normalizers: softmax1 is a sink of 0, to the bit") {
  const Tensor x = check_kernels::random({2, 5, 4}, f32, 1), zero = zeros({2});
  const NoGrad scope;
  const Var a = attention(x, x, x, {.mask = Mask::causal(), .normalizer = Normalizer::softmax1});
  const Var b = attention(x, x, x, {.mask = Mask::causal(), .sinks = Var(zero)});
  CHECK(check_kernels::values(a.value()) == check_kernels::values(b.value()));
}

TEST_CASE(
    "normalizers: what is hidden has no influence, and a query that sees nothing gets and passes back 0") {
  const Tensor allowed = tensor({{1, 1, 0}, {0, 0, 0}, {1, 0, 0}}, i32);
  for (const Normalizer normalizer : kAll)
    for (const bool ssmax : {false, true}) {
      CAPTURE(name_of(normalizer));
      Tensor q = check_kernels::random({3, 4}, f64, 1), k = check_kernels::random({3, 4}, f64, 2),
             v = check_kernels::random({3, 2}, f64, 3);
      const AttentionOptions options{.mask = Mask::allow(allowed), .normalizer = normalizer, .ssmax = ssmax};
      Plain y, dq, dk;
      for (const bool broken : {false, true}) {
        if (broken) {
          q.data<double>()[5] = k.data<double>()[8] = v.data<double>()[4] = std::nan("");
          k.data<double>()[9] = kInf;
        }
        Tape tape;
        const Var qs = variable(q), ks = variable(k), vs = variable(v);
        const AttentionResult all = attention_with_weights(qs, ks, vs, options);
        tape.backward(all.y, ones({3, 2}, f64));
        for (Index j = 0; j < 3; ++j) CHECK(all.weights.value().at({1, j}) == 0);
        CHECK(all.weights.value().at({0, 2}) == 0);
        for (Index c = 0; c < 2; ++c) CHECK(all.y.value().at({1, c}) == 0);
        for (Index c = 0; c < 4; ++c) {
          CHECK(qs.grad().at({1, c}) == 0);
          CHECK(ks.grad().at({2, c}) == 0);
        }
        if (!broken) {
          y = Plain(all.y.value()), dq = Plain(qs.grad()), dk = Plain(ks.grad());
        } else {
          CHECK(Plain(all.y.value()).numbers == y.numbers);
          CHECK(Plain(qs.grad()).numbers == dq.numbers);
          CHECK(Plain(ks.grad()).numbers == dk.numbers);
        }
      }
      q.data<double>()[0] = std::nan("");  // the row that sees it is NaN, no other
      const NoGrad scope;
      const Plain broken_row(attention(q, k, v, options).value());
      CHECK(std::isnan(broken_row.numbers[0]));
      CHECK(broken_row.numbers[4] == y.numbers[4]);
    }
}

TEST_CASE("normalizers: +inf in a bias makes its row NaN, but in sigmoid it gives its key weight 1") {
  const Tensor q = ones({2, 4}), k = ones({3, 4}), v = ones({3, 2}), bias = tensor({{0, kInf, 0}, {0, 0, 0}});
  const NoGrad scope;
  for (const Normalizer normalizer : kAll) {
    const AttentionResult all = attention_with_weights(q, k, v, {.bias = Var(bias), .normalizer = normalizer});
    const bool one = normalizer == Normalizer::sigmoid;
    INFO(name_of(normalizer));
    CHECK(std::isnan(all.y.value().at({0, 0})) == !one);
    CHECK(std::isfinite(all.y.value().at({1, 0})));
    if (one) CHECK(all.weights.value().at({0, 1}) == 1);
  }
}

TEST_CASE("normalizers: sinks take part in sparsemax; sigmoid and softmax1 refuse them") {
  const Tensor x = check_kernels::random({1, 3, 4}, f64, 1), sink = full({1}, 0.4, f64);
  const Rule rule{.normalizer = Normalizer::sparsemax, .sink = 0.4};
  const NoGrad scope;
  const Plain y(attention(x, x, x, {.sinks = Var(sink), .normalizer = Normalizer::sparsemax}).value());
  const Plain expected = reference(Plain(x.view()), Plain(x.view()), Plain(x.view()), rule);
  for (std::size_t i = 0; i < y.numbers.size(); ++i)
    CHECK(y.numbers[i] == doctest::Approx(expected.numbers[i]).epsilon(1e-12));
  CHECK_THROWS_WITH_AS(attention(x, x, x, {.sinks = Var(sink), .normalizer = Normalizer::sigmoid}),
                       "attention: sigmoid has no sum in which sinks could take part", std::invalid_argument);
  CHECK_THROWS_WITH_AS(attention(x, x, x, {.sinks = Var(sink), .normalizer = Normalizer::softmax1}),
                       "attention: softmax1 is a sink of score 0, and cannot have others",
                       std::invalid_argument);
}

TEST_CASE("golden: QK-norm, queries and keys of length 1 and a learned factor") {
  if (!golden::available()) return;
  const golden::File file("qk_norm_l2");
  for (const DType dtype : file.dtypes()) {
    Tape tape;
    const Var q = variable(file.as("in.q", dtype)), k = variable(file.as("in.k", dtype)),
              v = variable(file.as("in.v", dtype));
    const Var g = variable(file.as("param.g", dtype));
    const Var unit_q = l2_normalize(q), unit_k = l2_normalize(k);
    const AttentionResult all =
        attention_with_weights(unit_q, unit_k, v, {.mask = Mask::causal(), .scale = reshape(g, {2, 1, 1})});
    tape.backward(all.y, file.as("up.y", dtype));
    file.compare("out.y", all.y.value());
    file.compare("out.weights", all.weights.value());
    file.compare("out.lse", all.log_sum_exp.value());
    file.compare("grad.q", q.grad());
    file.compare("grad.k", k.grad());
    file.compare("grad.v", v.grad());
    file.compare("grad.g", g.grad());
  }
}

TEST_CASE(
    "normalizers: a layer with QK-norm, a learned scale, SSMax and another normalizer trains, and steps with "
    "a cache") {
  Rng rng(1);
  for (const Normalizer normalizer : kAll) {
    const Gpt model({.vocab = 7,
                     .context = 6,
                     .layers = 1,
                     .heads = 2,
                     .width = 8,
                     .normalizer = normalizer,
                     .ssmax = true,
                     .qk_norm = true},
                    Rng(1));
    const Parameter& scale = model.blocks[0].attention.scale;
    CHECK(scale.shape() == Shape{2, 1, 1});
    CHECK(scale.value().at({1, 0, 0}) == doctest::Approx(2));
    CHECK_FALSE(scale.decay());
    const Tensor tokens = tensor({{1, 2, 3, 4, 5}}, i32);
    {
      Tape tape;
      tape.backward(sum(pow(model(tokens), 2)));
      CHECK(scale.has_grad());
      CHECK(scale.grad().at({0, 0, 0}) != 0);
    }
    const NoGrad scope;
    const Plain whole(model(tokens).value());
    GptCache cache = model.cache();
    std::vector<double> stepped;
    for (Index t = 0; t < 5; ++t) {
      Tensor token({1, 1}, i32);
      token.data<std::int32_t>()[0] = static_cast<std::int32_t>(t + 1);
      for (const double number : Plain(model(token, cache).value()).numbers) stepped.push_back(number);
    }
    CHECK(stepped == whole.numbers);
  }
  const MultiHeadAttention hot({.width = 8, .heads = 2, .learned_scale = 1.0}, rng);
  CHECK(hot.scale.value().at({0, 0, 0}) == 1);
  const MultiHeadAttention plain({.width = 8, .heads = 2}, rng);
  CHECK_FALSE(plain.scale.exists());
}
