// gelu: x times the normal distribution function of x.
#include "attune/autograd/ops/gelu.h"

#include <cmath>
#include <numbers>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

TEST_CASE("gelu") {
  check_op({.name = "gelu",
            .f = [](Var x) { return gelu(x); },
            .reference = elementwise([](double x) { return x / 2 * std::erfc(-x / std::sqrt(2)); }),
            .inputs = odd_sizes(1, -4, 4)});
}

TEST_CASE("gelu_tanh") {
  check_op({.name = "gelu_tanh",
            .f = [](Var x) { return gelu_tanh(x); },
            .reference = elementwise([](double x) {
              return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
            }),
            .inputs = odd_sizes(1, -4, 4),
            .points = {{{0}, 0, {0.5}},
                       {{1}, 0.8411919906082767, {1.0829640838457826}},
                       {{-3}, -0.003637392081773019, {-0.011584166630969726}},
                       {{6}, 5.9999999999156035, {1.0000000007709975}},
                       {{-kInf}, 0, {0}},
                       {{1e30}, 1e30, {1}},
                       {{kInf}, kInf, {1}},
                       {{kNan}, kNan, {kNan}}}});
}

TEST_CASE("gelu: known answers") {
  const Tensor x = tensor({1, -1, 0, 2, -6, 6}, f64);
  Tape tape;
  const Var leaf = variable(x), y = gelu(leaf);
  tape.backward(y, ones({6}, f64));
  const double values[] = {0.8413447460685429, -0.15865525393145707,   0,
                           1.9544997361036416, -5.919525870226207e-09, 5.999999994080474};
  const double slopes[] = {1.0833154705876864, -0.08331547058768629,    0.5,
                           1.085231801078197,  -3.5468709453902015e-08, 1.0000000354687093};
  for (Index i = 0; i < 6; ++i) {
    CHECK(std::abs(y.value().at({i}) - values[i]) <= 1e-14 * std::abs(values[i]));
    CHECK(std::abs(leaf.grad().at({i}) - slopes[i]) <= 1e-14 * std::abs(slopes[i]));
  }
}
