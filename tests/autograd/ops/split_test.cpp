// split: the parts along an axis, as views.
#include "attune/autograd/ops/split.h"

#include "../../support/op_check.h"
#include "attune/autograd/ops/concat.h"

using namespace attune;
using namespace attune::check_ops;

TEST_CASE("split") {
  check_op({.name = "split",
            .f = [](Var x) { return split(x, {1, x.size(1) - 1}, 1)[1]; },
            .reference =
                [](const Plain& x) {
                  Plain y({x.shape[0], x.shape[1] - 1});
                  for (Index i = 0; i < y.shape[0]; ++i)
                    for (Index j = 0; j < y.shape[1]; ++j) y(i, j) = x(i, j + 1);
                  return y;
                },
            .inputs = {{real({2, 3})}, {real({3, 1})}, {real({17, 34})}},
            .any_dtype = true,
            .composed = true,
            .saves = Saves::nothing,
            .errors = {{[] {
                          split(zeros({2, 3}), {1, 1}, 1);
                        },
                        "split: parts of 2 in all do not make up axis 1 of [2, 3]"},
                       {[] {
                          split(zeros({2, 3}), {4, -1}, 1);
                        },
                        "split: a part of size -1 is negative"},
                       {[] {
                          split(zeros({2, 3}), 2, 1);
                        },
                        "split: axis 1 of [2, 3] has no 2 equal parts"},
                       {[] {
                          split(zeros({2, 3}), 0);
                        },
                        "split: axis 0 of [2, 3] has no 0 equal parts"},
                       {[] {
                          split(zeros({2, 3}), 1, 2);
                        },
                        "split: axis 2 does not exist in a tensor of rank 2"}}});
}

TEST_CASE("split: equal parts, put together again, are what they were, and so is the gradient") {
  check_op({.name = "split, and concat",
            .f = [](Var x) { return concat(split(x, 3, -1), -1); },
            .reference = [](const Plain& x) { return x; },
            .inputs = {{real({2, 3})}, {real({5, 12})}},
            .composed = true,
            .saves = Saves::nothing});
}
