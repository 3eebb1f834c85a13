// attention(): the formula in double, masks, empty sizes, layouts, and what it refuses.
#include "attune/layers/attention.h"

#include "../support/op_check.h"
#include "attention_reference.h"
#include "attune/autograd/gradcheck.h"
#include "attune/lib/memory.h"

using namespace attune;
using namespace attune::check_attention;

namespace {

using Doubles = std::vector<double>;

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

bool in_sight(Index query, Index key, Index queries, Index keys, bool causal) {
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
      if (!in_sight(i, j, queries, keys, causal)) continue;
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

auto reader(const ConstView& matrix) {
  return [=](Index i, Index j) { return matrix.at({i, j}); };
}

// q, k, v [B, H, ...].
Doubles reference(const ConstView& q, const ConstView& k, const ConstView& v, double scale, bool causal) {
  Doubles y;
  for (Index b = 0; b < q.size(0); ++b)
    for (Index h = 0; h < q.size(1); ++h) {
      const auto head = [&](const ConstView& x) { return reader(x.select(0, b).select(0, h)); };
      const Doubles part =
          one_head(head(q), head(k), head(v), q.size(2), k.size(2), q.size(3), v.size(3), scale, causal);
      y.insert(y.end(), part.begin(), part.end());
    }
  return y;
}

Tensor evaluate(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {}) {
  const NoGrad scope;
  return Tensor::copy_of(attention(q, k, v, options).value());
}

// What passed at the first tap of that name.
template <class F>
Tensor tapped(std::string_view name, F&& compute) {
  const NoGrad scope;
  Tensor seen;
  const Observer watch([&](const TapPoint& point) {
    if (point.name == name && seen.count() == 0) seen = Tensor::copy_of(point.value.value());
  });
  compute();
  return seen;
}

// Uniform weights: all scores are 0. Values 1, 2, ..., S in one column.
Doubles averages(Index queries, Index keys, const Mask& mask) {
  Tensor v({1, 1, keys, 1}, f64);
  for (Index j = 0; j < keys; ++j) v.set({0, 0, j, 0}, static_cast<double>(j + 1));
  return values(evaluate(zeros({1, 1, queries, 2}, f64), zeros({1, 1, keys, 2}, f64), v, {.mask = mask}));
}

void check_near(const Doubles& actual, const Doubles& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) CHECK(std::abs(actual[i] - expected[i]) <= 1e-15);
}

}  // namespace

// -- attention()

TEST_CASE("attention: softmax(scale q kᵀ) v, whole and causal, L and S and d and dv free") {
  for (const DType dtype : {f32, f64, DType::dual})
    for (const bool causal : {false, true})
      for (const auto& [queries, keys] : {std::pair<Index, Index>{5, 5}, {3, 6}, {1, 7}, {6, 3}}) {
        const Tensor q = random({2, 3, queries, 4}, dtype, 1, -2, 2), k = random({2, 3, keys, 4}, dtype, 2, -2, 2);
        const Tensor v = random({2, 3, keys, 5}, dtype, 3);
        const Mask mask = causal ? Mask::causal() : Mask();
        check_close(evaluate(q, k, v, {.mask = mask}), reference(q, k, v, 0.5, causal), tolerance(dtype),
                    tolerance(dtype));
        check_close(evaluate(q, k, v, {.mask = mask, .scale = 0.3}), reference(q, k, v, 0.3, causal), tolerance(dtype),
                    tolerance(dtype));
        check_close(evaluate(q, k, v, {.mask = mask, .scale = Scale::none()}), reference(q, k, v, 1, causal),
                    tolerance(dtype), tolerance(dtype));
      }
}

TEST_CASE("attention: an example to follow by hand") {
  const Tensor q = tensor({{1, 1}}, f64), k = tensor({{1, 1}, {1, -1}}, f64), v = tensor({{10, 0}, {0, 10}}, f64);
  const Tensor scores = tapped("scores", [&] { attention(q, k, v); });
  CHECK(scores.at({0, 0}) == doctest::Approx(std::sqrt(2.0)).epsilon(1e-15));
  CHECK(scores.at({0, 1}) == 0);
  const Tensor weights = tapped("weights", [&] { attention(q, k, v); });
  CHECK(weights.at({0, 0}) == doctest::Approx(0.80).epsilon(0.01));
  CHECK(weights.at({0, 1}) == doctest::Approx(0.20).epsilon(0.03));
  CHECK(weights.at({0, 0}) == doctest::Approx(1 / (1 + std::exp(-std::sqrt(2.0)))).epsilon(1e-14));
  const Tensor y = evaluate(q, k, v);
  CHECK(y.at({0, 0}) == doctest::Approx(10 * weights.at({0, 0})).epsilon(1e-15));
  CHECK(y.at({0, 1}) == doctest::Approx(10 * weights.at({0, 1})).epsilon(1e-15));
}

TEST_CASE("B07: attention: causal with L and S different is aligned at the bottom right") {
  check_near(averages(2, 4, Mask::causal()), {2.0, 2.5});
  check_near(averages(1, 4, Mask::causal()), {2.5});
  check_near(averages(4, 2, Mask::causal()), {0, 0, 1, 1.5});
}

TEST_CASE("B07: attention: causal aligned at the top left, by name only") {
  const Mask mask = Mask::causal(Align::top_left);
  check_near(averages(2, 4, mask), {1.0, 1.5});
  check_near(averages(1, 4, mask), {1});
  check_near(averages(4, 2, mask), {1, 1.5, 1.5, 1.5});
}

TEST_CASE("attention: a query that sees nothing gets zeros, and passes back zeros, even where it is NaN") {
  Tensor numbers = random({1, 1, 4, 3}, f32, 1);
  numbers.set({0, 0, 0, 1}, kNan);
  Tape tape;
  const Var q = variable(numbers);
  const Var k = variable(random({1, 1, 2, 3}, f32, 2));
  const Var v = variable(random({1, 1, 2, 3}, f32, 3));
  const Var y = attention(q, k, v, {.mask = Mask::causal()});
  tape.backward(y, random({1, 1, 4, 3}, f32, 4));
  CHECK(values(y.value().slice(2, 0, 2)) == Doubles(6, 0.0));
  CHECK(values(q.grad().slice(2, 0, 2)) == Doubles(6, 0.0));
  CHECK(kernels::squared_norm(q.grad().slice(2, 3, 4)) > 0);
}

