// attention(): the formula in double, masks, empty sizes, layouts, and what it refuses.
#include "attune/layers/attention.h"

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
        const Tensor q = random({2, 3, queries, 4}, dtype, 1, -2, 2),
                     k = random({2, 3, keys, 4}, dtype, 2, -2, 2);
        const Tensor v = random({2, 3, keys, 5}, dtype, 3);
        const Mask mask = causal ? Mask::causal() : Mask();
        check_close(evaluate(q, k, v, {.mask = mask}), reference(q, k, v, 0.5, causal), tolerance(dtype),
                    tolerance(dtype));
        check_close(evaluate(q, k, v, {.mask = mask, .scale = 0.3}), reference(q, k, v, 0.3, causal),
                    tolerance(dtype), tolerance(dtype));
        check_close(evaluate(q, k, v, {.mask = mask, .scale = Scale::none()}), reference(q, k, v, 1, causal),
                    tolerance(dtype), tolerance(dtype));
      }
}

TEST_CASE("attention: an example to follow by hand") {
  const Tensor q = tensor({{1, 1}}, f64), k = tensor({{1, 1}, {1, -1}}, f64),
               v = tensor({{10, 0}, {0, 10}}, f64);
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
            if (!sees(i, j, 40, 50, true)) CHECK(weight == 0);
            sum += weight;
          }
          CHECK(std::abs(sum - 1) <= (dtype == f32 ? 1e-6 : 1e-14));
        }
  }
}

TEST_CASE("attention: large scores saturate, and nothing overflows") {
  const Tensor q = tensor({{1e4, 0}}), k = tensor({{1e4, 0}, {0, 1e4}, {-1e4, 0}}),
               v = tensor({{1}, {2}, {3}});
  CHECK(evaluate(q, k, v).item() == 1);
}

TEST_CASE("attention: gradients of q, k and v, whole and causal") {
  for (const Mask& mask : {Mask(), Mask::causal(), Mask::causal(Align::top_left)}) {
    Tensor q = random({2, 2, 3, 4}, f64, 1), k = random({2, 2, 5, 4}, f64, 2),
           v = random({2, 2, 5, 3}, f64, 3);
    const GradcheckReport report =
        gradcheck([&](Var a, Var b, Var c) { return attention(a, b, c, {.mask = mask}); }, q, k, v);
    CHECK_MESSAGE(report.passed(), report.text());
  }
}

TEST_CASE("attention: one tensor as query, key and value") {
  Tensor x = random({2, 5, 4}, f64, 1);
  const GradcheckReport report =
      gradcheck([](Var a) { return attention(a, a, a, {.mask = Mask::causal()}); }, x);
  CHECK_MESSAGE(report.passed(), report.text());
}

TEST_CASE("attention: rank 2 is one head, rank 3 several, rank 5 batches of batches") {
  const Tensor q = random({6, 4, 3}, f64, 1), k = random({6, 5, 3}, f64, 2), v = random({6, 5, 2}, f64, 3);
  const Tensor y = evaluate(q, k, v);
  const auto in_shape = [](const Tensor& x, const Shape& shape) {
    return Tensor::copy_of(x.view().reshape(shape));
  };
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
  const Tensor q = random({1, 3, 5, 4}, f32, 1), k = random({1, 3, 5, 4}, f32, 2),
               v = random({1, 3, 5, 4}, f32, 3);
  const auto rotated = [](const Tensor& x) {
    Tensor y(x.shape(), x.dtype());
    for (Index head = 0; head < 3; ++head)
      kernels::copy(y.view().select(1, (head + 1) % 3), x.view().select(1, head));
    return y;
  };
  CHECK(same_bits(evaluate(rotated(q), rotated(k), rotated(v)), rotated(evaluate(q, k, v))));
}

TEST_CASE("attention: the same bits in every layout, and merged heads are a view") {
  const Tensor q = random({2, 3, 5, 4}, f32, 1), k = random({2, 3, 6, 4}, f32, 2),
               v = random({2, 3, 6, 7}, f32, 3);
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
    const Tensor result = Tensor::copy_of(y.value()), dq = Tensor::copy_of(a.grad()),
                 dk = Tensor::copy_of(b.grad()), dv = Tensor::copy_of(c.grad());
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
  refused({1, 2, 3, 0}, {1, 2, 4, 0}, {1, 2, 4, 5},
          "attention: q [1, 2, 3, 0], v [1, 2, 4, 5]: a head has no width");
  refused({1, 2, 3, 4}, {1, 2, 4, 4}, {1, 2, 4, 0},
          "attention: q [1, 2, 3, 4], v [1, 2, 4, 0]: a head has no width");
  refused({1, 2, 3, 4}, {1, 2, 5, 4}, {1, 2, 6, 4},
          "attention: k [1, 2, 5, 4] has 5 keys and v [1, 2, 6, 4] has 6");
  refused({1, 2, 3, 4}, {1, 2, 5, 3}, {1, 2, 5, 4},
          "attention: q [1, 2, 3, 4] and k [1, 2, 5, 3]: widths 4 and 3 differ");
  refused(
      {1, 2, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 4},
      "attention: q [1, 2, 3, 4], k [2, 2, 5, 4] and v [2, 2, 5, 4] need two axes and the same leading ones");
  refused({2, 3, 4}, {2, 3, 4}, {3, 4},
          "attention: q [2, 3, 4], k [2, 3, 4] and v [3, 4] need two axes and the same leading ones");
  refused({4}, {4}, {4}, "attention: q [4], k [4] and v [4] need two axes and the same leading ones");
  CHECK_THROWS_AS(evaluate(Tensor({2, 3}), Tensor({2, 3}, f64), Tensor({2, 3})), std::invalid_argument);
}
