// layer_norm: each row with its own mean and variance.
#include "attune/autograd/ops/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

// Two passes in long double.
Plain reference(const Plain& x, const Plain& weight, const Plain& bias, double epsilon) {
  Plain y(x.shape);
  const auto width = static_cast<std::size_t>(x.shape.last());
  for (std::size_t start = 0; start < x.numbers.size(); start += width) {
    long double mean = 0, variance = 0;
    for (std::size_t j = 0; j < width; ++j) mean += x.numbers[start + j];
    mean /= static_cast<long double>(width);
    for (std::size_t j = 0; j < width; ++j)
      variance += (x.numbers[start + j] - mean) * (x.numbers[start + j] - mean);
    variance /= static_cast<long double>(width);
    for (std::size_t j = 0; j < width; ++j)
      y.numbers[start + j] =
          static_cast<double>((x.numbers[start + j] - mean) / std::sqrt(variance + epsilon)) *
              weight.numbers[j] +
          bias.numbers[j];
  }
  return y;
}

Inputs rows(const Shape& x) { return {real(x), real({x.last()}, 0.5, 2), real({x.last()})}; }

struct Gradients {
  Plain y, x, weight, bias;
};
Gradients gradients_of(const Tensor& x, const Tensor& seed) {
  const Tensor weight = ones({x.size(-1)}, x.dtype()), bias({x.size(-1)}, x.dtype());
  Tape tape;
  const Var vx = variable(x), vw = variable(weight), vb = variable(bias), y = layer_norm(vx, vw, vb);
  tape.backward(y, seed);
  return {Plain(y.value()), Plain(vx.grad()), Plain(vw.grad()), Plain(vb.grad())};
}

// An upstream gradient that is neither constant nor linear, since those a layer norm cancels.
Tensor upstream_of(const Tensor& x) {
  Tensor seed(x.shape(), f64);
  for (Index i = 0; i < x.count(); ++i)
    seed.data<double>()[static_cast<std::size_t>(i)] = std::cos(3.0 * static_cast<double>(i * i));
  return seed;
}

}  // namespace

TEST_CASE("layer_norm") {
  check_op(
      {.name = "layer_norm",
       .f = [](Var x, Var weight, Var bias) { return layer_norm(x, weight, bias); },
       .reference = [](const Plain& x, const Plain& w, const Plain& b) { return reference(x, w, b, 1e-5); },
       .inputs = {rows({3, 5}), rows({7}), rows({2, 3, 15}), rows({4, 16}), rows({2, 1, 17}), rows({1, 33}),
                  rows({0, 4}), rows({2, 1, 3, 1, 2, 7}), rows({70, 9}), rows({4, 70, 130})},
       .errors = {{[] { layer_norm(tensor(1), zeros({1}), zeros({1})); },
                   "layer_norm: [] has no row to normalise"},
                  {[] {
                     layer_norm(zeros({3, 0}), zeros({0}), zeros({0}));
                   },
                   "layer_norm: [3, 0] has no row to normalise"},
                  {[] {
                     layer_norm(zeros({3, 4}), zeros({3}), zeros({4}));
                   },
                   "layer_norm: weight [3] and bias [4] do not fit rows of [3, 4]"},
                  {[] {
                     layer_norm(zeros({3, 4}), zeros({4}), zeros({1, 4}));
                   },
                   "layer_norm: weight [4] and bias [1, 4] do not fit rows of [3, 4]"}}});
}

TEST_CASE("layer_norm: without a bias, and without a weight") {
  const auto alone = [](const Plain& x) { return std::pair(ones({x.shape.last()}, f64), zeros({x.shape.last()}, f64)); };
  check_op({.name = "layer_norm, no bias",
            .f = [](Var x, Var weight) { return layer_norm(x, weight, 1e-3); },
            .reference =
                [=](const Plain& x, const Plain& w) { return reference(x, w, Plain(alone(x).second), 1e-3); },
            .inputs = {{real({3, 5}), real({5}, 0.5, 2)}, {real({2, 3, 17}), real({17}, 0.5, 2)}}});
  check_op({.name = "layer_norm, no weight",
            .f = [](Var x) { return layer_norm(x); },
            .reference =
                [=](const Plain& x) {
                  const auto [weight, bias] = alone(x);
                  return reference(x, Plain(weight), Plain(bias), 1e-5);
                },
            .inputs = {{real({3, 5})}, {real({2, 3, 17})}},
            .errors = {{[] { layer_norm(tensor(1)); }, "layer_norm: [] has no row to normalise"}}});
}