TEST_CASE("attention: weights are at least 0, sum to 1, and are exactly 0 where they may not look") {
  for (const DType dtype : {f32, f64}) {
    const Tensor q = random({2, 2, 40, 8}, dtype, 1, -4, 4), k = random({2, 2, 50, 8}, dtype, 2, -4, 4);
    const Tensor v = random({2, 2, 50, 3}, dtype, 3);
    const Tensor weights = tapped("weights", [&] { attention(q, k, v, {.mask = Mask::causal()}); });
    REQUIRE(weights.shape() == Shape{2, 2, 40, 50});
    for (Index b = 0; b < 2; ++b)
      for (Index h = 0; h < 2; ++h)
        for (Index i = 0; i < 40; ++i) {
          double sum = 0;
          for (Index j = 0; j < 50; ++j) {
            const double weight = weights.at({b, h, i, j});
            CHECK(weight >= 0);
            if (!in_sight(i, j, 40, 50, true)) CHECK(weight == 0);
            sum += weight;
          }
          CHECK(std::abs(sum - 1) <= (dtype == f32 ? 1e-6 : 1e-14));
        }
  }
}

TEST_CASE("attention: large scores saturate, and nothing overflows") {
  const Tensor q = tensor({{1e4, 0}}), k = tensor({{1e4, 0}, {0, 1e4}, {-1e4, 0}}), v = tensor({{1}, {2}, {3}});
  CHECK(evaluate(q, k, v).item() == 1);
}

TEST_CASE("attention: gradients of q, k and v, whole and causal") {
  for (const Mask& mask : {Mask(), Mask::causal(), Mask::causal(Align::top_left)}) {
    Tensor q = random({2, 2, 3, 4}, f64, 1), k = random({2, 2, 5, 4}, f64, 2), v = random({2, 2, 5, 3}, f64, 3);
    const GradcheckReport report =
        gradcheck([&](Var a, Var b, Var c) { return attention(a, b, c, {.mask = mask}); }, q, k, v);
    CHECK_MESSAGE(report.passed(), report.text());
  }
}

TEST_CASE("attention: one tensor as query, key and value") {
  Tensor x = random({2, 5, 4}, f64, 1);
  const GradcheckReport report = gradcheck([](Var a) { return attention(a, a, a, {.mask = Mask::causal()}); }, x);
  CHECK_MESSAGE(report.passed(), report.text());
}

TEST_CASE("attention: rank 2 is one head, rank 3 several, rank 5 batches of batches") {
  const Tensor q = random({6, 4, 3}, f64, 1), k = random({6, 5, 3}, f64, 2), v = random({6, 5, 2}, f64, 3);
  const Tensor y = evaluate(q, k, v);
  const auto in_shape = [](const Tensor& x, const Shape& shape) { return Tensor::copy_of(x.view().reshape(shape)); };
  const Tensor deep =
      evaluate(in_shape(q, {1, 3, 2, 4, 3}), in_shape(k, {1, 3, 2, 5, 3}), in_shape(v, {1, 3, 2, 5, 2}));
  CHECK(deep.shape() == Shape{1, 3, 2, 4, 2});
  CHECK(values(deep) == values(y));
  for (Index head = 0; head < 6; ++head) {
    const auto alone = [&](const Tensor& x) { return Tensor::copy_of(x.view().select(0, head)); };
    CHECK(same_bits(evaluate(alone(q), alone(k), alone(v)), Tensor::copy_of(y.view().select(0, head))));
  }
}

TEST_CASE("attention: heads in another order give the same results in that order") {
  const Tensor q = random({1, 3, 5, 4}, f32, 1), k = random({1, 3, 5, 4}, f32, 2), v = random({1, 3, 5, 4}, f32, 3);
  const auto rotated = [](const Tensor& x) {
    Tensor y(x.shape(), x.dtype());
    for (Index head = 0; head < 3; ++head) kernels::copy(y.view().select(1, (head + 1) % 3), x.view().select(1, head));
    return y;
  };
  CHECK(same_bits(evaluate(rotated(q), rotated(k), rotated(v)), rotated(evaluate(q, k, v))));
}

TEST_CASE("attention: the same bits in every layout, and merged heads are a view") {
  const Tensor q = random({2, 3, 5, 4}, f32, 1), k = random({2, 3, 6, 4}, f32, 2), v = random({2, 3, 6, 7}, f32, 3);
  const Tensor expected = evaluate(q, k, v, {.mask = Mask::causal()});
  for (int layout = 0; layout < kLayouts; ++layout) {
    // A constant from a strided view: sliced out of what surrounds it.
    const auto strided = [&](const Tensor& x) {
      const Arranged arranged = arrange(x, layout);
      const Var whole = Tensor::copy_of(arranged.memory);
      const View& view = arranged.view;
      return view_of("arranged", whole, [&](const View& copy) {
        const auto bytes =
            static_cast<const char*>(view.data()) - static_cast<const char*>(arranged.memory.view().data());
        return View(static_cast<char*>(copy.data()) + bytes, view.layout());
      });
    };
    const NoGrad scope;
    const Var a = strided(q);
    const Var b = strided(k);
    const Var c = strided(v);
    CHECK(same_bits(attention(a, b, c, {.mask = Mask::causal()}).value(), expected));
  }
  const NoGrad scope;
  const ConstView y = attention(q, k, v).value();
  CHECK(y.permute({0, 2, 1, 3}).is_contiguous());
}

TEST_CASE("attention: the same bits on every row and for any number of threads, forward and backward") {
  const Tensor q = random({2, 3, 33, 20}, f32, 1, -3, 3), k = random({2, 3, 65, 20}, f32, 2, -3, 3);
  const Tensor v = random({2, 3, 65, 17}, f32, 3), up = random({2, 3, 33, 17}, f32, 4);
  on_every_row([&] {
    Tape tape;
    const Var a = variable(q);
    const Var b = variable(k);
    const Var c = variable(v);
    const Var y = attention(a, b, c, {.mask = Mask::causal()});
    tape.backward(y, up);
    const Tensor result = Tensor::copy_of(y.value()), dq = Tensor::copy_of(a.grad()), dk = Tensor::copy_of(b.grad()),
                 dv = Tensor::copy_of(c.grad());
    return joined({&result, &dq, &dk, &dv});
  });
  CHECK(threads() >= 1);
}

TEST_CASE("B09: attention: without keys, zeros, and zeros for the queries") {
  for (const Mask& mask : {Mask(), Mask::causal()}) {
    Tape tape;
    const Var q = variable(random({1, 2, 3, 5}, f32, 1));
    const Var k = variable(Tensor({1, 2, 0, 5}));
    const Var v = variable(Tensor({1, 2, 0, 4}));
    const Var y = attention(q, k, v, {.mask = mask});
    REQUIRE(y.shape() == Shape{1, 2, 3, 4});
    CHECK(values(y.value()) == Doubles(24, 0.0));
    tape.backward(y, ones({1, 2, 3, 4}));
    CHECK(values(q.grad()) == Doubles(30, 0.0));
    CHECK(k.grad().shape() == Shape{1, 2, 0, 5});
    CHECK(v.grad().shape() == Shape{1, 2, 0, 4});
  }
}

