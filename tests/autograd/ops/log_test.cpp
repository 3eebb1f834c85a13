// log: the natural logarithm.
#include "attune/autograd/ops/log.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

TEST_CASE("log") {
  check_op({.name = "log",
            .f = [](Var x) { return log(x); },
            .reference = elementwise([](double x) { return std::log(x); }),
            .inputs = odd_sizes(1, 0.25, 4),
            .points = {{{0.5}, -0.6931471805599453, {2}},
                       {{1}, 0, {1}},
                       {{10}, 2.302585092994046, {0.1}},
                       {{1e-300}, -690.7755278982137, {9.999999999999999e+299}},
                       {{0}, -kInf, {kInf}},
                       {{-1}, kNan, {-1}},
                       {{kInf}, kInf, {0}},
                       {{kNan}, kNan, {kNan}}}});
}
