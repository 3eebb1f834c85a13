// sin: of an angle in radians.
#include "attune/autograd/ops/sin.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

TEST_CASE("sin") {
  check_op({.name = "sin",
            .f = [](Var x) { return sin(x); },
            .reference = elementwise([](double x) { return std::sin(x); }),
            .inputs = odd_sizes(1, -4, 4),
            .points = {{{0}, 0, {1}},
                       {{1}, 0.8414709848078965, {0.5403023058681398}},
                       {{-3}, -0.1411200080598672, {-0.9899924966004454}},
                       {{100}, -0.5063656411097588, {0.8623188722876839}},
                       {{1e22}, -0.8522008497671888, {0.523214785395139}},
                       {{kInf}, kNan, {kNan}}}});
}
