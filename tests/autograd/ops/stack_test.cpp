// stack: parts of one shape along a new axis.
#include "attune/autograd/ops/stack.h"

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

Plain in_the_middle(const Plain& a, const Plain& b) {
  Plain y({a.shape[0], 2, a.shape[1]});
  for (Index i = 0; i < y.shape[0]; ++i)
    for (Index k = 0; k < y.shape[2]; ++k) {
      y(i, 0, k) = a(i, k);
      y(i, 1, k) = b(i, k);
    }
  return y;
}

}  // namespace

TEST_CASE("stack") {
  check_op({.name = "stack",
            .f = [](Var a, Var b) { return stack({a, b}, 1); },
            .reference = in_the_middle,
            .inputs = {{real({2, 3}), real({2, 3})}, {real({3, 0}), real({3, 0})}, {real({17, 33}), real({17, 33})}},
            .any_dtype = true,
            .composed = true,
            .saves = Saves::nothing,
            .errors = {{[] { stack(std::span<const Var>{}); }, "stack: there are no parts"},
                       {[] {
                          stack({zeros({2}), zeros({3})});
                        },
                        "stack: [2] and [3] differ"},
                       {[] { stack({zeros({2})}, 2); }, "stack: axis 2 does not exist in a result of rank 2"},
                       {[] { stack({zeros({2})}, -3); }, "stack: axis -3 does not exist in a result of rank 2"},
                       {[] {
                          stack({zeros({1, 1, 1, 1, 1, 2})});
                        },
                        "stack: parts [1, 1, 1, 1, 1, 2] make a result of rank 7, above the limit of 6"}}});
}

TEST_CASE("stack: axes count from either end, and scalars make a vector") {
  const Tensor a = tensor({1, 2}), b = tensor({3, 4}), one = tensor(1), two = tensor(2);
  const NoGrad scope;
  CHECK(check_kernels::values(stack({a, b}).value()) == std::vector<double>{1, 2, 3, 4});
  CHECK(check_kernels::values(stack({a, b}, -1).value()) == std::vector<double>{1, 3, 2, 4});
  CHECK(stack({one, two}).shape() == Shape{2});
}
