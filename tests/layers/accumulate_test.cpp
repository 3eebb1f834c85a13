// Gradient accumulation: unequal micro-batches weigh as their targets do.
#include "attune/layers/accumulate.h"

#include "../lib/kernel_check.h"
#include "attune/autograd/ops.h"
#include "attune/layers/gpt.h"
#include "attune/layers/optim.h"
#include "attune/layers/sequences.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

struct Weight {
  Parameter w{zeros({1}, f64)};
  void each(auto&& visit) { visit("w", w); }
};

// A micro-batch whose targets lose c w each.
void add(Accumulation& window, const Weight& model, std::initializer_list<double> c) {
  Tape tape;
  Tensor factors({static_cast<Index>(c.size())}, f64);
  std::copy(c.begin(), c.end(), factors.data<double>().begin());
  const Var w = model.w;
  const Var loss = sum(Var(std::move(factors)) * w);
  window.add(tape, loss, static_cast<Index>(c.size()));
}

}  // namespace

TEST_CASE("B51: unequal micro-batches give the gradient and the loss of the one batch that they make") {
  Weight model;
  kernels::fill(model.w.mutable_value(), 1);
  Sgd optimizer(model, {.lr = 1});
  Accumulation window;
  add(window, model, {4});
  add(window, model, {1, 1, 1});
  CHECK(window.count() == 4);
  CHECK(window.summed_loss() == 7);
  const auto loss = window.step(optimizer);
  REQUIRE(loss.has_value());
  CHECK(*loss == 1.75);
  CHECK(model.w.value().item() == 1 - 1.75);
  CHECK(optimizer.grad_norm() == 1.75);
  CHECK(window.count() == 0);
}

TEST_CASE("B51: the last window of an epoch has its own count") {
  Weight model;
  Sgd optimizer(model, {.lr = 1});
  Accumulation window;
  std::vector<double> steps;
  const std::vector<std::vector<double>> batches = {{1}, {2, 2}, {3}, {4, 4}, {5}, {6, 6, 6}};
  for (std::size_t i = 0; i < batches.size(); ++i) {
    for (const double c : batches[i]) add(window, model, {c});
    if (i % 4 != 3 && i + 1 < batches.size()) continue;
    const double before = model.w.value().item();
    window.step(optimizer);
    steps.push_back(before - model.w.value().item());
  }
  REQUIRE(steps.size() == 2);
  CHECK(steps[0] == doctest::Approx((1 + 4 + 3 + 8) / 6.0).epsilon(1e-15));
  CHECK(steps[1] == doctest::Approx((5 + 18) / 4.0).epsilon(1e-15));
}

TEST_CASE("B51: a micro-batch without a target adds nothing, and a window without one makes no step") {
  Weight model;
  AdamW optimizer(model, {.lr = 0.1});
  Accumulation window;
  add(window, model, {});
  CHECK_FALSE(window.step(optimizer).has_value());
  CHECK(model.w.value().item() == 0);
  CHECK_FALSE(model.w.has_grad());
  CHECK(optimizer.skipped() == 0);
  add(window, model, {2});
  add(window, model, {});
  CHECK(window.step(optimizer).has_value());
  CHECK(optimizer.grad_norm() == 2);
}

TEST_CASE("B51: a window with a gradient that is not finite is skipped whole, and the next begins anew") {
  Weight model;
  Sgd optimizer(model, {.lr = 1});
  Accumulation window;
  add(window, model, {4});
  add(window, model, {kInf});
  window.step(optimizer);
  CHECK(optimizer.skipped() == 1);
  CHECK(model.w.value().item() == 0);
  add(window, model, {3});
  window.step(optimizer);
  CHECK(model.w.value().item() == -3);
}

TEST_CASE("targets that count, and what is refused") {
  CHECK(count_targets(tensor({{1, -100}, {-100, 0}}, i32)) == 2);
  CHECK(count_targets(tensor({{1, -100}, {-100, 0}}, i32).view().t(), 0) == 3);
  CHECK(count_targets(Tensor({0}, i32)) == 0);
  CHECK_THROWS_WITH_AS(count_targets(tensor({1})), "count_targets: targets are i32, not f32", std::invalid_argument);
  Weight model;
  Accumulation window;
  Tape tape;
  const Var w = model.w;
  const Var loss = sum(w);
  CHECK_THROWS_WITH_AS(window.add(tape, loss, -1), "accumulation: -1 targets", std::invalid_argument);
}

TEST_CASE("B51: a model's unequal micro-batches make the step of the one batch that they are") {
  const Sequences data = Sequences::next_token({{1, 2, 3, 4, 0, 1, 2}, {3, 1}, {4, 4, 4}}, {.batch = 3});
  const PaddedBatch whole = data.batch(0);
  Gpt at_once({.vocab = 5, .context = 6, .layers = 1, .heads = 1, .width = 8}, Rng(1)),
      in_parts({.vocab = 5, .context = 6, .layers = 1, .heads = 1, .width = 8}, Rng(1));
  const Cast first_cast(at_once, f64), second_cast(in_parts, f64);
  AdamW first(at_once), second(in_parts);
  double loss = 0;
  {
    Tape tape;
    const Var mean = cross_entropy(at_once(whole.inputs), whole.targets);
    tape.backward(mean);
    loss = mean.item();
  }
  first.step();
  Accumulation window;
  for (Index row = 0; row < 3; ++row) {
    const Tensor inputs = Tensor::copy_of(whole.inputs.view().slice(0, row, row + 1)),
                 targets = Tensor::copy_of(whole.targets.view().slice(0, row, row + 1));
    Tape tape;
    const Var sum = cross_entropy(in_parts(inputs), targets, {.reduction = Reduction::sum});
    window.add(tape, sum, count_targets(targets));
  }
  CHECK(window.count() == 9);
  CHECK(*window.step(second) == doctest::Approx(loss).epsilon(1e-13));
  CHECK(first.grad_norm() == doctest::Approx(second.grad_norm()).epsilon(1e-12));
  const ParameterList a(at_once), b(in_parts);
  for (std::size_t i = 0; i < a.states().size(); ++i)
    check_close(b.states()[i]->value, values(a.states()[i]->value), 1e-9, 1e-12);
}

TEST_CASE("B47: a step on targets that are all ignored leaves every parameter as it was") {
  Gpt model({.vocab = 5, .context = 6, .layers = 1, .heads = 1, .width = 8}, Rng(1));
  const ParameterList parameters(model);
  std::vector<Tensor> before;
  for (const auto& state : parameters.states()) before.push_back(Tensor::copy_of(state->value));
  AdamW optimizer(model, {.lr = 0.1, .decay = 0, .clip = 1});
  const Tensor tokens = tensor({{1, 2, 3}}, i32), targets = full({1, 3}, -100, i32);
  Tape tape;
  const Var loss = cross_entropy(model(tokens), targets);
  CHECK(loss.item() == 0);
  tape.backward(loss);
  optimizer.step();
  CHECK(optimizer.grad_norm() == 0);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(same_bits(parameters.states()[i]->value, before[i]));
}
