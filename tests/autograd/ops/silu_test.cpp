// silu: x * sigmoid(x).
#include "attune/autograd/ops/silu.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

TEST_CASE("silu") {
  check_op({.name = "silu",
            .f = [](Var x) { return silu(x); },
            .reference = elementwise([](double x) { return x / (1 + std::exp(-x)); }),
            .inputs = odd_sizes(1, -4, 4),
            .points = {{{0}, 0, {0.5}},
                       {{1}, 0.7310585786300049, {0.9276705118714867}},
                       {{-3}, -0.14227761953270035, {-0.08810410601516962}},
                       {{-40}, -1.6993417021166355e-16, {-1.6568581595637197e-16}},
                       {{40}, 40, {1}},
                       {{-700}, -6.90177358063184e-302, {-6.891913904088079e-302}},
                       {{1e30}, 1e30, {1}},
                       {{-1e30}, 0, {0}},
                       {{-kInf}, 0, {0}},
                       {{kInf}, kInf, {1}},
                       {{kNan}, kNan, {kNan}}}});
}
