// kl_div: the divergence of a target distribution from log-probabilities (composed of its terms and sum).
#include "attune/autograd/ops/kl_div.h"

#include <cmath>
#include <limits>

#include "attune/autograd/ops/log_softmax.h"
#include "reduced.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

Plain reference(const Plain& x, const Plain& target, Reduction reduction) {
  Plain terms = x;
  for (std::size_t i = 0; i < x.numbers.size(); ++i)
    terms.numbers[i] = target.numbers[i] * (std::log(target.numbers[i]) - x.numbers[i]);
  const Plain rows = reduced(terms, {-1}, Axes::go, false);
  return reduction == Reduction::none ? rows : reduced(rows, {}, Axes::go, reduction == Reduction::mean);
}

Inputs rows(const Shape& shape) { return {real(shape, -4, 0), real(shape, 0.1, 1)}; }

}  // namespace

TEST_CASE("kl_div: the mean over rows, the sum, and each row; both operands have gradients") {
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
    check_op({.name = fmt::format("kl_div, {}", static_cast<int>(reduction)),
              .f = [=](Var x, Var target) { return kl_div(x, target, reduction); },
              .reference = [=](const Plain& x, const Plain& t) { return reference(x, t, reduction); },
              .inputs = {rows({3, 5}), rows({7}), rows({2, 3, 17}), rows({4, 33}), rows({40, 130})},
              .composed = true,
              .errors = {{[] {
                            kl_div(zeros({2, 3}), zeros({3}));
                          },
                          "kl_div: log-probabilities [2, 3] and target [3] are not rows of one shape"},
                         {[] { kl_div(tensor(0), tensor(1)); },
                          "kl_div: log-probabilities [] and target [] are not rows of one shape"},
                         {[] {
                            kl_div(zeros({0, 3}), zeros({0, 3}));
                          },
                          "kl_div: there is nothing to average"}}});
}

TEST_CASE("kl_div: its direction, and that it is 0 of a distribution from itself") {
  const NoGrad scope;
  const Tensor model = tensor({std::log(0.25), std::log(0.75)}, f64), target = tensor({0.5, 0.5}, f64);
  CHECK(kl_div(model, target).item() ==
        doctest::Approx(0.5 * std::log(2) + 0.5 * std::log(2.0 / 3)).epsilon(1e-12));
  const Var x = log_softmax(tensor({{1, 2, 3}, {4, -1, 0}}, f64));
  Tensor same = Tensor::copy_of(x.value());
  kernels::exp(same, x.value());
  CHECK(std::abs(kl_div(x, same).item()) < 1e-15);
}

TEST_CASE("kl_div: a target of 0 has no part, even where the model excludes it") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor numbers = tensor({-infinity, 0, -1}), wanted = tensor({0, 1, 0});
  Tape tape;
  const Var x = variable(numbers), target = variable(wanted), y = kl_div(x, target);
  tape.backward(y);
  CHECK(y.item() == 0);
  CHECK(Plain(x.grad()).numbers == Numbers{0, -1, 0});
  CHECK(Plain(target.grad()).numbers == Numbers{0, 1, 0});
  CHECK(kl_div(x, tensor({0.5, 0.5, 0})).item() == infinity);
}
