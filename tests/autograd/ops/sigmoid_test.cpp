// sigmoid: the logistic function.
#include "attune/autograd/ops/sigmoid.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

TEST_CASE("sigmoid") {
  check_op({.name = "sigmoid",
            .f = [](Var x) { return sigmoid(x); },
            .reference = elementwise([](double x) { return 1 / (1 + std::exp(-x)); }),
            .inputs = odd_sizes(1, -4, 4),
            .points = {{{0}, 0.5, {0.25}},
                       {{1}, 0.7310585786300049, {0.19661193324148185}},
                       {{-1}, 0.2689414213699951, {0.19661193324148185}},
                       {{-40}, 4.248354255291589e-18, {4.248354255291589e-18}},
                       {{40}, 1, {4.248354255291589e-18}},
                       {{-100}, 3.720075976020836e-44, {3.720075976020836e-44}},
                       {{-700}, 9.85967654375977e-305, {9.85967654375977e-305}},
                       {{-1000}, 0, {0}},
                       {{1000}, 1, {0}},
                       {{-kInf}, 0, {0}},
                       {{kInf}, 1, {0}},
                       {{kNan}, kNan, {kNan}}}});
}
