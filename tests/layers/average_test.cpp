// Averages of weights: the formula, and weights that come back as they were.
#include "attune/layers/average.h"

#include "../lib/kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

struct Model {
  Parameter a, b;
  explicit Model(DType dtype = f32) : a(random({3, 5}, dtype, 1)), b(random({4}, dtype, 2)) {}
  void each(auto&& visit) { visit("a", a), visit("b", b); }
  void set(std::uint64_t seed) {
    kernels::copy(a.mutable_value(), random({3, 5}, a.dtype(), seed));
    kernels::copy(b.mutable_value(), random({4}, b.dtype(), seed + 1));
  }
};

}  // namespace

TEST_CASE("average: the formula") {
  for (const bool warmup : {false, true}) {
    Model model(f64);
    WeightAverage average(model, {.decay = 0.9, .warmup = warmup});
    CHECK(same_bits(average.average(model.a), model.a.value()));
    std::vector<double> expected = values(model.a.value());
    for (int t = 0; t < 200; ++t) {
      model.set(static_cast<std::uint64_t>(10 + 2 * t));
      average.update();
      const double decay = warmup ? std::min(0.9, (1.0 + t) / (10.0 + t)) : 0.9;
      const std::vector<double> weights = values(model.a.value());
      for (std::size_t i = 0; i < weights.size(); ++i) expected[i] = decay * expected[i] + (1 - decay) * weights[i];
    }
    CHECK(average.updates() == 200);
    check_close(average.average(model.a), expected, 1e-13, 1e-15);
  }
}

TEST_CASE("average: swapped in and out, every bit of the weights is back") {
  Model model;
  model.a.mutable_value().as<float>()[0] = -0.0f;
  model.a.mutable_value().as<float>()[1] = 1e-42f;
  WeightAverage average(model, {.decay = 0.5});
  model.b.mutable_value().as<float>()[0] = 3;
  average.update();
  const Tensor a = Tensor::copy_of(model.a.value()), b = Tensor::copy_of(model.b.value());
  const Tensor mean = Tensor::copy_of(average.average(model.b));
  for (int round = 0; round < 2; ++round) {
    const AveragedWeights averaged(average);
    CHECK(same_bits(model.b.value(), mean));
    CHECK_THROWS_WITH_AS(average.update(), "average: no update while the model has the averages", std::invalid_argument);
    CHECK_THROWS_WITH_AS(AveragedWeights{average}, "average: no second swap while the model has the averages",
                         std::invalid_argument);
  }
  CHECK(std::memcmp(model.a.value().data(), a.view().data(), 15 * sizeof(float)) == 0);
  CHECK(std::memcmp(model.b.value().data(), b.view().data(), 4 * sizeof(float)) == 0);
  CHECK(same_bits(average.average(model.b), mean));
}

TEST_CASE("average: the same bits on every row") {
  on_every_row([] {
    Model model;
    WeightAverage average(model, {.decay = 0.97});
    for (std::uint64_t t = 0; t < 5; ++t) {
      model.set(10 + 2 * t);
      average.update();
    }
    return Tensor::copy_of(average.average(model.a));
  });
}

TEST_CASE("average: what is refused") {
  Model model;
  Parameter other(ones({3}));
  for (const double decay : {-0.1, 1.0, kNan}) CHECK_THROWS_AS(WeightAverage(model, {.decay = decay}), std::invalid_argument);
  CHECK_THROWS_WITH_AS(WeightAverage(model, {.decay = 1}), "average: decay is 1, and must lie in [0, 1)",
                       std::invalid_argument);
  WeightAverage average(model);
  CHECK_THROWS_WITH_AS(average.average(other), "average: a parameter of shape [3] is not in it", std::invalid_argument);
  const Cast cast(model, f64);
  CHECK_THROWS_WITH_AS(average.update(), "average: a is f64 now, and was f32 when the average was made",
                       std::invalid_argument);
}
