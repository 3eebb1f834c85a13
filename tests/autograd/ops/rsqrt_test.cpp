// rsqrt: one over the square root.
#include "attune/autograd/ops/rsqrt.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

TEST_CASE("rsqrt") {
  check_op({.name = "rsqrt",
            .f = [](Var x) { return rsqrt(x); },
            .reference = elementwise([](double x) { return 1 / std::sqrt(x); }),
            .inputs = odd_sizes(1, 0.25, 4),
            .points = {{{2}, 0.7071067811865476, {-0.1767766952966369}},
                       {{0.25}, 2, {-4}},
                       {{1e-100}, 1e+50, {-5e+149}},
                       {{0}, kInf, {-kInf}},
                       {{-1}, kNan, {kNan}},
                       {{kInf}, 0, {0}}}});
}
