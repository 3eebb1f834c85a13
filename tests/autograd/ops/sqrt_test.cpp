// sqrt: the square root.
#include "attune/autograd/ops/sqrt.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

TEST_CASE("sqrt") {
  check_op({.name = "sqrt",
            .f = [](Var x) { return sqrt(x); },
            .reference = elementwise([](double x) { return std::sqrt(x); }),
            .inputs = odd_sizes(1, 0.25, 4),
            .saves = Saves::nothing,
            .points = {{{2}, 1.4142135623730951, {0.3535533905932738}},
                       {{0.25}, 0.5, {1}},
                       {{1e-300}, 1e-150, {5e+149}},
                       {{0}, 0, {kInf}},
                       {{-1}, kNan, {kNan}},
                       {{kInf}, kInf, {0}}}});
}
