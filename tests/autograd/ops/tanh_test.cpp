// tanh: the hyperbolic tangent.
#include "attune/autograd/ops/tanh.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

TEST_CASE("tanh") {
  check_op({.name = "tanh",
            .f = [](Var x) { return tanh(x); },
            .reference = elementwise([](double x) { return std::tanh(x); }),
            .inputs = odd_sizes(1),
            .points = {{{0}, 0, {1}},
                       {{0.5}, 0.46211715726000974, {0.7864477329659274}},
                       {{-2}, -0.9640275800758169, {0.07065082485316447}},
                       {{1e-10}, 1e-10, {1}},
                       {{10}, 0.9999999958776927, {8.244614455767397e-09}},
                       {{20}, 1, {1.6993417021166355e-17}},
                       {{-kInf}, -1, {0}},
                       {{kNan}, kNan, {kNan}}}});
}
