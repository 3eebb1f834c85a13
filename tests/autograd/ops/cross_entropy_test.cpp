// cross_entropy: the mean of -log softmax(logits)[target].
#include "attune/autograd/ops/cross_entropy.h"

#include <cmath>

#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

Plain reference(const Plain& logits, const Plain& targets, const CrossEntropyOptions& options,
                const Plain& weights = {}) {
  const auto classes = static_cast<std::size_t>(logits.shape.last());
  Plain each(targets.shape), all{Shape()};
  double counted = 0;
  for (std::size_t row = 0; row < targets.numbers.size(); ++row) {
    if (static_cast<Index>(targets.numbers[row]) == options.ignored) continue;
    const double weight = weights.numbers.empty() ? 1 : weights.numbers[row];
    double normaliser = 0;
    for (std::size_t c = 0; c < classes; ++c) normaliser += std::exp(logits.numbers[row * classes + c]);
    for (std::size_t c = 0; c < classes; ++c) {
      const double wanted = (1 - options.smoothing) * (c == static_cast<std::size_t>(targets.numbers[row])) +
                            options.smoothing / static_cast<double>(classes);
      each.numbers[row] += weight * wanted * (std::log(normaliser) - logits.numbers[row * classes + c]);
    }
    counted += weight;
    all.numbers[0] += each.numbers[row];
  }
  if (options.reduction == Reduction::none) return each;
  if (options.reduction == Reduction::mean) all.numbers[0] = counted > 0 ? all.numbers[0] / counted : 0;
  return all;
}

struct Result {
  std::vector<double> loss, gradient;
};
Result result_of(const Tensor& numbers, const Tensor& targets, const CrossEntropyOptions& options) {
  Tape tape;
  const Var logits = variable(numbers), loss = cross_entropy(logits, targets, options);
  tape.backward(loss, ones(loss.shape(), numbers.dtype()));
  return {Plain(loss.value()).numbers, Plain(logits.grad()).numbers};
}

void close(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-6));
}

