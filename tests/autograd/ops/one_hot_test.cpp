// one_hot: a row for each id.
#include "attune/autograd/ops/one_hot.h"

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"
#include "attune/autograd/ops/mul.h"

using namespace attune;
using namespace attune::check_ops;

TEST_CASE("one_hot") {
  // It has no operand with a gradient, so it stands here under a factor that has one.
  check_op({.name = "one_hot",
            .f =
                [](Var x, Var at) {
                  const Var rows = one_hot(at, 4, x.dtype());
                  return x * rows;
                },
            .reference =
                [](const Plain& x, const Plain& at) {
                  Plain y({at.shape[0], at.shape[1], 4});
                  for (Index i = 0; i < at.shape[0]; ++i)
                    for (Index j = 0; j < at.shape[1]; ++j) {
                      const auto id = static_cast<Index>(at(i, j));
                      y(i, j, id) = x(id);
                    }
                  return y;
                },
            .inputs = {{real({4}), ids({2, 3}, 4)}, {real({4}), ids({0, 3}, 4)}, {real({4}), ids({17, 33}, 4)}},
            .composed = true,
            .errors = {{[] { one_hot(zeros({2}), 3); }, "one_hot: ids are i32, not f32"},
                       {[] { one_hot(zeros({2}, i32), 0); },
                        "one_hot: 0 classes of f32: at least 1, of f32, f64 or dual"},
                       {[] { one_hot(zeros({2}, i32), 3, i32); },
                        "one_hot: 3 classes of i32: at least 1, of f32, f64 or dual"},
                       {[] {
                          one_hot(tensor({{0, 1}, {3, 1}}, i32), 3);
                        },
                        "one_hot: id 3 at [1, 0] is outside of 3 classes"},
                       {[] {
                          one_hot(zeros({1, 1, 1, 1, 1, 1}, i32), 3);
                        },
                        "one_hot: classes for each of [1, 1, 1, 1, 1, 1] make rank 7, above the limit of 6"}}});
}

TEST_CASE("one_hot: known answers") {
  const NoGrad scope;
  const Var rows = one_hot(tensor({2, 0}, i32), 3);
  CHECK(rows.shape() == Shape{2, 3});
  CHECK(rows.dtype() == f32);
  CHECK(check_kernels::values(rows.value()) == std::vector<double>{0, 0, 1, 1, 0, 0});
}
