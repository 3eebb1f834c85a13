// pow: x^e.
#include "attune/autograd/ops/pow.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

namespace {

// Positive bases, and any exponents.
std::vector<Inputs> powers() {
  std::vector<Inputs> inputs = odd_sizes(2);
  for (Inputs& both : inputs) both[0] = real(both[0].shape, 0.5, 2);
  return inputs;
}

}  // namespace

TEST_CASE("pow") {
  check_op({.name = "pow",
            .f = [](Var x, Var e) { return pow(x, e); },
            .reference = elementwise([](double x, double e) { return std::pow(x, e); }),
            .inputs = powers(),
            .broadcasts = true,
            .points = {{{2, 0.5}, 1.4142135623730951, {0.3535533905932738, 0.9802581434685472}},
                       {{0.5, -3}, 8, {-48, -5.545177444479562}},
                       {{10, -2.5}, 0.0031622776601683794, {-0.0007905694150420948, 0.007281413400211801}},
                       {{1.0000001, 1e8}, 22026.454910182532, {2202645270753.726, 0.0022026453821720384}},
                       {{3, 200}, 2.6561398887587478e+95, {1.770759925839165e+97, 2.9180679222119063e+95}},
                       {{-2, 3}, -8, {12, kNan}},
                       {{-0.5, -2}, 4, {16, kNan}},
                       {{-2, 0.5}, kNan, {kNan, kNan}},
                       // at 0
                       {{0, 0}, 1, {0, 0}},
                       {{0, 1}, 0, {1, 0}},
                       {{0, 2}, 0, {0, 0}},
                       {{0, 0.5}, 0, {kInf, 0}},
                       {{0, -1}, kInf, {-kInf, -kInf}},
                       {{-0.0, -3}, -kInf},
                       // an exponent of 0
                       {{5, 0}, 1, {0, 1.6094379124341003}},
                       {{kNan, 0}, 1, {0, kNan}},
                       {{kInf, 0}, 1, {0, kInf}}},
            .errors = {{[] {
                          pow(zeros({2, 3}), zeros({2}));
                        },
                        "pow: [2, 3] and [2] do not broadcast: sizes 3 and 2 differ"}}});
}

TEST_CASE("pow: numbers on either side") {
  check_op({.name = "pow, a square",
            .f = [](Var x) { return pow(x, 2); },
            .reference = elementwise([](double x) { return x * x; }),
            .inputs = odd_sizes(1),
            .points = {{{0}, 0, {0}}, {{-3}, 9, {-6}}, {{kInf}, kInf, {kInf}}, {{kNan}, kNan, {kNan}}}});
  check_op({.name = "pow, of negative numbers",
            .f = [](Var x) { return pow(x, -3); },
            .reference = elementwise([](double x) { return 1 / (x * x * x); }),
            .inputs = {{real({3, 5}, -2, -0.5)}}});
  check_op({.name = "pow, a root",
            .f = [](Var x) { return pow(x, 0.5); },
            .reference = elementwise([](double x) { return std::sqrt(x); }),
            .inputs = {{real({3, 5}, 0.5, 2)}},
            .points = {{{0}, 0, {kInf}}, {{-1}, kNan, {kNan}}}});
  check_op({.name = "pow, to the 0",
            .f = [](Var x) { return pow(x, 0); },
            .reference = elementwise([](double) { return 1; }),
            .inputs = {{real({3, 5})}},
            .points = {{{0}, 1, {0}}, {{kNan}, 1, {0}}}});
  check_op({.name = "pow, of a number",
            .f = [](Var e) { return pow(3, e); },
            .reference = elementwise([](double e) { return std::pow(3, e); }),
            .inputs = {{real({3, 5})}},
            .points = {{{0}, 1, {1.0986122886681098}}, {{-kInf}, 0, {0}}}});
}

TEST_CASE("pow: the special values of C's pow") {
  const double numbers[] = {0.0, -0.0, 0.5,   -0.5,   1,          -1,     2,    -2,    3,   -3,
                            2.5, -2.5, 1e300, 0x1p53, 0x1p53 - 1, 5e-324, kInf, -kInf, kNan};
  const NoGrad scope;
  for (double x : numbers)
    for (double e : numbers) {
      CAPTURE(x);
      CAPTURE(e);
      const double found = pow(full({}, x, f64), full({}, e, f64)).item(), expected = std::pow(x, e);
      CHECK((std::isnan(expected)
                 ? std::isnan(found)
                 : std::abs(found - expected) <= 1e-15 * std::abs(expected) || found == expected));
      CHECK((std::isnan(expected) || std::signbit(found) == std::signbit(expected)));
    }
}
