// sub: y = a - b.
#include "attune/autograd/ops/sub.h"

#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;

TEST_CASE("sub") {
  check_op({.name = "sub",
            .f = [](Var a, Var b) { return a - b; },
            .reference = elementwise([](double a, double b) { return a - b; }),
            .inputs = odd_sizes(2),
            .broadcasts = true,
            .saves = Saves::nothing,
            .errors = {{[] {
                          sub(zeros({2, 3}), zeros({3, 2}));
                        },
                        "sub: [2, 3] and [3, 2] do not broadcast: sizes 2 and 3 differ"},
                       {[] {
                          sub(zeros({4}), zeros({2, 3}));
                        },
                        "sub: [4] and [2, 3] do not broadcast: sizes 4 and 3 differ"}}});
}

TEST_CASE("sub: a number, on either side") {
  check_op({.name = "sub, a number",
            .f = [](Var x) { return x - 2.5; },
            .reference = elementwise([](double x) { return x - 2.5; }),
            .inputs = {{real({3, 5})}},
            .saves = Saves::nothing});
  check_op({.name = "sub, from a number",
            .f = [](Var x) { return 2.5 - x; },
            .reference = elementwise([](double x) { return 2.5 - x; }),
            .inputs = {{real({3, 5})}},
            .saves = Saves::nothing});
}
