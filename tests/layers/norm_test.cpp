// LayerNorm, RmsNorm, and either of them by choice. The ops' own tests are in tests/autograd, the kernel's in
// tests/lib.
#include "attune/layers/norm.h"

#include "../lib/kernel_check.h"
#include "attune/autograd/gradcheck.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

std::vector<double> reference(const ConstView& x, const std::vector<double>& gain,
                              const std::vector<double>& shift, double epsilon) {
  std::vector<double> y;
  const auto width = static_cast<double>(x.size(1));
  for (Index row = 0; row < x.size(0); ++row) {
    double mean = 0, variance = 0;
    for (Index i = 0; i < x.size(1); ++i) mean += x.at({row, i}) / width;
    for (Index i = 0; i < x.size(1); ++i)
      variance += (x.at({row, i}) - mean) * (x.at({row, i}) - mean) / width;
    for (Index i = 0; i < x.size(1); ++i)
      y.push_back((x.at({row, i}) - mean) / std::sqrt(variance + epsilon) *
                      gain[static_cast<std::size_t>(i)] +
                  shift[static_cast<std::size_t>(i)]);
  }
  return y;
}

}  // namespace

TEST_CASE("layer norm: (x - mean) / sqrt(variance + epsilon) * gain + shift") {
  for (const DType dtype : {f32, f64, DType::dual})
    for (const double epsilon : {1e-5, 0.1}) {
      LayerNorm layer(7);
      layer.epsilon = epsilon;
      const Cast cast(layer, dtype);
      kernels::copy(layer.weight.mutable_value(), random({7}, dtype, 1));
      kernels::copy(layer.bias.mutable_value(), random({7}, dtype, 2));
      const Tensor x = random({2, 3, 7}, dtype, 3, -2, 5);
      const NoGrad scope;
      check_close(layer(x).value(),
                  reference(x.view().reshape({6, 7}), values(layer.weight.value()),
                            values(layer.bias.value()), epsilon),
                  tolerance(dtype), tolerance(dtype));
    }
}

TEST_CASE("layer norm: it begins as the plain normalisation, with epsilon 1e-5") {
  const LayerNorm layer(3);
  CHECK(values(layer.weight.value()) == std::vector<double>{1, 1, 1});
  CHECK(values(layer.bias.value()) == std::vector<double>{0, 0, 0});
  CHECK(layer.epsilon == 1e-5);
}

TEST_CASE("layer norm: gradients of x, the gain and the shift") {
  LayerNorm layer(5);
  const Cast cast(layer, f64);
  kernels::copy(layer.weight.mutable_value(), random({5}, f64, 4));
  Tensor x = random({2, 2, 5}, f64, 5);
  const GradcheckReport parameters = gradcheck_parameters(ParameterList(layer), [&] { return layer(x); });
  CHECK_MESSAGE(parameters.passed(), parameters.text());
  CHECK(parameters.inputs.size() == 2);
  const GradcheckReport input = gradcheck([&](Var in) { return layer(in); }, x);
  CHECK_MESSAGE(input.passed(), input.text());
}

TEST_CASE("layer norm: rows of another width are refused") {
  const LayerNorm layer(4);
  const NoGrad scope;
  CHECK_THROWS_WITH_AS(layer(Tensor({2, 5})), "layer_norm: weight [4] and bias [4] do not fit rows of [2, 5]",
                       std::invalid_argument);
}

TEST_CASE("rms norm: to a mean square of 1, then the gain") {
  RmsNorm layer(3, 0.25);
  layer.weight = Parameter(tensor({1, 2, -1}));
  const NoGrad scope;
  const double root = std::sqrt((1 + 4 + 16) / 3.0 + 0.25);
  const Tensor x = tensor({{1, -2, 4}});
  check_close(layer(x).value(), {1 / root, -4 / root, -4 / root}, 1e-6);
}

TEST_CASE("norm: the one that was chosen") {
  const Norm layer(4), rms(4, Normalize::rms);
  const LayerNorm plain(4);
  const RmsNorm plain_rms(4);
  const Tensor x = random({3, 4}, f32, 1);
  const NoGrad scope;
  CHECK(same_bits(layer(x).value(), plain(x).value()));
  CHECK(same_bits(rms(x).value(), plain_rms(x).value()));
  const auto names = [](const Norm& norm) {
    std::vector<std::string> result;
    for_each_parameter(norm, [&](const std::string& name, const Parameter&) { result.push_back(name); });
    return result;
  };
  CHECK(names(layer) == std::vector<std::string>{"weight", "bias"});
  CHECK(names(rms) == std::vector<std::string>{"weight"});
}

TEST_CASE("norm: gradients of everything") {
  for (const Normalize how : {Normalize::layer, Normalize::rms}) {
    Norm layer(5, how);
    const Cast cast(layer, f64);
    Tensor x = random({2, 5}, f64, 4);
    const GradcheckReport report = gradcheck_parameters(ParameterList(layer), [&] { return layer(x); });
    CHECK_MESSAGE(report.passed(), report.text());
    CHECK(gradcheck([&](Var in) { return layer(in); }, x));
  }
}
