// cumsum: running sums along an axis.
#include "attune/autograd/ops/cumsum.h"

#include "reduced.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

Numbers definition(const Numbers& x) {
  Numbers y;
  double total = 0;
  for (double number : x) y.push_back(total += number);
  return y;
}

}  // namespace

TEST_CASE("cumsum: along each axis") {
  for (int axis : {0, 1, 2, -1})
    check_op({.name = "cumsum, axis " + std::to_string(axis),
              .f = [=](Var x) { return cumsum(x, axis); },
              .reference = [=](const Plain& x) { return along_axis(x, axis, definition); },
              .inputs = {{real({2, 3, 4})},
                         {real({1, 17, 33})},
                         {real({5, 1, 1})},
                         {real({2, 0, 3})},
                         {real({9, 40, 70})}},
              .saves = Saves::nothing});
}

TEST_CASE("cumsum: B33, ten million numbers in f32") {
  const Tensor x = full({10'000'000}, 0.1f);
  const NoGrad scope;
  CHECK(cumsum(x, 0).value().at({-1}) == doctest::Approx(1000000.0149).epsilon(1e-7));
}

TEST_CASE("cumsum: NaN lasts from where it stands") {
  const NoGrad scope;
  const Numbers y = Plain(cumsum(tensor({{1, std::nan(""), 3}, {1, 2, 3}}), 1).value()).numbers;
  CHECK(y[0] == 1);
  CHECK(std::isnan(y[1]));
  CHECK(std::isnan(y[2]));
  CHECK(y[5] == 6);
}

TEST_CASE("cumsum: what is refused") {
  check_op({.name = "cumsum",
            .f = [](Var x) { return cumsum(x, 0); },
            .reference = [](const Plain& x) { return along_axis(x, 0, definition); },
            .inputs = {{real({3, 4})}, {real({2100})}},
            .saves = Saves::nothing,
            .errors = {{[] { cumsum(tensor(1), 0); }, "cumsum: axis 0 does not exist in a tensor of rank 0"},
                       {[] {
                          cumsum(zeros({2, 3}), 2);
                        },
                        "cumsum: axis 2 does not exist in a tensor of rank 2"}}});
}
