// div: y = a / b.
#include "attune/autograd/ops/div.h"

#include <cmath>
#include <limits>

#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

// A numerator of either sign, and a denominator away from 0.
std::vector<Inputs> fractions() {
  std::vector<Inputs> inputs = odd_sizes(2);
  for (Inputs& both : inputs) both[1] = real(both[1].shape, 0.5, 2);
  return inputs;
}

}  // namespace

TEST_CASE("div") {
  check_op({.name = "div",
            .f = [](Var a, Var b) { return a / b; },
            .reference = elementwise([](double a, double b) { return a / b; }),
            .inputs = fractions(),
            .broadcasts = true,
            .errors = {{[] {
                          div(zeros({2, 3}), zeros({2}));
                        },
                        "div: [2, 3] and [2] do not broadcast: sizes 3 and 2 differ"},
                       {[] { div(zeros({0}), zeros({2})); },
                        "div: [0] and [2] do not broadcast: sizes 0 and 2 differ"}}});
}

TEST_CASE("div: with a number, on either side") {
  check_op({.name = "div, by a number",
            .f = [](Var x) { return x / 3; },
            .reference = elementwise([](double x) { return x / 3; }),
            .inputs = {{real({3, 5})}}});
  check_op({.name = "div, a number by it",
            .f = [](Var x) { return 3 / x; },
            .reference = elementwise([](double x) { return 3 / x; }),
            .inputs = {{real({3, 5}, 0.5, 2)}}});
}

TEST_CASE("div: by zero, as IEEE 754 has it") {
  const Tensor over = tensor({1, -1, 0}, f64), under = zeros({3}, f64);
  const NoGrad scope;
  const Var y = Var(over) / Var(under);
  CHECK(y.value().at({0}) == std::numeric_limits<double>::infinity());
  CHECK(y.value().at({1}) == -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(y.value().at({2})));
}
