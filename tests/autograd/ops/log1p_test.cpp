// log1p: log(1 + x).
#include "attune/autograd/ops/log1p.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

TEST_CASE("log1p") {
  check_op({.name = "log1p",
            .f = [](Var x) { return log1p(x); },
            .reference = elementwise([](double x) { return std::log1p(x); }),
            .inputs = odd_sizes(1, -0.75, 4),
            .points = {{{0}, 0, {1}},
                       {{1e-20}, 1e-20, {1}},
                       {{0x1p-40}, 0x1p-40 * (1 - 0x1p-41), {1 - 0x1p-40}},
                       {{-1e-20}, -1e-20, {1}},
                       {{1e-5}, 9.999950000333332e-06, {0.999990000099999}},
                       {{-0.5}, -0.6931471805599453, {2}},
                       {{3}, 1.3862943611198906, {0.25}},
                       {{1e300}, 690.7755278982137, {1e-300}},
                       {{-1}, -kInf, {kInf}},
                       {{-2}, kNan, {-1}},
                       {{kInf}, kInf, {0}},
                       {{kNan}, kNan, {kNan}}}});
}
