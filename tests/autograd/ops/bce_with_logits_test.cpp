// bce_with_logits: binary cross-entropy (composed of its losses, mul, and mean or sum).
#include "attune/autograd/ops/bce_with_logits.h"

#include <cmath>

#include "reduced.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

Plain reference(const Plain& x, const Plain& t, const Plain& weights, Reduction reduction) {
  Plain each = x;
  for (std::size_t i = 0; i < x.numbers.size(); ++i) {
    const double p = 1 / (1 + std::exp(-x.numbers[i]));
    each.numbers[i] = -t.numbers[i] * std::log(p) - (1 - t.numbers[i]) * std::log(1 - p);
    if (!weights.numbers.empty()) each.numbers[i] *= weights.numbers[i % weights.numbers.size()];
  }
  return reduction == Reduction::none ? each : reduced(each, {}, Axes::go, reduction == Reduction::mean);
}

Inputs pair(const Shape& shape) { return {real(shape, -4, 4), real(shape, 0, 1)}; }

struct Result {
  double loss, slope;
};
Result of(double x, double target, DType dtype) {
  Tape tape;
  const Var logit = variable(tensor(x, dtype)), y = bce_with_logits(logit, tensor(target, dtype));
  tape.backward(y);
  return {y.item(), logit.grad().item()};
}

}  // namespace

TEST_CASE("bce_with_logits: the mean, the sum, and each; both operands have gradients") {
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
    check_op({.name = fmt::format("bce_with_logits, {}", static_cast<int>(reduction)),
              .f = [=](Var x, Var t) { return bce_with_logits(x, t, reduction); },
              .reference = [=](const Plain& x, const Plain& t) { return reference(x, t, {}, reduction); },
              .inputs = {pair({3, 5}),
                         {real({}, 1, 2), real({}, 0, 0.2)},
                         pair({15}),
                         pair({16}),
                         pair({17}),
                         pair({2, 3, 33}),
                         pair({41, 53})},
              .composed = true,
              .errors = {{[] {
                            bce_with_logits(zeros({2, 3}), zeros({3}));
                          },
                          "bce_with_logits: logits [2, 3] and targets [3] differ in shape"},
                         {[] { bce_with_logits(zeros({0}), zeros({0})); },
                          "bce_with_logits: there is nothing to average"},
                         {[] {
                            bce_with_logits(zeros({2, 3}), zeros({2, 3}), zeros({2}));
                          },
                          "bce_with_logits: weights [2] do not stretch to logits [2, 3]"}}});
}

TEST_CASE("bce_with_logits: weights, which may stretch") {
  check_op({.name = "bce_with_logits, weighted",
            .f = [](Var x, Var t, Var w) { return bce_with_logits(x, t, w); },
            .reference = [](const Plain& x, const Plain& t,
                            const Plain& w) { return reference(x, t, w, Reduction::mean); },
            .inputs = {{real({3, 5}), real({3, 5}, 0, 1), real({5}, 0.5, 2)},
                       {real({4, 17}), real({4, 17}, 0, 1), real({4, 17}, 0.5, 2)}},
            .composed = true});
}

TEST_CASE("bce_with_logits: far logits neither overflow nor lose their digits") {
  for (DType dtype : {f32, f64}) {
    const double close = dtype == f32 ? 1e-6 : 1e-14;
    CHECK(of(0, 0.5, dtype).loss == doctest::Approx(std::log(2)).epsilon(close));
    CHECK(of(80, 1, dtype).loss == doctest::Approx(std::exp(-80)).epsilon(close));
    CHECK(of(80, 1, dtype).slope == doctest::Approx(-std::exp(-80)).epsilon(close));
    CHECK(of(-80, 0, dtype).loss == doctest::Approx(std::exp(-80)).epsilon(close));
    CHECK(of(-80, 0, dtype).slope == doctest::Approx(std::exp(-80)).epsilon(close));
    CHECK(of(1e4, 0, dtype).loss == 1e4);
    CHECK(of(-1e30, 1, dtype).loss == doctest::Approx(1e30));
    CHECK(of(-1e30, 1, dtype).slope == -1);
  }
  CHECK(std::isnan(of(std::nan(""), 1, f32).loss));
}
