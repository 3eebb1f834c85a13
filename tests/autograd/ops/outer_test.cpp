// outer: the products of two vectors (composed of reshape and matmul).
#include "attune/autograd/ops/outer.h"

#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;

TEST_CASE("outer") {
  check_op({.name = "outer",
            .f = [](Var a, Var b) { return outer(a, b); },
            .reference =
                [](const Plain& a, const Plain& b) {
                  Plain y({a.shape[0], b.shape[0]});
                  for (Index i = 0; i < a.shape[0]; ++i)
                    for (Index j = 0; j < b.shape[0]; ++j) y(i, j) = a(i) * b(j);
                  return y;
                },
            .inputs = {{real({3}), real({4})},
                       {real({1}), real({1})},
                       {real({17}), real({17})},
                       {real({0}), real({3})},
                       {real({100}), real({33})}},
            .composed = true,
            .errors = {{[] {
                          outer(zeros({2, 3}), zeros({4}));
                        },
                        "outer: [2, 3] and [4] are not two vectors"}}});
}
