// nll: cross-entropy of log-probabilities.
#include "attune/autograd/ops/nll.h"

#include <cmath>
#include <limits>

#include "../../support/op_check.h"
#include "attune/autograd/ops/log_softmax.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

Plain reference(const Plain& x, const Plain& targets, const CrossEntropyOptions& options) {
  const auto classes = static_cast<std::size_t>(x.shape.last());
  Plain each(targets.shape), all{Shape()};
  double counted = 0;
  for (std::size_t row = 0; row < targets.numbers.size(); ++row) {
    if (static_cast<Index>(targets.numbers[row]) == options.ignored) continue;
    for (std::size_t c = 0; c < classes; ++c)
      each.numbers[row] -= x.numbers[row * classes + c] *
                           ((1 - options.smoothing) * (c == static_cast<std::size_t>(targets.numbers[row])) +
                            options.smoothing / static_cast<double>(classes));
    counted += 1;
    all.numbers[0] += each.numbers[row];
  }
  if (options.reduction == Reduction::none) return each;
  if (options.reduction == Reduction::mean) all.numbers[0] = counted > 0 ? all.numbers[0] / counted : 0;
  return all;
}

Inputs rows(const Shape& targets, Index classes) {
  Shape x = targets;
  x.append(classes);
  return {real(x, -4, 0), ids(targets, classes)};
}

}  // namespace

TEST_CASE("nll") {
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
    for (double smoothing : {0.0, 0.1}) {
      const CrossEntropyOptions options{.ignored = 1, .smoothing = smoothing, .reduction = reduction};
      check_op({.name = fmt::format("nll, {}, smoothing {}", static_cast<int>(reduction), smoothing),
                .f = [=](Var x, Var targets) { return nll(x, targets, options); },
                .reference = [=](const Plain& x, const Plain& t) { return reference(x, t, options); },
                .inputs = {rows({4}, 5), rows({}, 7), rows({2, 3}, 15), rows({2, 1}, 17), rows({0}, 4),
                           rows({30, 70}, 65)}});
    }
}

TEST_CASE("nll: of log_softmax it is cross-entropy") {
  const Tensor numbers = tensor({{1, 2, 3}, {4, -5, 6}}, f64), targets = tensor({2, 0}, i32);
  const NoGrad scope;
  for (double smoothing : {0.0, 0.3}) {
    const CrossEntropyOptions options{.smoothing = smoothing, .weights = tensor({1, 3}, f64)};
    const Var x = log_softmax(numbers);
    CHECK(nll(x, targets, options).item() ==
          doctest::Approx(cross_entropy(numbers, targets, options).item()).epsilon(1e-12));
  }
}

TEST_CASE("nll: -inf matters only where it is the target") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = tensor({{-infinity, -1}, {-2, -infinity}});
  const NoGrad scope;
  CHECK(nll(x, tensor({1, 0}, i32)).item() == 1.5);
  CHECK(nll(x, tensor({0, 0}, i32)).item() == infinity);
}

TEST_CASE("nll: what is refused") {
  check_op({.name = "nll",
            .f = [](Var x, Var targets) { return nll(x, targets); },
            .reference = [](const Plain& x, const Plain& t) { return reference(x, t, {}); },
            .inputs = {rows({4}, 5)},
            .errors = {{[] {
                          nll(zeros({2, 3}), zeros({2}));
                        },
                        "nll: targets are i32, not f32"},
                       {[] {
                          nll(zeros({2, 3}), zeros({3}, i32));
                        },
                        "nll: targets of [3] do not fit log-probabilities of [2, 3]"},
                       {[] {
                          nll(zeros({2, 0}), zeros({2}, i32));
                        },
                        "nll: log-probabilities of [2, 0] have no classes"},
                       {[] {
                          nll(zeros({2, 3}), tensor({0, 3}, i32));
                        },
                        "nll: target 3 at [1] is outside of 0 to 2 (3 classes)"},
                       {[] {
                          nll(zeros({2, 3}), zeros({2}, i32), {.smoothing = 2});
                        },
                        "nll: a smoothing of 2 is outside of 0 to 1"},
                       {[] {
                          nll(zeros({2, 3}), zeros({2}, i32), {.weights = ones({1})});
                        },
                        "nll: weights of [1] do not fit targets of [2]"}}});
}
