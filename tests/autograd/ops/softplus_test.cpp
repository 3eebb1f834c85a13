// softplus: log(1 + exp(x)).
#include "attune/autograd/ops/softplus.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

TEST_CASE("softplus") {
  check_op({.name = "softplus",
            .f = [](Var x) { return softplus(x); },
            .reference = elementwise([](double x) { return std::log(1 + std::exp(x)); }),
            .inputs = odd_sizes(1, -4, 4),
            .points = {{{0}, 0.6931471805599453, {0.5}},
                       {{1}, 1.3132616875182228, {0.7310585786300049}},
                       {{-1}, 0.3132616875182228, {0.2689414213699951}},
                       {{-50}, 1.9287498479639178e-22, {1.9287498479639178e-22}},
                       {{50}, 50, {1}},
                       {{-700}, 9.85967654375977e-305, {9.85967654375977e-305}},
                       {{1e30}, 1e30, {1}},
                       {{-kInf}, 0, {0}},
                       {{kInf}, kInf, {1}},
                       {{kNan}, kNan, {kNan}}}});
}