TEST_CASE("B09: attention: without queries, nothing, and zeros for keys and values") {
  for (const Mask& mask : {Mask(), Mask::causal()}) {
    Tape tape;
    const Var q = variable(Tensor({1, 2, 0, 5}));
    const Var k = variable(random({1, 2, 3, 5}, f32, 1));
    const Var v = variable(random({1, 2, 3, 4}, f32, 2));
    const Var y = attention(q, k, v, {.mask = mask});
    CHECK(y.shape() == Shape{1, 2, 0, 4});
    tape.backward(sum(y));
    CHECK(q.grad().shape() == Shape{1, 2, 0, 5});
    CHECK(values(k.grad()) == Doubles(30, 0.0));
    CHECK(values(v.grad()) == Doubles(24, 0.0));
  }
}

TEST_CASE("B09: attention: a batch of nothing") {
  Tape tape;
  const Var q = variable(Tensor({0, 2, 3, 5}));
  const Var k = variable(Tensor({0, 2, 4, 5}));
  const Var v = variable(Tensor({0, 2, 4, 6}));
  const Var y = attention(q, k, v);
  CHECK(y.shape() == Shape{0, 2, 3, 6});
  tape.backward(sum(y));
  CHECK(q.grad().shape() == Shape{0, 2, 3, 5});
  CHECK(k.grad().shape() == Shape{0, 2, 4, 5});
}

TEST_CASE("B09: attention: what is refused") {
  const auto refused = [](const Shape& q, const Shape& k, const Shape& v, const char* message) {
    CHECK_THROWS_WITH_AS(evaluate(Tensor(q), Tensor(k), Tensor(v)), message, std::invalid_argument);
  };
  refused({1, 2, 3, 0}, {1, 2, 4, 0}, {1, 2, 4, 5}, "attention: q [1, 2, 3, 0], v [1, 2, 4, 5]: a head has no width");
  refused({1, 2, 3, 4}, {1, 2, 4, 4}, {1, 2, 4, 0}, "attention: q [1, 2, 3, 4], v [1, 2, 4, 0]: a head has no width");
  refused({1, 2, 3, 4}, {1, 2, 5, 4}, {1, 2, 6, 4}, "attention: k [1, 2, 5, 4] has 5 keys and v [1, 2, 6, 4] has 6");
  refused({1, 2, 3, 4}, {1, 2, 5, 3}, {1, 2, 5, 4},
          "attention: q [1, 2, 3, 4] and k [1, 2, 5, 3]: widths 4 and 3 differ");
  refused({1, 2, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 4},
          "attention: q [1, 2, 3, 4], k [2, 2, 5, 4] and v [2, 2, 5, 4] need two axes and the same leading ones");
  refused({2, 3, 4}, {2, 3, 4}, {3, 4},
          "attention: q [2, 3, 4], k [2, 3, 4] and v [3, 4] need two axes and the same leading ones");
  refused({4}, {4}, {4}, "attention: q [4], k [4] and v [4] need two axes and the same leading ones");
  CHECK_THROWS_WITH_AS(evaluate(Tensor({2, 3}), Tensor({2, 3}, f64), Tensor({2, 3})),
                       "attention: element types f32 and f64 differ", std::invalid_argument);
}

TEST_CASE("attention: options that are refused") {
  const Tensor q({2, 4, 3, 5}), k({2, 2, 6, 5}), v({2, 2, 6, 7});
  const auto refused = [&](const AttentionOptions& options, const char* message) {
    CHECK_THROWS_WITH_AS(attention(q, k, v, options), message, std::invalid_argument);
  };
  const NoGrad scope;
  refused({.mask = Mask::padding({1, 2, 3})},
          "attention: scores [2, 4, 3, 6] have a batch of 2, and the padding 3 lengths");
  refused({.mask = Mask::padding({1, 7})}, "attention: batch entry 1 has a length of 7 of 6 keys");
  refused({.mask = Mask::allow(ones({3, 5}, i32))},
          "attention: allow [3, 5] does not stretch to the scores [2, 4, 3, 6]");
  refused({.mask = Mask::allow(ones({2, 1, 1, 2, 1, 6}, i32))},
          "attention: allow [2, 1, 1, 2, 1, 6] does not stretch to the scores [2, 4, 3, 6]");
  refused({.softcap = -1}, "attention: a softcap of -1 is below 0");
  refused({.bias = Var(zeros({3, 5}))}, "attention: bias [3, 5] does not stretch to the scores [2, 4, 3, 6]");
  refused({.bias = Var(zeros({3, 6}, f64))}, "attention: element types f32 and f64 differ");
  refused({.bias = Var(zeros({3, 6}, i32))}, "attention: element types f32 and i32 differ");
  refused({.sinks = Var(zeros({2}))}, "attention: sinks [2] are not one for each of 4 heads");
  refused({.sinks = Var(zeros({4}, f64))}, "attention: element types f32 and f64 differ");
  refused({.dropout = -0.1}, "attention: a dropout of -0.1 is not between 0 and 1");
  refused({.dropout = 1.5}, "attention: a dropout of 1.5 is not between 0 and 1");
  refused({.dropout = kNan}, "attention: a dropout of nan is not between 0 and 1");
  refused({.scale = Var(ones({2, 4, 3, 5, 1}))}, "attention: scale [2, 4, 3, 5, 1] does not stretch to q [2, 4, 3, 5]");
}

// -- What hides, and what is hidden.

TEST_CASE("B01: attention: a query that may attend to nothing, by allow and by a bias") {
  const Tensor q = tensor({{1, 0}, {0, 1}}, f64), k = q.clone(), v = tensor({{1, 2}, {3, 4}}, f64);
  const auto check = [](const AttentionResult& r) {
    check_close(r.y.value(), {1.660476901, 2.660476901, 0, 0}, 0, 1e-9);
    check_close(r.weights.value(), {0.669761549, 0.330238451, 0, 0}, 0, 1e-9);
    CHECK(values(r.y.value().select(0, 1)) == Doubles{0, 0});
    CHECK(values(r.weights.value().select(0, 1)) == Doubles{0, 0});
    CHECK(r.log_sum_exp.value().at({1}) == -kInf);
  };
  for (const Form form : {Form::fused, Form::composed}) {
    const NoGrad scope;
    const auto attend = [&](const AttentionOptions& options) {
      return form == Form::fused ? attention_with_weights(q, k, v, options)
                                 : detail::composed_attention(detail::prepare_attention(q, k, v, options));
    };
    check(attend({.mask = Mask::allow(tensor({{1, 1}, {0, 0}}, i32))}));
    check(attend({.bias = Var(tensor({{0, 0}, {-kInf, -kInf}}, f64))}));
  }
}

