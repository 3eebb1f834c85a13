// neg: y = -x.
#include "attune/autograd/ops/neg.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

TEST_CASE("neg") {
  check_op({.name = "neg",
            .f = [](Var x) { return -x; },
            .reference = elementwise([](double x) { return -x; }),
            .inputs = odd_sizes(1),
            .saves = Saves::nothing,
            .points = {{{2}, -2, {-1}}, {{0}, 0, {-1}}, {{kInf}, -kInf, {-1}}, {{kNan}, kNan, {-1}}}});
}
