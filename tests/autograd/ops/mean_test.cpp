// mean: over some axes, or over all.
#include "attune/autograd/ops/mean.h"

#include "../../support/op_check.h"
#include "reduced.h"
#include "../../support/sanitized.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

std::vector<Inputs> without_empty(std::vector<Inputs> inputs) {
  std::erase_if(inputs, [](const Inputs& x) { return x[0].shape.count() == 0; });
  return inputs;
}

template <int... axes>
void check_axes(const std::string& name, const std::vector<Inputs>& inputs) {
  check_op({.name = "mean, " + name,
            .f = [](Var x) { return mean(x, {axes...}); },
            .reference = [](const Plain& x) { return reduced(x, {axes...}, Axes::go, true); },
            .inputs = inputs,
            .saves = Saves::nothing});
  check_op({.name = "mean, " + name + ", kept",
            .f = [](Var x) { return mean(x, {axes...}, Axes::stay); },
            .reference = [](const Plain& x) { return reduced(x, {axes...}, Axes::stay, true); },
            .inputs = inputs,
            .saves = Saves::nothing});
}

}  // namespace

TEST_CASE("mean: of all") { check_axes<>("all", without_empty(odd_sizes(1))); }

TEST_CASE("mean: over every set of axes") {
  const std::vector<Inputs> several = {{real({2, 3, 4})}, {real({1, 17, 33})}, {real(kSanitized ? Shape{5, 17, 40} : Shape{30, 70, 100})}};
  check_axes<0>("axis 0", several);
  check_axes<1>("axis 1", several);
  check_axes<2>("axis 2", several);
  check_axes<0, 1>("axes 0 and 1", several);
  check_axes<0, 2>("axes 0 and 2", several);
  check_axes<1, 2>("axes 1 and 2", several);
  check_axes<-1, -3>("the last and the first", several);
}

TEST_CASE("mean: what is refused") {
  check_op({.name = "mean",
            .f = [](Var x) { return mean(x); },
            .reference = [](const Plain& x) { return reduced(x, {}, Axes::go, true); },
            .inputs = {{real({3, 4})}},
            .saves = Saves::nothing,
            .errors = {{[] {
                          mean(zeros({2, 3}), {2});
                        },
                        "mean: axis 2 does not exist in a tensor of rank 2"},
                       {[] {
                          mean(zeros({2, 3}), {0, 0});
                        },
                        "mean: axis 0 of [2, 3] is named twice"},
                       {[] {
                          mean(zeros({2, 0}));
                        },
                        "mean: [2, 0] has no element to average"},
                       {[] {
                          mean(zeros({2, 0}), {0});
                        },
                        "mean: [2, 0] has no element to average"}}});
}

TEST_CASE("mean: B43, over several axes, every element gets its share") {
  for (bool negative : {false, true}) {
    const Tensor numbers({2, 3, 4}, f64);
    Tape tape;
    const Var x = variable(numbers), y = negative ? mean(x, {-1, -2}) : mean(x, {1, 2});
    CHECK(y.shape() == Shape{2});
    tape.backward(y, ones({2}, f64));
    CHECK(x.grad().shape() == Shape{2, 3, 4});
    CHECK(Plain(x.grad()).numbers == std::vector<double>(24, 1.0 / 12));
  }
}

TEST_CASE("mean: B22, NaN anywhere makes its mean NaN, and no other") {
  check_nan_spreads([](Var x) { return mean(x, {1}); });
}

TEST_CASE("mean: B33, twenty million ones in f32") {
  const Tensor many = ones({20'000'000});
  const NoGrad scope;
  CHECK(mean(Var(many)).item() == 1);
}
