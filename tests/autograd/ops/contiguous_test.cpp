// contiguous: the same elements, row-major and without gaps.
#include "attune/autograd/ops/contiguous.h"

#include "../../support/op_check.h"
#include "attune/autograd/ops/expand.h"
#include "attune/autograd/ops/permute.h"

using namespace attune;
using namespace attune::check_ops;

TEST_CASE("contiguous") {
  check_op({.name = "contiguous",
            .f = [](Var x) { return contiguous(x); },
            .reference = [](const Plain& x) { return x; },
            .inputs = odd_sizes(1),
            .any_dtype = true,
            .saves = Saves::nothing});
}

TEST_CASE("contiguous: of a transposed Var it is a copy, of any type") {
  check_op({.name = "contiguous, a copy",
            .f = [](Var x) { return contiguous(t(x)); },
            .reference =
                [](const Plain& x) {
                  Plain y({x.shape[1], x.shape[0]});
                  for (Index i = 0; i < x.shape[0]; ++i)
                    for (Index j = 0; j < x.shape[1]; ++j) y(j, i) = x(i, j);
                  return y;
                },
            .inputs = {{real({3, 4})}, {real({17, 33})}, {real({1, 5})}, {real({0, 5})}, {real({400, 500})}},
            .any_dtype = true,
            .composed = true,
            .saves = Saves::nothing});
}

TEST_CASE("contiguous: is x itself where nothing need be copied, and has no gaps where something was") {
  const Tensor numbers = tensor({{1, 2}, {3, 4}}), row = tensor({5, 6});
  const NoGrad scope;
  const Var x = numbers, narrow = row;
  CHECK(contiguous(x) == x);
  CHECK(contiguous(t(x)).value().is_contiguous());
  CHECK(Plain(contiguous(t(x)).value()).numbers == std::vector<double>{1, 3, 2, 4});
  CHECK(contiguous(expand(narrow, {2, 2})).value().is_contiguous());
  CHECK(Plain(contiguous(expand(narrow, {2, 2})).value()).numbers == std::vector<double>{5, 6, 5, 6});
}