TEST_CASE("B04: attention: allow and bias are two things") {
  const Tensor identity = tensor({{1, 0}, {0, 1}}, f64), v = tensor({{1}, {10}}, f64);
  const NoGrad scope;
  const auto attend = [&](const AttentionOptions& options) {
    return attention(identity, identity, v, options).value();
  };
  check_close(attend({.mask = Mask::allow(tensor({{1, 0}, {1, 1}}, i32))}), {1, 7.027853944}, 0, 1e-9);
  check_close(attend({.mask = Mask::allow(tensor({{0, 1}, {0, 0}}, i32))}), {10, 0}, 0, 1e-9);
  check_close(attend({.bias = Var(zeros({2, 2}, f64))}), {3.972146056, 7.027853944}, 0, 1e-9);
  check_close(attend({.bias = Var(tensor({{0, 1}, {1, 0}}, f64))}), {6.154338635, 4.845661365}, 0, 1e-9);
}

TEST_CASE("B06: attention: what is hidden is -inf, and no finite number") {
  const Tensor q = tensor({{1}}), k = tensor({{-2e5}, {0}}), v = tensor({{1}, {100}});
  const NoGrad scope;
  const AttentionResult r = attention_with_weights(q, k, v, {.mask = Mask::allow(tensor({{1, 0}}, i32)), .scale = 1.0});
  CHECK(r.y.item() == 1);
  CHECK(values(r.weights.value()) == Doubles{1, 0});
}

TEST_CASE("B08: attention: whole blocks of keys are hidden") {
  const Index keys = 130;
  const auto visible = [&](std::initializer_list<Index> seen) {
    Tensor allowed({1, keys}, i32);
    for (const Index j : seen) allowed.set({0, j}, 1);
    return Mask::allow(allowed);
  };
  struct Expected {
    Mask mask;
    double y, log_sum_exp;
  };
  for (const DType dtype : {f32, f64})
    for (const Form form : {Form::fused, Form::composed})
      for (const Expected& expected : {Expected{visible({129}), 129, 0},
                                       {visible({0, 129}), 64.5, std::log(2.0)},
                                       {Mask::window(3), 128, std::log(3.0)}}) {
        Tensor numbers({keys, 1}, dtype);
        for (Index j = 0; j < keys; ++j) numbers.set({j, 0}, static_cast<double>(j));
        Tape tape;
        const Var q = variable(zeros({1, 1}, dtype));
        const Var k = variable(zeros({keys, 1}, dtype));
        const Var v = variable(numbers);
        const AttentionOptions options{.mask = expected.mask};
        const AttentionResult r = form == Form::fused
                                      ? attention_with_weights(q, k, v, options)
                                      : detail::composed_attention(detail::prepare_attention(q, k, v, options));
        tape.backward(r.y, ones({1, 1}, dtype));
        CHECK(r.y.item() == doctest::Approx(expected.y).epsilon(dtype == f32 ? 1e-6 : 1e-15));
        CHECK(r.log_sum_exp.item() == doctest::Approx(expected.log_sum_exp).epsilon(dtype == f32 ? 1e-6 : 1e-15));
        if (expected.y == 129) {
          CHECK(r.y.item() == 129);
          Doubles gradient(static_cast<std::size_t>(keys), 0.0);
          gradient.back() = 1;
          CHECK(values(v.grad()) == gradient);
        }
      }
}

TEST_CASE("B13: attention: a window counts the current key, also from a cache") {
  check_near(averages(4, 4, Mask::window(1)), {1, 2, 3, 4});
  check_near(averages(4, 4, Mask::window(2)), {1, 1.5, 2.5, 3.5});
  check_near(averages(4, 4, Mask::window(3)), {1, 1.5, 2, 3});
  check_near(averages(4, 4, Mask::window(4)), {1, 1.5, 2, 2.5});
  check_near(averages(4, 4, Mask::window(9)), {1, 1.5, 2, 2.5});
  check_near(averages(1, 4, Mask::window(2)), {3.5});
}

TEST_CASE("B12: attention: query head h reads key head h / (Hq / Hkv), whose gradient sums over its group") {
  const auto attend = [](Index key_heads, Form form) {
    Tensor numbers({1, key_heads, 1, 1}, f64);
    for (Index h = 0; h < key_heads; ++h) numbers.set({0, h, 0, 0}, 10.0 * static_cast<double>(h + 1));
    Tape tape;
    const Var q = variable(ones({1, 4, 1, 1}, f64));
    const Var k = variable(ones({1, key_heads, 1, 1}, f64));
    const Var v = variable(numbers);
    const Var y =
        form == Form::fused ? attention(q, k, v) : detail::composed_attention(detail::prepare_attention(q, k, v, {})).y;
    tape.backward(y, Tensor::copy_of(tensor({1, 2, 3, 4}, f64).view().reshape({1, 4, 1, 1})));
    return std::pair(values(y.value()), values(v.grad()));
  };
  for (const Form form : {Form::fused, Form::composed}) {
    CHECK(attend(2, form) == std::pair(Doubles{10, 10, 20, 20}, Doubles{3, 7}));
    CHECK(attend(1, form) == std::pair(Doubles{10, 10, 10, 10}, Doubles{10}));
  }
  CHECK_THROWS_WITH_AS(
      evaluate(Tensor({1, 5, 3, 4}), Tensor({1, 2, 3, 4}), Tensor({1, 2, 3, 4})),
      "attention: q [1, 5, 3, 4] and k [1, 2, 3, 4]: 5 heads of queries do not divide among 2 heads of keys",
      std::invalid_argument);
}

TEST_CASE("B12: attention: grouped heads have the bits of heads of keys that are repeated") {
  const Setting grouped{.heads = 6, .key_heads = 2, .queries = 20, .keys = 30, .mask = Mask::causal()};
  Setting plain = grouped;
  plain.key_heads = 6;
  const Inputs in = inputs_of(grouped, f32);
  Inputs repeated = inputs_of(grouped, f32);
  const auto repeat = [](const Tensor& x) {
    return Tensor::copy_of(x.view().reshape({2, 2, 1, x.size(2), x.size(3)}).expand({2, 2, 3, x.size(2), x.size(3)}));
  };
  repeated.k = Tensor::copy_of(repeat(in.k).view().reshape({2, 6, 30, 4}));
  repeated.v = Tensor::copy_of(repeat(in.v).view().reshape({2, 6, 30, 3}));
  const Results r = run(Form::fused, grouped, in), other = run(Form::fused, plain, repeated);
  CHECK(same_bits(r.y, other.y));
  CHECK(same_bits(r.dq, other.dq));
}

