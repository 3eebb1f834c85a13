// Clipping: norms that overflow, vanish or are none, and what is refused.
#include "attune/layers/clip.h"

#include "../lib/kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

// Named "0", "1", ...
struct Parameters {
  std::vector<Parameter> list;

  template <class... Tensors>
  explicit Parameters(const Tensors&... values) {
    (list.emplace_back(values), ...);
  }
  Parameter& operator[](std::size_t i) { return list[i]; }
  void each(auto&& visit) {
    for (std::size_t i = 0; i < list.size(); ++i) visit(std::to_string(i), list[i]);
  }
};

void set_grad(Parameter& p, const ConstView& gradient) { kernels::copy(p.mutable_grad(), gradient); }

}  // namespace

TEST_CASE("B58: clip: to the largest norm, over all parameters as one vector") {
  Parameters model(zeros({2}), zeros({1}));
  set_grad(model[0], tensor({3, 4}));
  set_grad(model[1], tensor({12}));
  CHECK(clip_grad_norm(model, 6.5) == 13);
  CHECK(values(model[0].grad()) == std::vector<double>{1.5, 2});
  CHECK(values(model[1].grad()) == std::vector<double>{6});
}

TEST_CASE("B58: clip: what is short enough keeps its bits") {
  Parameters model(zeros({2}), zeros({1}));
  set_grad(model[0], tensor({0.1, -0.2}));
  set_grad(model[1], tensor({0.3}));
  const Tensor before = Tensor::copy_of(model[0].grad());
  CHECK(clip_grad_norm(model, 100) == doctest::Approx(std::sqrt(0.14)));
  CHECK(same_bits(model[0].grad(), before));
  set_grad(model[0], tensor({3, 4}));
  set_grad(model[1], tensor({0}));
  CHECK(clip_grad_norm(model, 5) == 5);  // just the limit
  CHECK(values(model[0].grad()) == std::vector<double>{3, 4});
}

TEST_CASE("B58: clip: zeros stay zeros") {
  Parameters model(zeros({3}));
  set_grad(model[0], zeros({3}));
  CHECK(clip_grad_norm(model, 1) == 0);
  CHECK(values(model[0].grad()) == std::vector<double>{0, 0, 0});
}

TEST_CASE("B58: clip: with nothing to clip the norm is 0") {
  Parameters model(ones({3})), empty;
  CHECK(clip_grad_norm(model, 1) == 0);
  CHECK(clip_grad_norm(empty, 1) == 0);
  CHECK_FALSE(model[0].has_grad());
}

TEST_CASE("B58: clip: a norm that is not finite is reported, and nothing is scaled") {
  for (const double bad : {kInf, -kInf, kNan}) {
    Parameters model(zeros({2}), zeros({1}));
    set_grad(model[0], tensor({3, 4}));
    set_grad(model[1], full({1}, bad));
    CHECK_FALSE(std::isfinite(clip_grad_norm(model, 1)));
    CHECK(values(model[0].grad()) == std::vector<double>{3, 4});
  }
}

TEST_CASE("B58: clip: the squares of large gradients do not overflow, nor those of small ones vanish") {
  Parameters model(zeros({100}));
  set_grad(model[0], full({100}, 1e20));
  CHECK(clip_grad_norm(model, 1) == doctest::Approx(1e21).epsilon(1e-7));
  for (const double g : values(model[0].grad())) CHECK(g == doctest::Approx(0.1).epsilon(1e-5));
  set_grad(model[0], full({100}, 1e-30));
  CHECK(clip_grad_norm(model, 1) == doctest::Approx(1e-29).epsilon(1e-6));
}

TEST_CASE("clip: parameters without a gradient, and frozen ones, do not count") {
  Parameters model(zeros({2}), zeros({1}), zeros({1}));
  set_grad(model[0], tensor({3, 4}));
  set_grad(model[1], tensor({100}));
  model[1].set_trainable(false);
  CHECK(clip_grad_norm(model, 1) == 5);
  CHECK(model[1].grad().item() == 100);
}

TEST_CASE("B58: clip: a largest norm must be above 0") {
  Parameters model(zeros({2}));
  CHECK_THROWS_WITH_AS(clip_grad_norm(model, 0), "clip_grad_norm: a largest norm of 0 is not above 0",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(clip_grad_norm(model, -1), "clip_grad_norm: a largest norm of -1 is not above 0",
                       std::invalid_argument);
  CHECK_THROWS_AS(clip_grad_norm(model, kNan), std::invalid_argument);
}

TEST_CASE("B58: clip: an epsilon in the divisor, as PyTorch has it") {
  Parameters model(zeros({2}, f64));
  set_grad(model[0], tensor({3, 4}, f64));
  CHECK(clip_grad_norm(model, 2.5, 1) == 5);
  CHECK(model[0].grad().at({0}) == doctest::Approx(3 * 2.5 / 6).epsilon(1e-15));
  set_grad(model[0], tensor({3, 4}, f64));
  clip_grad_norm(model, 5.5, 1);  // 5 + 1 is above it
  CHECK(model[0].grad().at({0}) == doctest::Approx(3 * 5.5 / 6).epsilon(1e-15));
  CHECK_THROWS_WITH_AS(clip_grad_norm(model, 1, -1), "clip_grad_norm: an epsilon of -1 is below 0",
                       std::invalid_argument);
}

TEST_CASE("clip by value: every element is cut, infinities too, and a NaN stays") {
  for (const DType dtype : {f32, f64, DType::dual}) {
    Parameters model(zeros({6}, dtype), zeros({1}, dtype), zeros({1}, dtype));
    set_grad(model[0], tensor({0.5, -0.5, 3, -kInf, kNan, 2}, dtype));
    set_grad(model[1], tensor({100}, dtype));
    model[1].set_trainable(false);
    CHECK(clip_grad_value(model, 2) == 2);
    const std::vector<double> cut = values(model[0].grad());
    CHECK(std::vector<double>(cut.begin(), cut.begin() + 4) == std::vector<double>{0.5, -0.5, 2, -2});
    CHECK(std::isnan(cut[4]));
    CHECK(cut[5] == 2);
    CHECK(values(model[1].grad()) == std::vector<double>{100});
    CHECK_FALSE(model[2].has_grad());
  }
}

TEST_CASE("clip by value: a limit must be above 0") {
  Parameters model(zeros({2}));
  CHECK_THROWS_WITH_AS(clip_grad_value(model, 0), "clip_grad_value: a limit of 0 is not above 0",
                       std::invalid_argument);
  CHECK_THROWS_AS(clip_grad_value(model, kNan), std::invalid_argument);
}

TEST_CASE("B33: clip: the norm of twenty million gradients in f32") {
  Parameters model(zeros({20'000'000}));
  kernels::fill(model[0].mutable_grad(), 1e-3);
  CHECK(clip_grad_norm(model, 100) == doctest::Approx(4.472135955).epsilon(1e-7));
}
