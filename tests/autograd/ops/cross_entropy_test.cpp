// cross_entropy: the mean of -log softmax(logits)[target].
#include "attune/autograd/ops/cross_entropy.h"

#include <cmath>

#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

Plain reference(const Plain& logits, const Plain& targets, Index ignored) {
  const auto classes = static_cast<std::size_t>(logits.shape.last());
  double total = 0, counted = 0;
  for (std::size_t row = 0; row < targets.numbers.size(); ++row) {
    if (static_cast<Index>(targets.numbers[row]) == ignored) continue;
    double normaliser = 0;
    for (std::size_t c = 0; c < classes; ++c) normaliser += std::exp(logits.numbers[row * classes + c]);
    total +=
        std::log(normaliser) - logits.numbers[row * classes + static_cast<std::size_t>(targets.numbers[row])];
    counted += 1;
  }
  Plain y{Shape()};
  y.numbers[0] = counted > 0 ? total / counted : 0;
  return y;
}

Inputs rows(const Shape& targets, Index classes) {
  Shape logits = targets;
  logits.append(classes);
  return {real(logits), ids(targets, classes)};
}

const std::vector<Inputs> kSizes = {rows({4}, 5),     rows({}, 7),   rows({1}, 2),
                                    rows({2, 3}, 15), rows({3}, 16), rows({2, 1}, 17),
                                    rows({5, 2}, 33), rows({0}, 4),  rows({30, 70}, 65)};

}  // namespace

TEST_CASE("cross_entropy") {
  check_op({.name = "cross_entropy",
            .f = [](Var logits, Var targets) { return cross_entropy(logits, targets); },
            .reference = [](const Plain& x, const Plain& t) { return reference(x, t, -100); },
            .inputs = kSizes,
            .errors = {{[] {
                          cross_entropy(zeros({2, 3}), zeros({2}));
                        },
                        "cross_entropy: targets are i32, not f32"},
                       {[] { cross_entropy(tensor(1), zeros({}, i32)); },
                        "cross_entropy: logits [] have no classes"},
                       {[] {
                          cross_entropy(zeros({2, 0}), zeros({2}, i32));
                        },
                        "cross_entropy: logits [2, 0] have no classes"},
                       {[] {
                          cross_entropy(zeros({2, 3}), zeros({3}, i32));
                        },
                        "cross_entropy: targets of [3] do not fit logits of [2, 3]"},
                       {[] {
                          cross_entropy(zeros({2, 3}), zeros({2, 3}, i32));
                        },
                        "cross_entropy: targets of [2, 3] do not fit logits of [2, 3]"},
                       {[] {
                          cross_entropy(zeros({2, 3}), tensor({0, 3}, i32));
                        },
                        "cross_entropy: target 3 at [1] is outside of 0 to 2 (3 classes)"},
                       {[] {
                          cross_entropy(zeros({2, 3}), tensor({-1, 0}, i32));
                        },
                        "cross_entropy: target -1 at [0] is outside of 0 to 2 (3 classes)"}}});
}

TEST_CASE("cross_entropy: one class is certain") {
  check_op({.name = "cross_entropy, one class",
            .f = [](Var logits, Var targets) { return cross_entropy(logits, targets); },
            .reference = [](const Plain&, const Plain&) { return Plain(Shape()); },
            .inputs = {rows({4}, 1)}});
}

TEST_CASE("cross_entropy: ignored targets do not count") {
  check_op({.name = "cross_entropy, some ignored",
            .f = [](Var logits, Var targets) { return cross_entropy(logits, targets, 1); },
            .reference = [](const Plain& x, const Plain& t) { return reference(x, t, 1); },
            .inputs = kSizes});
  const Tensor numbers = tensor({{1, 2, 3}, {7, 8, 9}}, f64), targets = tensor({-100, 2}, i32);
  Tape tape;
  const Var logits = variable(numbers), loss = cross_entropy(logits, targets);
  tape.backward(loss);
  CHECK(loss.item() == doctest::Approx(0.40760596444438).epsilon(1e-12));
  for (Index c = 0; c < 3; ++c) CHECK(logits.grad().at({0, c}) == 0);
  CHECK(logits.grad().at({1, 2}) == doctest::Approx(-0.33475904).epsilon(1e-6));
}

TEST_CASE("cross_entropy: where every target is ignored the loss is 0, and so is every gradient") {
  const Tensor numbers = tensor({{1, 2}, {3, 4}}), targets = tensor({-100, -100}, i32);
  Tape tape;
  const Var logits = variable(numbers), loss = cross_entropy(logits, targets);
  tape.backward(loss);
  CHECK(loss.item() == 0);
  CHECK(Plain(logits.grad()).numbers == std::vector<double>(4, 0));
}

TEST_CASE("cross_entropy: of equal logits it is the logarithm of the number of classes") {
  for (double level : {0.0, 1e4, -1e30}) {
    const Tensor logits = full({3, 65}, level), targets = tensor({0, 64, 7}, i32);
    const NoGrad scope;
    CHECK(cross_entropy(logits, targets).item() == doctest::Approx(std::log(65)).epsilon(1e-6));
  }
}
