// sign: -1, 0 or 1, without a gradient.
#include "attune/autograd/ops/sign.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

TEST_CASE("sign") {
  check_op(
      {.name = "sign",
       .f = [](Var x) { return sign(x); },
       .reference = elementwise([](double x) { return x > 0   ? 1
                                                      : x < 0 ? -1
                                                              : 0; }),
       .inputs = odd_sizes(1),
       .differentiable = false,
       .saves = Saves::nothing,
       .points = {{{2}, 1, {0}}, {{-1e-30}, -1, {0}}, {{0}, 0, {0}}, {{-kInf}, -1, {0}}, {{kNan}, kNan}}});
}