TEST_CASE("B14: attention: a chunk of queries with all keys before it has the rows of the whole") {
  const Index length = 150;
  const Tensor q = random({2, 3, length, 8}, f32, 1, -2, 2), k = random({2, 3, length, 8}, f32, 2, -2, 2),
               v = random({2, 3, length, 5}, f32, 3);
  for (const Mask& mask : {Mask::causal(), Mask::window(40)}) {
    const Tensor whole = evaluate(q, k, v, {.mask = mask});
    for (const Index chunk : {1, 2, 7, 33, 64, 65}) {
      for (Index end = chunk; end <= length; end += chunk) {
        const auto part = [](const Tensor& x, Index from, Index to) {
          return Tensor::copy_of(x.view().slice(2, from, to));
        };
        const Tensor y = evaluate(part(q, end - chunk, end), part(k, 0, end), part(v, 0, end), {.mask = mask});
        if (!same_bits(y, whole.view().slice(2, end - chunk, end))) FAIL_CHECK("other bits up to ", end, " by ", chunk);
      }
    }
  }
}

TEST_CASE("B14: attention: rotated queries and keys from a cache, in any chunks") {
  const std::vector<Doubles> x = {{1, 0}, {0, 1}, {1, 1}, {-1, 1}, {2, -1}, {0.5, 0.5}};
  const Doubles expected = {1,           0,           0.213809009,  0.786190991, 0.629044078, 0.945303958, -0.299540208,
                            0.725175788, 1.718880109, -0.612311090, 0.285574673, 0.497440415};
  Tensor rotated({6, 2}, f64), plain({6, 2}, f64);
  for (Index t = 0; t < 6; ++t) {
    const double angle = static_cast<double>(t), a = x[at(t)][0], b = x[at(t)][1];
    rotated.set({t, 0}, a * std::cos(angle) - b * std::sin(angle));
    rotated.set({t, 1}, a * std::sin(angle) + b * std::cos(angle));
    plain.set({t, 0}, a);
    plain.set({t, 1}, b);
  }
  for (const std::vector<Index>& chunks : {std::vector<Index>{6}, {3, 2, 1}, {1, 1, 1, 1, 1, 1}, {1, 5}}) {
    Index begin = 0;
    for (const Index chunk : chunks) {
      const Index end = begin + chunk;
      const auto part = [](const Tensor& all, Index from, Index to) {
        return Tensor::copy_of(all.view().slice(0, from, to));
      };
      const Tensor y =
          evaluate(part(rotated, begin, end), part(rotated, 0, end), part(plain, 0, end), {.mask = Mask::causal()});
      check_close(y, Doubles(expected.begin() + 2 * begin, expected.begin() + 2 * end), 0, 1e-9);
      begin = end;
    }
  }
}

// -- What a result may not depend on.

TEST_CASE("attention: hidden keys and values change no bit of anything, be they infinite or NaN") {
  const std::vector<std::pair<const char*, AttentionOptions>> settings = [] {
    Tensor allowed({70, 100}, i32);
    std::uint64_t state = 3;
    for (std::int32_t& number : allowed.data<std::int32_t>()) number = next_random(state) < 0.5;
    for (Index i = 0; i < 70; ++i)
      for (const Index j : {Index{40}, Index{99}}) allowed.set({i, j}, 0);
    return std::vector<std::pair<const char*, AttentionOptions>>{{"allow", {.mask = Mask::allow(allowed)}},
                                                                 {"padding", {.mask = Mask::padding({99, 40})}},
                                                                 {"causal", {.mask = Mask::causal(Align::top_left)}}};
  }();
  for (const Form form : {Form::fused, Form::composed})
    for (const auto& [name, options] : settings) {
      INFO(name);
      const std::string kind = name;
      // Keys 40 and 99 are hidden by allow, the last of each entry by its length, those from 70 on by the distance.
      const auto hidden = [&](Index b, Index j) {
        return kind == "allow" ? j == 40 || j == 99 : kind == "padding" ? j >= (b == 0 ? 99 : 40) : j >= 70;
      };
      Setting s{.heads = 2, .key_heads = 1, .queries = 70, .keys = 100, .mask = options.mask};
      const Inputs in = inputs_of(s, f32);
      const Tensor expected = run(form, s, in).all();
      for (const double poison : {kNan, kInf, -kInf, 1e30})
        for (const bool in_keys : {false, true}) {
          Inputs poisoned = inputs_of(s, f32);
          Tensor& target = in_keys ? poisoned.k : poisoned.v;
          for (Index b = 0; b < 2; ++b)
            for (Index j = 0; j < 100; ++j)
              if (hidden(b, j)) target.set({b, 0, j, 1}, poison);
          CHECK(same_bits(run(form, s, poisoned).all(), expected));
        }
    }
}

TEST_CASE(
    "attention: a hidden pair is hidden in both directions: a NaN of a query reaches no key that it does not see") {
  for (const Form form : {Form::fused, Form::composed}) {
    const Setting s{.batch = 1, .heads = 1, .key_heads = 1, .queries = 40, .keys = 40, .mask = Mask::causal()};
    Inputs in = inputs_of(s, f32);
    in.q.set({0, 0, 20, 0}, kNan);  // sees keys 0 ... 20
    const Results r = run(form, s, in);
    for (Index i = 0; i < 40; ++i) {
      for (Index c = 0; c < 3; ++c) CHECK(std::isnan(r.y.at({0, 0, i, c})) == (i == 20));
      for (Index c = 0; c < 4; ++c) CHECK(std::isnan(r.dq.at({0, 0, i, c})) == (i == 20));
      for (Index c = 0; c < 4; ++c) CHECK(std::isnan(r.dk.at({0, 0, i, c})) == (i <= 20));
      for (Index c = 0; c < 3; ++c) CHECK(std::isnan(r.dv.at({0, 0, i, c})) == (i <= 20));
      for (Index j = 0; j < 40; ++j) CHECK(std::isnan(r.weights.at({0, 0, i, j})) == (i == 20 && j <= 20));
    }
  }
}

