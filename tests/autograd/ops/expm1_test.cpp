// expm1: exp(x) - 1.
#include "attune/autograd/ops/expm1.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

TEST_CASE("expm1") {
  check_op({.name = "expm1",
            .f = [](Var x) { return expm1(x); },
            .reference = elementwise([](double x) { return std::expm1(x); }),
            .inputs = odd_sizes(1),
            .points = {{{0}, 0, {1}},
                       {{1e-20}, 1e-20, {1}},
                       {{0x1p-40}, 0x1p-40 * (1 + 0x1p-41), {1 + 0x1p-40}},
                       {{-1e-20}, -1e-20, {1}},
                       {{1e-5}, 1.0000050000166668e-05, {1.00001000005}},
                       {{-0.5}, -0.3934693402873666, {0.6065306597126334}},
                       {{3}, 19.085536923187668, {20.085536923187668}},
                       {{-30}, -0.9999999999999064, {9.357622968840175e-14}},
                       {{-50}, -1, {1.9287498479639178e-22}},
                       {{700}, 1.0142320547350045e+304, {1.0142320547350045e+304}},
                       {{800}, kInf, {kInf}},
                       {{kInf}, kInf, {kInf}},
                       {{-kInf}, -1, {0}},
                       {{kNan}, kNan, {kNan}}}});
}
