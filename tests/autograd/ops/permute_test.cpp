// permute and t: axes in another order, as views.
#include "attune/autograd/ops/permute.h"

#include "../../support/op_check.h"
#include "attune/autograd/ops/mul.h"
#include "attune/autograd/ops/sum.h"

using namespace attune;
using namespace attune::check_ops;

TEST_CASE("permute") {
  check_op({.name = "permute",
            .f =
                [](Var x) {
                  return permute(x, {2, 0, 1});
                },
            .reference =
                [](const Plain& x) {
                  Plain y({x.shape[2], x.shape[0], x.shape[1]});
                  for (Index i = 0; i < x.shape[0]; ++i)
                    for (Index j = 0; j < x.shape[1]; ++j)
                      for (Index k = 0; k < x.shape[2]; ++k) y(k, i, j) = x(i, j, k);
                  return y;
                },
            .inputs = {{real({2, 3, 4})},
                       {real({1, 1, 1})},
                       {real({2, 0, 3})},
                       {real({17, 1, 16})},
                       {real({30, 41, 150})}},
            .any_dtype = true,
            .saves = Saves::nothing,
            .errors = {{[] {
                          permute(zeros({2, 3}), {0});
                        },
                        "permute: (0) does not name each axis of [2, 3] once"},
                       {[] {
                          permute(zeros({2, 3}), {0, 0});
                        },
                        "permute: (0, 0) does not name each axis of [2, 3] once"},
                       {[] {
                          permute(zeros({2, 3}), {0, 2});
                        },
                        "permute: (0, 2) does not name each axis of [2, 3] once"},
                       {[] {
                          permute(zeros({2, 3}), {0, 1, 2});
                        },
                        "permute: (0, 1, 2) does not name each axis of [2, 3] once"}}});
}

TEST_CASE("permute: axes counted from the back") {
  check_op({.name = "permute, from the back",
            .f =
                [](Var x) {
                  return permute(x, {-1, 0, -2});
                },
            .reference =
                [](const Plain& x) {
                  Plain y({x.shape[2], x.shape[0], x.shape[1]});
                  for (Index i = 0; i < x.shape[0]; ++i)
                    for (Index j = 0; j < x.shape[1]; ++j)
                      for (Index k = 0; k < x.shape[2]; ++k) y(k, i, j) = x(i, j, k);
                  return y;
                },
            .inputs = {{real({2, 3, 4})}},
            .any_dtype = true,
            .saves = Saves::nothing});
}

TEST_CASE("t") {
  check_op({.name = "t",
            .f = [](Var x) { return t(x); },
            .reference =
                [](const Plain& x) {
                  Plain y({x.shape[0], x.shape[2], x.shape[1]});
                  for (Index b = 0; b < x.shape[0]; ++b)
                    for (Index i = 0; i < x.shape[1]; ++i)
                      for (Index j = 0; j < x.shape[2]; ++j) y(b, j, i) = x(b, i, j);
                  return y;
                },
            .inputs = {{real({2, 3, 4})}, {real({1, 17, 1})}, {real({1, 0, 5})}, {real({3, 16, 33})}},
            .any_dtype = true,
            .saves = Saves::nothing,
            .errors = {{[] { t(zeros({3})); }, "t: [3] has no two axes to swap"},
                       {[] { t(zeros({})); }, "t: [] has no two axes to swap"}}});
}

TEST_CASE("t: is the same memory, and twice is as before") {
  const Tensor numbers = tensor({{1, 2, 3}, {4, 5, 6}}, f64), weights = tensor({{1, 2}, {3, 4}, {5, 6}}, f64);
  Tape tape;
  const Var x = variable(numbers), flipped = t(x);
  CHECK(flipped.value().data() == x.value().data());
  CHECK(Plain(t(flipped).value()).numbers == Plain(x.value()).numbers);
  tape.backward(sum(flipped * weights));
  CHECK(Plain(x.grad()).numbers == std::vector<double>{1, 3, 5, 2, 4, 6});
}
