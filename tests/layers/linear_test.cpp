// Linear: y = x W + b over the last axis, its gradients, and how it begins.
#include "attune/layers/linear.h"

#include "../lib/kernel_check.h"
#include "attune/autograd/gradcheck.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

Linear linear(const LinearOptions& options) {
  Rng rng(1);
  return Linear(options, rng);
}

// x [rows, in], W [in, out], b [out].
std::vector<double> reference(const ConstView& x, const ConstView& weight, const std::vector<double>& bias) {
  std::vector<double> y;
  for (Index row = 0; row < x.size(0); ++row)
    for (Index column = 0; column < weight.size(1); ++column) {
      double sum = bias.empty() ? 0 : bias[static_cast<std::size_t>(column)];
      for (Index i = 0; i < weight.size(0); ++i) sum += x.at({row, i}) * weight.at({i, column});
      y.push_back(sum);
    }
  return y;
}

double deviation(const std::vector<double>& numbers) {
  double sum = 0, squares = 0;
  for (const double x : numbers) sum += x, squares += x * x;
  const auto n = static_cast<double>(numbers.size());
  return std::sqrt(squares / n - sum * sum / (n * n));
}

std::vector<std::string> names(const Linear& layer) {
  std::vector<std::string> result;
  for_each_parameter(layer, [&](const std::string& name, const Parameter&) { result.push_back(name); });
  return result;
}

}  // namespace

TEST_CASE("linear: y = x W + b, with and without b, for every type") {
  for (const DType dtype : {f32, f64, DType::dual})
    for (const bool bias : {true, false}) {
      Linear layer = linear({.in = 5, .out = 3, .bias = bias});
      if (bias) kernels::copy(layer.bias.mutable_value(), tensor({0.5, -1, 2}));
      const Cast cast(layer, dtype);
      const Tensor x = random({2, 4, 5}, dtype, 7);
      const NoGrad scope;
      const ConstView y = layer(x).value();
      CHECK(y.shape() == Shape{2, 4, 3});
      check_close(y, reference(x.view().reshape({8, 5}), layer.weight.value(), values(layer.bias.value())),
                  tolerance(dtype), tolerance(dtype));
    }
}

TEST_CASE("linear: gradients of the weight, the bias and the input") {
  for (const bool bias : {true, false}) {
    Linear layer = linear({.in = 4, .out = 3, .bias = bias});
    const Cast cast(layer, f64);
    Tensor x = random({2, 3, 4}, f64, 2);
    const GradcheckReport parameters = gradcheck_parameters(ParameterList(layer), [&] { return layer(x); });
    CHECK_MESSAGE(parameters.passed(), parameters.text());
    CHECK(parameters.inputs.size() == (bias ? 2 : 1));
    const GradcheckReport input = gradcheck([&](Var in) { return layer(in); }, x);
    CHECK_MESSAGE(input.passed(), input.text());
  }
}

TEST_CASE("linear: a bias that is switched off does not exist") {
  const Linear with = linear({.in = 2, .out = 3}), without = linear({.in = 2, .out = 3, .bias = false});
  CHECK(names(with) == std::vector<std::string>{"weight", "bias"});
  CHECK(names(without) == std::vector<std::string>{"weight"});
  CHECK(parameter_count(with) == 9);
  CHECK(parameter_count(without) == 6);
  CHECK(with.weight.shape() == Shape{2, 3});
  CHECK(with.bias.shape() == Shape{3});
  CHECK_FALSE(without.bias.exists());
}

TEST_CASE("B27: linear: from nothing, every row is the bias") {
  Linear layer = linear({.in = 0, .out = 3});
  kernels::copy(layer.bias.mutable_value(), tensor({1, 2, 3}));
  Tape tape;
  const Var x = variable(Tensor({2, 0}));
  const Var y = layer(x);
  CHECK(values(y.value()) == std::vector<double>{1, 2, 3, 1, 2, 3});
  tape.backward(y, tensor({{1, 2, 3}, {10, 20, 30}}));
  CHECK(values(layer.bias.grad()) == std::vector<double>{11, 22, 33});
  CHECK(layer.weight.grad().shape() == Shape{0, 3});
  CHECK(x.grad().shape() == Shape{2, 0});
}

TEST_CASE("linear: of no rows, an empty result, and gradients of zeros") {
  Linear layer = linear({.in = 2, .out = 3});
  Tape tape;
  const Var y = layer(Tensor({0, 2}));
  CHECK(y.shape() == Shape{0, 3});
  tape.backward(sum(y));
  CHECK(values(layer.weight.grad()) == std::vector<double>(6, 0.0));
  CHECK(values(layer.bias.grad()) == std::vector<double>(3, 0.0));
}

TEST_CASE(
    "linear: it begins with the deviation that keeps the scale of x, or the one given, and a bias of zeros") {
  const Linear usual = linear({.in = 400, .out = 300}),
               given = linear({.in = 400, .out = 300, .init = Init::normal(0.02)});
  CHECK(deviation(values(usual.weight.value())) == doctest::Approx(0.05).epsilon(0.01));
  CHECK(deviation(values(given.weight.value())) == doctest::Approx(0.02).epsilon(0.01));
  CHECK(values(usual.bias.value()) == std::vector<double>(300, 0.0));
}

TEST_CASE("linear: the same generator gives the same bits, and the next layer others") {
  CHECK(same_bits(linear({.in = 9, .out = 5}).weight.value(), linear({.in = 9, .out = 5}).weight.value()));
  Rng rng(1);
  const Linear first({.in = 9, .out = 5}, rng), second({.in = 9, .out = 5}, rng);
  CHECK_FALSE(same_bits(first.weight.value(), second.weight.value()));
}

TEST_CASE("linear: what is refused") {
  CHECK_THROWS_WITH_AS(linear({.in = 3, .out = 0}), "linear: no map from 3 to 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(linear({.in = -1, .out = 2}), "linear: no map from -1 to 2", std::invalid_argument);
  const Linear layer = linear({.in = 4, .out = 3});
  const NoGrad scope;
  CHECK_THROWS_WITH_AS(layer(Tensor({2, 5})), "linear: [2, 5] x [4, 3]: inner sizes 5 and 4 differ",
                       std::invalid_argument);
}