TEST_CASE("attention: a NaN in a key makes the rows that see it NaN, and no others") {
  for (const Form form : {Form::fused, Form::composed})
    for (const bool in_value : {false, true}) {
      const Setting s{.batch = 1, .heads = 1, .key_heads = 1, .queries = 100, .keys = 100, .mask = Mask::window(30)};
      Inputs in = inputs_of(s, f32);
      (in_value ? in.v : in.k).set({0, 0, 50, 1}, kNan);  // seen by queries 50 ... 79
      const Results r = run(form, s, in);
      for (Index i = 0; i < 100; ++i) {
        const bool reached = i >= 50 && i < 80;
        CHECK(std::isnan(r.y.at({0, 0, i, 1})) == reached);
        CHECK(std::isnan(r.y.at({0, 0, i, 0})) == (reached && !in_value));
        CHECK(std::isnan(r.dq.at({0, 0, i, 0})) == reached);
      }
    }
}

TEST_CASE("attention: a bias of -inf hides that pair, and passes back 0; of +inf or NaN it makes the row NaN") {
  for (const Form form : {Form::fused, Form::composed}) {
    const Setting s{.batch = 1, .heads = 1, .key_heads = 1, .queries = 3, .keys = 5, .bias = {3, 5}};
    Inputs in = inputs_of(s, f64);
    in.bias.set({0, 2}, -kInf);
    in.k.set({0, 0, 2, 0}, kNan);  // hidden from query 0 alone
    in.bias.set({1, 2}, -kInf);
    in.bias.set({2, 2}, -kInf);
    const Results hidden = run(form, s, in);
    for (const auto& [name, gradient] : hidden.gradients()) CHECK(std::isfinite(kernels::squared_norm(*gradient)));
    for (Index i = 0; i < 3; ++i) CHECK(hidden.dbias.at({i, 2}) == 0);
    for (Index c = 0; c < 4; ++c) CHECK(hidden.dk.at({0, 0, 2, c}) == 0);
    for (const double wrong : {kInf, kNan}) {
      Inputs other = inputs_of(s, f64);
      other.bias.set({1, 3}, wrong);
      const Results r = run(form, s, other);
      for (Index i = 0; i < 3; ++i) CHECK(std::isnan(r.y.at({0, 0, i, 0})) == (i == 1));
    }
  }
}

TEST_CASE("attention: a query that sees nothing passes back nothing, whatever it and its gradient are") {
  for (const Form form : {Form::fused, Form::composed}) {
    Setting s{.batch = 2,
              .heads = 2,
              .key_heads = 1,
              .queries = 40,
              .keys = 50,
              .mask = Mask::padding({50, 0}),
              .sinks = true};
    Inputs in = inputs_of(s, f32);
    const Results expected = run(form, s, in);
    for (Index i = 0; i < 40; ++i) in.q.set({1, 1, i, 0}, kNan);
    in.up.set({1, 0, 3, 1}, kNan);
    in.up.set({1, 0, 4, 1}, kInf);
    const Results r = run(form, s, in);
    CHECK(same_bits(r.all(), expected.all()));
    CHECK(values(r.y.view().select(0, 1)) == Doubles(2 * 40 * 3, 0.0));
    CHECK(values(r.dq.view().select(0, 1)) == Doubles(2 * 40 * 4, 0.0));
    CHECK(values(r.dk.view().select(0, 1)) == Doubles(50 * 4, 0.0));
    CHECK(values(r.log_sum_exp.view().select(0, 1)) == Doubles(2 * 40, -kInf));
  }
}

TEST_CASE("attention: a row has the same bits alone, in any batch, and whoever stands beside it") {
  const Setting s{.batch = 3,
                  .heads = 2,
                  .key_heads = 1,
                  .queries = 70,
                  .keys = 70,
                  .mask = Mask::causal() & Mask::padding({70, 69, 10})};
  const Inputs in = inputs_of(s, f32);
  const Results whole = run(Form::fused, s, in);
  const NoGrad scope;
  for (Index b = 0; b < 3; ++b)
    for (const Index i : {0, 1, 30, 33, 64, 69}) {
      const Tensor q = Tensor::copy_of(in.q.view().slice(0, b, b + 1).slice(2, i, i + 1)),
                   k = Tensor::copy_of(in.k.view().slice(0, b, b + 1).slice(2, 0, i + 1)),
                   v = Tensor::copy_of(in.v.view().slice(0, b, b + 1).slice(2, 0, i + 1));
      const Index length = std::min(i + 1, b == 0 ? Index{70} : b == 1 ? 69 : 10);
      const Var y = attention(q, k, v, {.mask = Mask::padding({length}), .scale = s.scale});
      CHECK(same_bits(y.value(), whole.y.view().slice(0, b, b + 1).slice(2, i, i + 1)));
    }
}

TEST_CASE("attention: asking for weights, or watching them, changes no bit") {
  const Setting s{.heads = 4,
                  .key_heads = 2,
                  .queries = 40,
                  .keys = 66,
                  .mask = Mask::causal(),
                  .softcap = 3,
                  .dropout = 0.25,
                  .bias = {4, 40, 66},
                  .sinks = true};
  const Inputs in = inputs_of(s, f32);
  const auto plain = [&] {
    Rng random(7);
    Tape tape({.random = &random});
    AttentionOptions options = options_of(s);
    const Var q = variable(in.q);
    const Var k = variable(in.k);
    const Var v = variable(in.v);
    options.bias = variable(in.bias);
    options.sinks = variable(in.sinks);
    const Var y = attention(q, k, v, options);
    tape.backward(y, in.up);
    const Tensor result = Tensor::copy_of(y.value()), dq = Tensor::copy_of(q.grad()), dk = Tensor::copy_of(k.grad()),
                 dv = Tensor::copy_of(v.grad()), dbias = Tensor::copy_of(options.bias->grad()),
                 dsinks = Tensor::copy_of(options.sinks->grad());
    return joined({&result, &dq, &dk, &dv, &dbias, &dsinks});
  };
  const Tensor expected = plain();
  const Results asked = run(Form::fused, s, in);
  CHECK(same_bits(joined({&asked.y, &asked.dq, &asked.dk, &asked.dv, &asked.dbias, &asked.dsinks}), expected));
  int seen = 0;
  {
    const Observer reader([&](const TapPoint&) { ++seen; });
    CHECK(same_bits(plain(), expected));
  }
  {
    const Observer might_replace([&](const TapPoint& point) -> Var {
      ++seen;
      return point.value;
    });
    CHECK(same_bits(plain(), expected));
  }
  CHECK(seen == 4);
}

