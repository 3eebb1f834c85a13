// tril: the lower triangle of matrices.
#include "attune/autograd/ops/tril.h"

#include <limits>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

Reference triangle(Index diagonal) {
  return [=](const Plain& x) {
    Plain y = x;
    for (Index i = 0; i < x.shape[0]; ++i)
      for (Index j = 0; j < x.shape[1]; ++j)
        for (Index k = 0; k < x.shape[2]; ++k)
          if (k > j + diagonal) y(i, j, k) = 0;
    return y;
  };
}

}  // namespace

TEST_CASE("tril") {
  for (Index diagonal : {-3, -1, 0, 1, 3})
    check_op({.name = "tril",
              .f = [=](Var x) { return tril(x, diagonal); },
              .reference = triangle(diagonal),
              .inputs = {{real({2, 4, 4})}, {real({1, 5, 2})}, {real({2, 2, 5})}, {real({3, 0, 4})}, {real({3, 33, 40})}},
              .saves = Saves::nothing,
              .errors = {{[] { tril(zeros({3})); }, "tril: [3] is no matrix"}}});
}

TEST_CASE("tril: what it cuts off does not matter, even where it is not finite") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = tensor({{1, inf}, {2, 3}}, f64);
  const NoGrad scope;
  CHECK(check_kernels::values(tril(x).value()) == std::vector<double>{1, 0, 2, 3});
}