constexpr Reduction kReductions[] = {Reduction::mean, Reduction::sum, Reduction::none};
std::string name_of(Reduction reduction) {
  return reduction == Reduction::mean ? "mean" : reduction == Reduction::sum ? "sum" : "none";
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
            .reference = [](const Plain& x, const Plain& t) { return reference(x, t, {}); },
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
            .f = [](Var logits, Var targets) { return cross_entropy(logits, targets, {.ignored = 1}); },
            .reference = [](const Plain& x, const Plain& t) { return reference(x, t, {.ignored = 1}); },
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

TEST_CASE("cross_entropy: smoothed, and reduced in each way") {
  for (Reduction reduction : kReductions)
    for (double smoothing : {0.0, 0.1, 1.0}) {
      const CrossEntropyOptions options{.ignored = 1, .smoothing = smoothing, .reduction = reduction};
      check_op({.name = "cross_entropy, " + name_of(reduction) + ", smoothing " + std::to_string(smoothing),
                .f = [=](Var logits, Var targets) { return cross_entropy(logits, targets, options); },
                .reference = [=](const Plain& x, const Plain& t) { return reference(x, t, options); },
                .inputs = {rows({4}, 5), rows({}, 7), rows({2, 3}, 15), rows({3}, 16), rows({2, 1}, 17),
                           rows({0}, 4), rows({40}, 65)}});
    }
}

TEST_CASE("cross_entropy: with a weight for each target") {
  for (Reduction reduction : kReductions)
    check_op({.name = "cross_entropy, weighted, " + name_of(reduction),
              .f =
                  [=](Var logits, Var targets, Var weights) {
                    return cross_entropy(
                        logits, targets,
                        {.ignored = 1, .smoothing = 0.2, .reduction = reduction, .weights = weights});
                  },
              .reference =
                  [=](const Plain& x, const Plain& t, const Plain& w) {
                    return reference(x, t, {.ignored = 1, .smoothing = 0.2, .reduction = reduction}, w);
                  },
              .inputs = {{real({4, 5}), ids({4}, 5), real({4}, 0.5, 2)},
                         {real({2, 3, 17}), ids({2, 3}, 17), real({2, 3}, 0.5, 2)},
                         {real({40, 65}), ids({40}, 65), real({40}, 0.5, 2)}},
              .composed = true,
              .f32_bound = 1e-6});  // the weights' gradients are differences of losses
}

TEST_CASE("cross_entropy: weights that add up to nothing give 0, and no gradient") {
  const Tensor numbers = tensor({{1, 2}, {3, 4}}), none = tensor({0, 5});
  Tape tape;
  const Var logits = variable(numbers), weights = variable(none);
  const Var loss = cross_entropy(logits, tensor({0, -100}, i32), {.weights = weights});
  tape.backward(loss);
  CHECK(loss.item() == 0);
  CHECK(Plain(logits.grad()).numbers == std::vector<double>(4, 0));
  CHECK(Plain(weights.grad()).numbers == std::vector<double>(2, 0));
}

TEST_CASE("cross_entropy: B47, every target ignored") {
  const Tensor logits = tensor({{1, 2, 3}, {-4, 5, 6}}), targets = full({2}, -100, i32);
  for (Reduction reduction : kReductions)
    for (double smoothing : {0.0, 0.1}) {
      const Result found = result_of(logits, targets, {.smoothing = smoothing, .reduction = reduction});
      CHECK(found.loss == std::vector<double>(reduction == Reduction::none ? 2 : 1, 0));
      CHECK(found.gradient == std::vector<double>(6, 0));
    }
  const Result mixed = result_of(tensor({{1, 2, 3}, {1, 2, 3}}), tensor({-100, 2}, i32), {});
  close(mixed.loss, {0.407605964});
  for (std::size_t c = 0; c < 3; ++c) CHECK(mixed.gradient[c] == 0);
  for (Reduction reduction : kReductions) {  // of no rows
    const Result empty = result_of(Tensor({0, 3}), Tensor({0}, i32), {.reduction = reduction});
    CHECK(empty.loss == std::vector<double>(reduction == Reduction::none ? 0 : 1, 0));
  }
}

TEST_CASE("cross_entropy: B48, label smoothing with an ignored target") {
  const Tensor logits = tensor({{2, 0, 0}, {0, 3, 0}}, f64), targets = tensor({0, -100}, i32);
  const Result smooth = result_of(logits, targets, {.smoothing = 0.1});
  close(smooth.loss, {0.372878100});
  close(smooth.gradient, {-0.146347291, 0.073173646, 0.073173646, 0, 0, 0});
  close(result_of(logits, targets, {}).loss, {0.239544766});
  for (double smoothing : {-0.1, 1.5})
    CHECK_THROWS_WITH_AS(
        result_of(logits, targets, {.smoothing = smoothing}),
        fmt::format("cross_entropy: a smoothing of {} is outside of 0 to 1", smoothing).c_str(),
        std::invalid_argument);
}

TEST_CASE("cross_entropy: B49, targets out of range, and ignored numbers inside and outside of it") {
  const Tensor logits = tensor({{1, 2, 3}, {1, 2, 3}});
  for (Index ignored : {-100, 0, 255}) {
    const auto refused = [&](int target) {
      CHECK_THROWS_WITH_AS(
          result_of(logits, tensor({1, static_cast<double>(target)}, i32), {.ignored = ignored}),
          fmt::format("cross_entropy: target {} at [1] is outside of 0 to 2 (3 classes)", target).c_str(),
          std::invalid_argument);
    };
    refused(3);
    refused(-4);
  }
  const Tensor targets = tensor({2, 255}, i32);
  close(result_of(logits, targets, {.ignored = 255}).loss, {0.407605964});
  close(result_of(logits, targets, {.ignored = 255, .reduction = Reduction::none}).loss, {0.407605964, 0});
  // An ignored class stays in the denominator.
  close(result_of(tensor({{1, 1, 1}}), tensor({1}, i32), {.ignored = 0}).loss, {1.098612289});
}

TEST_CASE("cross_entropy: B20, gradients of huge logits keep their digits in f32") {
  const Result found = result_of(tensor({{1e4, 9999}}), tensor({1}, i32), {});
  close(found.loss, {1.313261688});
  close(found.gradient, {0.731058579, -0.731058579});
}

TEST_CASE("cross_entropy: what is refused of weights") {
  const Tape tape;
  const Tensor logits = zeros({2, 3}), targets({2}, i32);
  CHECK_THROWS_WITH_AS(cross_entropy(logits, targets, {.weights = ones({3})}),
                       "cross_entropy: weights of [3] do not fit targets of [2]", std::invalid_argument);
  CHECK_THROWS_WITH_AS(cross_entropy(logits, targets, {.weights = ones({2}, f64)}),
                       "cross_entropy: element types f32 and f64 differ", std::invalid_argument);
}