TEST_CASE("attention: what is watched is what is asked for, up to rounding") {
  const Setting s{
      .heads = 4, .key_heads = 2, .queries = 10, .keys = 12, .mask = Mask::causal(), .softcap = 3, .sinks = true};
  const Inputs in = inputs_of(s, f64);
  const Results asked = run(Form::fused, s, in);
  const auto attend = [&] {
    AttentionOptions options = options_of(s);
    options.sinks = in.sinks;
    attention(in.q, in.k, in.v, options);
  };
  check_close(tapped("weights", attend), values(asked.weights), 1e-13, 1e-15);
  const Tensor scores = tapped("scores", attend);  // before the softcap
  double score = 0;
  for (Index c = 0; c < 4; ++c) score += in.q.at({1, 3, 2, c}) * in.k.at({1, 1, 4, c});
  CHECK(scores.at({1, 3, 2, 4}) == doctest::Approx(0.5 * score).epsilon(1e-14));
}

TEST_CASE("attention: replaced scores are what is softened, hidden and differentiated") {
  const Tensor q = random({2, 3, 4}, f64, 1), k = random({2, 4, 4}, f64, 2), v = random({2, 4, 5}, f64, 3);
  Tape tape;
  const Var a = variable(q);
  const Observer twice([](const TapPoint& at) -> Var { return at.name == "scores" ? at.value * 2 : at.value; });
  const Var y = attention(a, k, v, {.mask = Mask::causal(), .scale = 0.5});
  tape.backward(y, ones({2, 3, 5}, f64));
  Tape other;
  const Var b = variable(q);
  const Var expected = [&] {
    const Observer none([](const TapPoint&) {});
    return detail::composed_attention(detail::prepare_attention(b, k, v, {.mask = Mask::causal(), .scale = 1.0})).y;
  }();
  other.backward(expected, ones({2, 3, 5}, f64));
  check_close(y.value(), values(expected.value()), 1e-13, 1e-15);
  check_close(a.grad(), values(b.grad()), 1e-12, 1e-14);
}

// -- Dropout.

TEST_CASE("B18: attention: dropout draws in training alone, and p of 0 and 1 are whole and nothing") {
  const Setting s{.queries = 40, .keys = 70, .dropout = 0.5};
  const Inputs in = inputs_of(s, f32);
  const auto evaluated = [&](double p) { return evaluate(in.q, in.k, in.v, {.scale = s.scale, .dropout = p}); };
  const Tensor whole = evaluated(0);
  CHECK(same_bits(evaluated(0.5), whole));
  CHECK(same_bits(evaluated(1), whole));
  Setting other = s;
  other.dropout = 0;
  CHECK(same_bits(run(Form::fused, other, in).y, whole));
  other.dropout = 1;
  const Results nothing = run(Form::fused, other, in);
  CHECK(values(nothing.y) == Doubles(static_cast<std::size_t>(whole.count()), 0.0));
  for (const auto& [name, gradient] : nothing.gradients()) CHECK(kernels::squared_norm(*gradient) == 0);
  const Results dropped = run(Form::fused, s, in);
  CHECK_FALSE(same_bits(dropped.y, whole));
  CHECK(same_bits(dropped.weights, run(Form::fused, other, in).weights));  // those before dropout
  CHECK(same_bits(dropped.all(), run(Form::fused, s, in).all()));          // the same seed, the same mask
}

TEST_CASE("B18: attention: weight (b, h, i, j) is dropped by its place in the stream alone") {
  // Uniform weights 1 / S, and values that are unit vectors: y shows the factors.
  const Index keys = 35;
  Tensor v({2, 2, keys, keys});
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 2; ++h)
      for (Index j = 0; j < keys; ++j) v.set({b, h, j, j}, 1);
  Rng random(7);
  Tape tape({.random = &random});
  const Var y = attention(zeros({2, 2, 40, 3}), zeros({2, 2, keys, 3}), v, {.dropout = 0.4});
  Rng again(7);
  Tape other({.random = &again});
  const kernels::DropoutMask mask = kernels::dropout_mask(draw_stream(), 0.4);
  Tensor factors({2, 2, 40, keys});
  kernels::dropout_factors(factors, mask);
  kernels::scale(factors, factors, 1 / static_cast<double>(keys));
  check_close(y.value(), values(factors), 1e-6);
}

// -- Gradients.

TEST_CASE("attention: it holds what ops promise") {
  using check_ops::Plain;
  const auto plain_reference = [](const Setting& settings) {
    return [=](std::span<const Plain> x) {
      Setting s = settings;
      const auto tensor_of = [](const Plain& plain) {
        Tensor t(plain.shape, f64);
        std::copy(plain.numbers.begin(), plain.numbers.end(), t.data<double>().begin());
        return t;
      };
      Inputs in;
      in.q = tensor_of(x[0]);
      in.k = tensor_of(x[1]);
      in.v = tensor_of(x[2]);
      if (x.size() > 3) in.bias = tensor_of(x[3]);
      s.batch = in.q.size(0);
      s.heads = in.q.size(1);
      s.key_heads = in.k.size(1);
      s.queries = in.q.size(2);
      s.keys = in.k.size(2);
      s.width = in.q.size(3);
      s.value_width = in.v.size(3);
      Plain y(Shape{s.batch, s.heads, s.queries, s.value_width});
      y.numbers = reference(s, in).y;
      return y;
    };
  };
  using check_ops::real;
  const auto three = [](Index b, Index h, Index kv, Index l, Index s, Index d, Index dv) {
    return check_ops::Inputs{real({b, h, l, d}), real({b, kv, s, d}), real({b, kv, s, dv})};
  };
  const Setting causal{.mask = Mask::causal(), .scale = 0.7};
  check_ops::check_op(
      {.name = "attention, causal",
       .f = [](Var q, Var k, Var v) { return attention(q, k, v, {.mask = Mask::causal(), .scale = 0.7}); },
       .reference = check_ops::Reference(plain_reference(causal)),
       .inputs = {three(1, 2, 2, 3, 4, 3, 2), three(2, 4, 2, 5, 3, 2, 5), three(2, 1, 1, 34, 66, 4, 3)}});
  const Setting capped{.mask = Mask::window(3), .scale = 0.7, .softcap = 2};
  check_ops::check_op(
      {.name = "attention, softcap and window",
       .f = [](Var q, Var k,
               Var v) { return attention(q, k, v, {.mask = Mask::window(3), .scale = 0.7, .softcap = 2}); },
       .reference = check_ops::Reference(plain_reference(capped)),
       .inputs = {three(1, 2, 1, 4, 5, 3, 2)}});
  const Setting biased{.scale = 0.7};
  check_ops::check_op(
      {.name = "attention, bias",
       .f = [](Var q, Var k, Var v, Var bias) { return attention(q, k, v, {.scale = 0.7, .bias = bias}); },
       .reference = check_ops::Reference(plain_reference(biased)),
       .inputs = {{real({2, 2, 3, 3}), real({2, 1, 4, 3}), real({2, 1, 4, 2}), real({2, 1, 4})}}});
}

