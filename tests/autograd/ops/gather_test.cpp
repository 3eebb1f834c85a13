// gather and scatter_add: elements by their number along an axis, and back.
#include "attune/autograd/ops/gather.h"

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using check_kernels::values;

namespace {

// Along axis 1 of three.
Plain gathered(const Plain& x, const Plain& at) {
  Plain y(at.shape);
  for (Index i = 0; i < y.shape[0]; ++i)
    for (Index a = 0; a < y.shape[1]; ++a)
      for (Index j = 0; j < y.shape[2]; ++j) y(i, a, j) = x(i, static_cast<Index>(at(i, a, j)), j);
  return y;
}
Plain scattered(const Plain& x, const Plain& at, const Plain& source) {
  Plain y = x;
  for (Index i = 0; i < at.shape[0]; ++i)
    for (Index a = 0; a < at.shape[1]; ++a)
      for (Index j = 0; j < at.shape[2]; ++j) y(i, static_cast<Index>(at(i, a, j)), j) += source(i, a, j);
  return y;
}

}  // namespace

TEST_CASE("gather") {
  check_op({.name = "gather",
            .f = [](Var x, Var at) { return gather(x, at, 1); },
            .reference = gathered,
            .inputs = {{real({2, 5, 3}), ids({2, 4, 3}, 5)},
                       {real({2, 3, 3}), ids({2, 0, 3}, 3)},
                       {real({0, 3, 2}), ids({0, 1, 2}, 3)},
                       {real({17, 6, 40}), ids({17, 33, 40}, 6)}},
            .errors = {{[] {
                          gather(zeros({2, 3}), zeros({2, 3}), 0);
                        },
                        "gather: ids are of f32, not i32"},
                       {[] {
                          gather(zeros({2, 3}), zeros({3, 2}, i32), 0);
                        },
                        "gather: ids [3, 2] and [3, 2] do not fit [2, 3] along axis 0"},
                       {[] {
                          gather(zeros({2, 3}), zeros({2}, i32), 0);
                        },
                        "gather: ids [2] and [2] do not fit [2, 3] along axis 0"},
                       {[] {
                          gather(zeros({2, 3}), zeros({2, 3}, i32), 2);
                        },
                        "gather: axis 2 does not exist in a tensor of rank 2"},
                       {[] {
                          gather(zeros({2, 3}), tensor({{0, 3}, {1, 1}}, i32), 1);
                        },
                        "gather: id 3 at [0, 1] is outside of axis 1 of [2, 3]"}}});
}

TEST_CASE("scatter_add") {
  check_op({.name = "scatter_add",
            .f = [](Var x, Var at, Var source) { return scatter_add(x, at, source, 1); },
            .reference = scattered,
            .inputs = {{real({2, 5, 3}), ids({2, 4, 3}, 5), real({2, 4, 3})},
                       {real({2, 3, 3}), ids({2, 0, 3}, 3), real({2, 0, 3})},
                       {real({17, 6, 40}), ids({17, 33, 40}, 6), real({17, 33, 40})}},
            .f32_bound = 2e-6,  // sums of up to 33 terms
            .errors = {{[] {
                          scatter_add(zeros({2, 3}), zeros({2, 1}, i32), zeros({2, 2}), 1);
                        },
                        "scatter_add: ids [2, 1] and [2, 2] do not fit [2, 3] along axis 1"},
                       {[] {
                          scatter_add(zeros({2}), tensor({-1}, i32), zeros({1}), 0);
                        },
                        "scatter_add: id -1 at [0] is outside of axis 0 of [2]"}}});
}

TEST_CASE("gather: known answers along each axis, and ids that come again add up in backward") {
  const Tensor x = tensor({{1, 2}, {3, 4}}, f64), columns = tensor({{1, 1, 0}, {0, 1, 1}}, i32);
  const Tensor rows = tensor({{1, 0}}, i32);
  Tape tape;
  const Var leaf = variable(x);
  const Var picked = gather(leaf, columns, 1);
  CHECK(values(picked.value()) == std::vector<double>{2, 2, 1, 3, 4, 4});
  CHECK(values(gather(leaf, rows, 0).value()) == std::vector<double>{3, 2});
  tape.backward(picked, tensor({{1, 2, 3}, {4, 5, 6}}, f64));
  CHECK(values(leaf.grad()) == std::vector<double>{3, 3, 4, 11});
}
