// Mlp: down(gelu(up(x))).
#include "attune/layers/mlp.h"

#include "../lib/kernel_check.h"
#include "attune/autograd/gradcheck.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

Mlp make_mlp(const MlpOptions& options) {
  Rng rng(1);
  return Mlp(options, rng);
}

// One position at a time: x [rows, C].
std::vector<double> reference(const ConstView& x, const Mlp& mlp) {
  const ConstView up = mlp.up.weight.value(), down = mlp.down.weight.value();
  std::vector<double> y;
  for (Index row = 0; row < x.size(0); ++row) {
    std::vector<double> hidden;
    for (Index j = 0; j < up.size(1); ++j) {
      double sum = mlp.up.bias.exists() ? mlp.up.bias.value().at({j}) : 0;
      for (Index i = 0; i < up.size(0); ++i) sum += x.at({row, i}) * up.at({i, j});
      hidden.push_back(sum / 2 * std::erfc(-sum / std::sqrt(2.0)));
    }
    for (Index k = 0; k < down.size(1); ++k) {
      double sum = mlp.down.bias.exists() ? mlp.down.bias.value().at({k}) : 0;
      for (Index j = 0; j < down.size(0); ++j) sum += hidden[static_cast<std::size_t>(j)] * down.at({j, k});
      y.push_back(sum);
    }
  }
  return y;
}

}  // namespace

TEST_CASE("mlp: down(gelu(up(x))), with and without biases") {
  for (const DType dtype : {f32, f64})
    for (const bool bias : {true, false}) {
      Mlp layer = make_mlp({.width = 5, .hidden = 7, .bias = bias});
      const Cast cast(layer, dtype);
      if (bias) {
        kernels::copy(layer.up.bias.mutable_value(), random({7}, dtype, 1));
        kernels::copy(layer.down.bias.mutable_value(), random({5}, dtype, 2));
      }
      const Tensor x = random({2, 3, 5}, dtype, 3, -2, 2);
      const NoGrad scope;
      const ConstView y = layer(x).value();
      CHECK(y.shape() == Shape{2, 3, 5});
      check_close(y, reference(x.view().reshape({6, 5}), layer), tolerance(dtype), tolerance(dtype));
    }
}

TEST_CASE("mlp: four times as wide inside, unless said otherwise") {
  CHECK(make_mlp({.width = 6}).up.weight.shape() == Shape{6, 24});
  CHECK(make_mlp({.width = 6}).down.weight.shape() == Shape{24, 6});
  CHECK(make_mlp({.width = 6, .hidden = 10}).up.weight.shape() == Shape{6, 10});
  for (const Activation activation : {Activation::gelu, Activation::swiglu})
    CHECK_THROWS_WITH_AS(make_mlp({.width = 6, .hidden = -10, .activation = activation}),
                         "mlp: a hidden width of -10 is negative", std::invalid_argument);
}

TEST_CASE("mlp: its parameters by name") {
  const auto names = [](bool bias) {
    const Mlp layer = make_mlp({.width = 2, .bias = bias});
    std::vector<std::string> result;
    for_each_parameter(layer, [&](const std::string& name, const Parameter&) { result.push_back(name); });
    return result;
  };
  CHECK(names(true) == std::vector<std::string>{"up.weight", "up.bias", "down.weight", "down.bias"});
  CHECK(names(false) == std::vector<std::string>{"up.weight", "down.weight"});
}

TEST_CASE("mlp: the deviations of both maps can be given") {
  const Mlp layer = make_mlp({.width = 128, .init = Init::normal(0.5), .out_init = Init::normal(0.1)});
  CHECK(std::sqrt(kernels::squared_norm(layer.up.weight.value()) / 65536) ==
        doctest::Approx(0.5).epsilon(0.02));
  CHECK(std::sqrt(kernels::squared_norm(layer.down.weight.value()) / 65536) ==
        doctest::Approx(0.1).epsilon(0.02));
}

TEST_CASE("mlp: gradients of everything") {
  Mlp layer = make_mlp({.width = 3, .hidden = 4});
  const Cast cast(layer, f64);
  Tensor x = random({2, 3}, f64, 4);
  const GradcheckReport parameters = gradcheck_parameters(ParameterList(layer), [&] { return layer(x); });
  CHECK_MESSAGE(parameters.passed(), parameters.text());
  CHECK(parameters.inputs.size() == 4);
  const GradcheckReport input = gradcheck([&](Var in) { return layer(in); }, x);
  CHECK_MESSAGE(input.passed(), input.text());
}
