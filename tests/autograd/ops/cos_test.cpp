// cos: of an angle in radians.
#include "attune/autograd/ops/cos.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

TEST_CASE("cos") {
  check_op({.name = "cos",
            .f = [](Var x) { return cos(x); },
            .reference = elementwise([](double x) { return std::cos(x); }),
            .inputs = odd_sizes(1, -4, 4),
            .points = {{{0}, 1, {0}},
                       {{1}, 0.5403023058681398, {-0.8414709848078965}},
                       {{-3}, -0.9899924966004454, {0.1411200080598672}},
                       {{100}, 0.8623188722876839, {0.5063656411097588}},
                       {{1e22}, 0.523214785395139, {0.8522008497671888}},
                       {{kInf}, kNan, {kNan}}}});
}
