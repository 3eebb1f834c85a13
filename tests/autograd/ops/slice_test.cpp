// slice and select: parts of a Var, as views.
#include "attune/autograd/ops/slice.h"

#include "../../support/op_check.h"
#include "attune/autograd/ops/mul.h"
#include "attune/autograd/ops/sum.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

// Elements begin, begin + step, ... below end along axis 1 of three.
Plain part(const Plain& x, Index begin, Index end, Index step) {
  Plain y({x.shape[0], (end - begin + step - 1) / step, x.shape[2]});
  for (Index i = 0; i < y.shape[0]; ++i)
    for (Index j = 0; j < y.shape[1]; ++j)
      for (Index k = 0; k < y.shape[2]; ++k) y(i, j, k) = x(i, begin + j * step, k);
  return y;
}

}  // namespace

TEST_CASE("slice") {
  check_op({.name = "slice",
            .f = [](Var x) { return slice(x, 1, 1, 4); },
            .reference = [](const Plain& x) { return part(x, 1, 4, 1); },
            .inputs = {{real({2, 5, 3})},
                       {real({1, 4, 1})},
                       {real({2, 4, 0})},
                       {real({17, 4, 16})},
                       {real({40, 5, 999})}},
            .any_dtype = true,
            .saves = Saves::nothing,
            .errors = {{[] {
                          slice(zeros({2, 3}), 2, 0, 1);
                        },
                        "slice: axis 2 does not exist in a tensor of rank 2"},
                       {[] {
                          slice(zeros({2, 3}), 1, 0, 4);
                        },
                        "slice: 0 to 4 is not inside axis 1 of [2, 3]"},
                       {[] {
                          slice(zeros({2, 3}), -1, 2, 1);
                        },
                        "slice: 2 to 1 is not inside axis 1 of [2, 3]"},
                       {[] {
                          slice(zeros({2, 3}), 0, -3, 1);
                        },
                        "slice: -3 to 1 is not inside axis 0 of [2, 3]"},
                       {[] {
                          slice(zeros({2, 3}), 0, 0, 1, 0);
                        },
                        "slice: a step of 0 is below 1"}}});
}

TEST_CASE("slice: steps, ends counted from the back, and nothing") {
  check_op({.name = "slice, every other",
            .f = [](Var x) { return slice(x, -2, 0, 5, 2); },
            .reference = [](const Plain& x) { return part(x, 0, 5, 2); },
            .inputs = {{real({2, 5, 3})}, {real({2, 8, 17})}},
            .any_dtype = true,
            .saves = Saves::nothing});
  check_op({.name = "slice, from the back",
            .f = [](Var x) { return slice(x, 1, -3, -1); },
            .reference = [](const Plain& x) { return part(x, x.shape[1] - 3, x.shape[1] - 1, 1); },
            .inputs = {{real({2, 5, 3})}, {real({2, 3, 17})}},
            .any_dtype = true,
            .saves = Saves::nothing});
  check_op({.name = "slice, nothing",
            .f = [](Var x) { return slice(x, 1, 2, 2); },
            .reference = [](const Plain& x) { return part(x, 2, 2, 1); },
            .inputs = {{real({2, 5, 3})}},
            .any_dtype = true,
            .saves = Saves::nothing});
}

TEST_CASE("select") {
  check_op({.name = "select",
            .f = [](Var x) { return select(x, 1, 2); },
            .reference =
                [](const Plain& x) {
                  Plain y({x.shape[0], x.shape[2]});
                  for (Index i = 0; i < x.shape[0]; ++i)
                    for (Index k = 0; k < x.shape[2]; ++k) y(i, k) = x(i, 2, k);
                  return y;
                },
            .inputs = {{real({2, 3, 4})}, {real({1, 3, 1})}, {real({0, 3, 2})}, {real({17, 5, 33})}},
            .any_dtype = true,
            .saves = Saves::nothing,
            .errors = {{[] {
                          select(zeros({2, 3}), 0, 2);
                        },
                        "select: index 2 is outside of size 2 of [2, 3]"},
                       {[] {
                          select(zeros({2, 3}), 1, -4);
                        },
                        "select: index -4 is outside of size 3 of [2, 3]"},
                       {[] {
                          select(zeros({2, 3}), 2, 0);
                        },
                        "select: axis 2 does not exist in a tensor of rank 2"}}});
}

TEST_CASE("slice: is the same memory, and parts that overlap add their gradients") {
  const Tensor numbers = tensor({1, 2, 3, 4}, f64);
  Tape tape;
  const Var x = variable(numbers), left = slice(x, 0, 0, 3), right = slice(x, 0, 1, 4);
  CHECK(left.value().data() == x.value().data());
  tape.backward(sum(left * right));
  CHECK(Plain(x.grad()).numbers == std::vector<double>{2, 4, 6, 3});
}

TEST_CASE("slice: what no part shows has a gradient of zero") {
  const Tensor numbers = tensor({{1, 2, 3}, {4, 5, 6}}, f64);
  Tape tape;
  const Var x = variable(numbers), corner = select(slice(x, 1, 2, 3), 0, 1);
  tape.backward(corner);
  CHECK(corner.item() == 6);
  CHECK(Plain(x.grad()).numbers == std::vector<double>{0, 0, 0, 0, 0, 1});
}