TEST_CASE("attention: gradients of every option, alone and together") {
  Setting s{.heads = 4, .key_heads = 2, .queries = 3, .keys = 5};
  const auto gradcheck_of = [&](const Setting& setting, bool learned_scale) {
    Setting full = setting;
    full.bias = {4, 1, 5};
    full.sinks = true;
    Inputs in = inputs_of(full, f64);
    Tensor scale = tensor(0.7, f64);
    const GradcheckReport report = gradcheck(
        [&](Var q, Var k, Var v, Var bias, Var sinks, Var factor) {
          AttentionOptions options = options_of(setting);
          if (setting.bias.count() > 0) options.bias = bias;
          if (setting.sinks) options.sinks = sinks;
          if (learned_scale) options.scale = factor;
          // All inputs take part, so that those not given are known to have no other gradient.
          const Var unused = sum(bias) + sum(sinks);
          const Var y = attention(q, k, v, options);
          const Var also = unused + sum(factor);
          return y + also;
        },
        in.q, in.k, in.v, in.bias, in.sinks, scale);
    CHECK_MESSAGE(report.passed(), report.text());
  };
  gradcheck_of(s, true);
  s.softcap = 1.5;
  gradcheck_of(s, false);
  s.bias = {4, 1, 5};
  gradcheck_of(s, false);
  s.sinks = true;
  s.mask = Mask::causal();
  gradcheck_of(s, true);
  s.mask = Mask::window(2) & Mask::padding({5, 2});
  gradcheck_of(s, true);
}

TEST_CASE("attention: queries, keys and values that are parts of one buffer, and of one with more in it") {
  const Index batch = 2, length = 40, heads = 2, width = 5, all = heads * width;
  for (const Index parts : {3, 4}) {
    const Tensor buffer = random({batch, length, parts * all}, f32, 1),
                 up = random({batch, heads, length, width}, f32, 2);
    const auto part_of = [&](Var x, Index part) {
      return view_of("part", slice(x, -1, part * all, (part + 1) * all), [&](const View& view) {
        return detail::swap_heads(view.reshape({batch, length, heads, width}));
      });
    };
    Tape tape;
    const Var x = variable(buffer);
    const Var q = part_of(x, 0);
    const Var k = part_of(x, 1);
    const Var v = part_of(x, 2);
    tape.backward(attention(q, k, v, {.mask = Mask::causal()}), up);
    Inputs in;
    const auto copied = [&](Index part) {
      const NoGrad scope;
      return Tensor::copy_of(part_of(Var(buffer), part).value());
    };
    in.q = copied(0);
    in.k = copied(1);
    in.v = copied(2);
    in.up = up.clone();
    const Results expected = run(Form::fused, {.mask = Mask::causal(), .scale = 1 / std::sqrt(5.0)}, in);
    const NoGrad scope;
    const Var gradient = Tensor::copy_of(x.grad());
    check_close(part_of(gradient, 0).value(), values(expected.dq), 0);
    check_close(part_of(gradient, 1).value(), values(expected.dk), 0);
    check_close(part_of(gradient, 2).value(), values(expected.dv), 0);
    if (parts == 4) CHECK(kernels::squared_norm(part_of(gradient, 3).value()) == 0);
  }
}

TEST_CASE("attention: one Var three times, and overlapping parts of one, get every gradient") {
  Tensor x = random({2, 5, 4}, f64, 1), longer = random({2, 7, 4}, f64, 2);
  const GradcheckReport same = gradcheck([](Var a) { return attention(a, a, a, {.mask = Mask::window(3)}); }, x);
  CHECK_MESSAGE(same.passed(), same.text());
  const GradcheckReport shifted = gradcheck(
      [](Var a) {
        const Var q = slice(a, 1, 0, 5);
        const Var k = slice(a, 1, 1, 6);
        const Var v = slice(a, 1, 2, 7);
        return attention(q, k, v);
      },
      longer);
  CHECK_MESSAGE(shifted.passed(), shifted.text());
}

TEST_CASE("attention: the mask may be gone before backward") {
  Tape tape;
  const Var q = variable(random({2, 1, 3, 4}, f64, 1));
  const Var k = variable(random({2, 1, 5, 4}, f64, 2));
  const Var v = variable(random({2, 1, 5, 2}, f64, 3));
  const Var y = [&] {
    const Mask mask = Mask::padding({4, 5}) & Mask::allow(random({3, 5}, i32, 5, 0, 2));
    return attention(q, k, v, {.mask = mask});
  }();
  tape.backward(y, ones({2, 1, 3, 2}, f64));
  CHECK(std::isfinite(kernels::squared_norm(q.grad())));
  CHECK(values(k.grad().select(0, 0).select(1, 4)) == Doubles(4, 0.0));
}

TEST_CASE("attention: the same bits on every row and for any number of threads, with every option") {
  const Mask mask = Mask::causal() & Mask::padding({130, 70});
  for (const DType dtype : {f32, f64, DType::dual})
    for (const Index heads : {1, 4}) {
      const Setting s{.heads = heads,
                      .key_heads = heads,
                      .queries = 100,
                      .keys = 130,
                      .width = 9,
                      .value_width = 18,
                      .mask = mask,
                      .softcap = 3,
                      .dropout = 0.25,
                      .bias = {100, 130},
                      .bias_hides = true,
                      .sinks = true};
      const Inputs in = inputs_of(s, dtype);
      on_every_row([&] { return run(Form::fused, s, in).all(); });
    }
}

TEST_CASE("attention: memory grows with L + S") {
  const Index length = 4096;
  const Tensor q = random({1, length, 16}, f32, 1), up = random({1, length, 16}, f32, 2);
  const auto peak_of = [&](Form form) {
    release_tape_memory();
    const std::uint64_t before = memory_use().bytes;
    Tape tape;
    const Var x = variable(q);
    const Var y = form == Form::fused ? attention(x, x, x, {.mask = Mask::causal()})
                                      : detail::composed_attention(detail::prepare_attention(x, x, x, {})).y;
    tape.backward(y, up);
    return memory_use().bytes - before;  // a tape gives nothing back before it ends
  };
  const std::uint64_t fused = peak_of(Form::fused), composed = peak_of(Form::composed);
  if (std::getenv("ATTUNE_TABLE"))
    fmt::print("attention of 4096 queries and keys, forward and backward: {:.1f} MB fused, {:.1f} MB composed\n",
               static_cast<double>(fused) * 0x1p-20, static_cast<double>(composed) * 0x1p-20);
  CHECK(fused < 16u << 20);
  CHECK(composed > 128u << 20);
}
