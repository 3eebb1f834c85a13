// mse: squared differences (composed of sub, mul, and mean or sum).
#include "attune/autograd/ops/mse.h"

#include "reduced.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

Plain reference(const Plain& x, const Plain& target, Reduction reduction) {
  Plain each = x;
  for (std::size_t i = 0; i < x.numbers.size(); ++i)
    each.numbers[i] = (x.numbers[i] - target.numbers[i]) * (x.numbers[i] - target.numbers[i]);
  return reduction == Reduction::none ? each : reduced(each, {}, Axes::go, reduction == Reduction::mean);
}

}  // namespace

TEST_CASE("mse: the mean, the sum, and each; both operands have gradients") {
  std::vector<Inputs> sizes = odd_sizes(2);
  std::erase_if(sizes, [](const Inputs& inputs) { return inputs[0].shape.count() == 0; });
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
    check_op({.name = fmt::format("mse, {}", static_cast<int>(reduction)),
              .f = [=](Var x, Var target) { return mse(x, target, reduction); },
              .reference = [=](const Plain& x, const Plain& t) { return reference(x, t, reduction); },
              .inputs = sizes,
              .composed = true,
              .saves = Saves::nothing,  // the difference is what its rules read
              .errors = {{[] {
                            mse(zeros({2, 3}), zeros({3}));
                          },
                          "mse: [2, 3] and [3] differ in shape"},
                         {[] { mse(zeros({0}), zeros({0})); }, "mse: there is nothing to average"}}});
}