TEST_CASE("layer_norm: rows of one element are their bias") {
  const Tensor x = tensor({{5}, {-7}}, f64), weight = tensor({3}, f64), bias = tensor({2}, f64);
  Tape tape;
  const Var vx = variable(x), vw = variable(weight), vb = variable(bias), y = layer_norm(vx, vw, vb);
  tape.backward(y, ones({2, 1}, f64));
  CHECK(Plain(y.value()).numbers == std::vector<double>{2, 2});
  CHECK(Plain(vx.grad()).numbers == std::vector<double>{0, 0});
  CHECK(Plain(vw.grad()).numbers == std::vector<double>{0});
  CHECK(Plain(vb.grad()).numbers == std::vector<double>{2});
}

TEST_CASE("layer_norm: the epsilon is under the root") {
  check_op(
      {.name = "layer_norm, epsilon 0.5",
       .f = [](Var x, Var weight, Var bias) { return layer_norm(x, weight, bias, 0.5); },
       .reference = [](const Plain& x, const Plain& w, const Plain& b) { return reference(x, w, b, 0.5); },
       .inputs = {rows({3, 5}), rows({2, 3, 17})}});
}

TEST_CASE("layer_norm: B52, a mean far above the deviation") {
  const auto normalised = [](const Tensor& x) { return gradients_of(x, ones(x.shape())).y.numbers; };
  const std::vector<double> far = normalised(tensor({40000, 40001, 40002, 40003}));
  const double four[] = {-1.341635420, -0.447211807, 0.447211807, 1.341635420};
  for (std::size_t i = 0; i < 4; ++i) CHECK(far[i] == doctest::Approx(four[i]).epsilon(1e-6));

  Tensor quarters({8});
  for (Index i = 0; i < 8; ++i) quarters.set({i}, 10000 + 0.25 * static_cast<double>(i));
  const std::vector<double> eight = normalised(quarters);
  const double half[] = {-1.527501956, -1.091072825, -0.654643695, -0.218214565};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(eight[i] == doctest::Approx(half[i]).epsilon(1e-5));
    CHECK(eight[7 - i] == doctest::Approx(-half[i]).epsilon(1e-5));
  }
  CHECK(normalised(full({256}, 1234)) == std::vector<double>(256, 0));
}

TEST_CASE("layer_norm: B52, values and gradients in f32 match f64 on the same numbers") {
  Tensor quarters({8}), noise({64});
  for (Index i = 0; i < 8; ++i) quarters.set({i}, 10000 + 0.25 * static_cast<double>(i));
  for (Index i = 0; i < 64; ++i) noise.set({i}, 1e4 + 1.6e-2 * std::sin(static_cast<double>(i * i)));
  const Tensor far = tensor({40000, 40001, 40002, 40003}), equal = full({256}, 1234);
  for (const Tensor* x : std::initializer_list<const Tensor*>{&far, &quarters, &equal, &noise}) {
    const Tensor seed = upstream_of(*x);
    const Gradients single = gradients_of(*x, seed.to(f32)),
                    twice = gradients_of(x->to(f64), seed.to(f32).to(f64));
    const auto close = [](const Plain& a, const Plain& b, double relative) {
      double largest = 0;
      for (double number : b.numbers) largest = std::max(largest, std::abs(number));
      for (std::size_t i = 0; i < b.numbers.size(); ++i) {
        CHECK(std::isfinite(a.numbers[i]));
        CHECK(std::abs(a.numbers[i] - b.numbers[i]) <= relative * largest);
      }
    };
    close(single.y, twice.y, 1e-2);
    close(single.x, twice.x, 1e-3);
    close(single.weight, twice.weight, 1e-3);
    close(single.bias, twice.bias, 1e-3);
  }
}

TEST_CASE("layer_norm: rows whose squares overflow are zeros, those just below are right") {
  const NoGrad scope;
  const auto largest = [](double size, DType dtype) {
    const Plain y(layer_norm(tensor({size, -size}, dtype)).value());
    return std::max(std::abs(y.numbers[0]), std::abs(y.numbers[1]));
  };
  const double right = largest(1, f64);
  for (const auto& [size, dtype] : {std::pair(1e19, f32), {1e153, f64}}) {
    CHECK(largest(size, dtype) == doctest::Approx(right).epsilon(1e-4));
    CHECK(largest(10 * size, dtype) == 0);
  }
}
