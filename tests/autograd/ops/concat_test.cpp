// concat: parts side by side.
#include "attune/autograd/ops/concat.h"

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

// Three axes, side by side along the middle one.
Plain side_by_side(const Plain& a, const Plain& b) {
  Plain y({a.shape[0], a.shape[1] + b.shape[1], a.shape[2]});
  for (Index i = 0; i < y.shape[0]; ++i)
    for (Index j = 0; j < y.shape[1]; ++j)
      for (Index k = 0; k < y.shape[2]; ++k) y(i, j, k) = j < a.shape[1] ? a(i, j, k) : b(i, j - a.shape[1], k);
  return y;
}

}  // namespace

TEST_CASE("concat") {
  check_op({.name = "concat",
            .f = [](Var a, Var b) { return concat({a, b}, 1); },
            .reference = side_by_side,
            .inputs = {{real({2, 3, 4}), real({2, 3, 4})},
                       {real({2, 1, 5}), real({2, 4, 5})},
                       {real({3, 0, 2}), real({3, 2, 2})},
                       {real({0, 2, 2}), real({0, 1, 2})},
                       {real({17, 3, 70}), real({17, 40, 70})}},
            .any_dtype = true,
            .saves = Saves::nothing,
            .errors = {{[] { concat(std::span<const Var>{}); }, "concat: there are no parts"},
                       {[] {
                          concat({zeros({2, 3}), zeros({2, 4})});
                        },
                        "concat: [2, 3] and [2, 4] do not fit side by side along axis 0"},
                       {[] {
                          concat({zeros({2, 3}), zeros({2})}, 1);
                        },
                        "concat: [2, 3] and [2] do not fit side by side along axis 1"},
                       {[] {
                          concat({zeros({2}), zeros({2}, f64)});
                        },
                        "concat: element types f32 and f64 differ"},
                       {[] { concat({zeros({2})}, 1); }, "concat: axis 1 does not exist in a tensor of rank 1"}}});
}

TEST_CASE("concat: of one part, of many, along the last axis, and of token ids") {
  const Tensor a = tensor({{1, 2}, {3, 4}}), b = tensor({{5}, {6}});
  const NoGrad scope;
  CHECK(check_kernels::values(concat({a}, 0).value()) == std::vector<double>{1, 2, 3, 4});
  CHECK(check_kernels::values(concat({a, b, a}, -1).value()) ==
        std::vector<double>{1, 2, 5, 1, 2, 3, 4, 6, 3, 4});
  const Tensor first = tensor({1, 2}, i32), second = tensor({3}, i32);
  const Var ids = concat({first, second});
  CHECK(ids.dtype() == i32);
  CHECK(check_kernels::values(ids.value()) == std::vector<double>{1, 2, 3});
}
