// verify(): whole models are right to many digits, planted faults are named, and what cannot be seen is said.
#include "attune/layers/verify.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "attune/autograd/ops.h"
#include "attune/layers/gpt.h"

using namespace attune;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool has_note(const VerifyReport& report, const std::string& part) {
  for (const std::string& note : report.notes)
    if (contains(note, part)) return true;
  return false;
}

// In bytes, which are no fewer than its characters.
std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (std::size_t start = 0, end = 0; start <= text.size(); start = end + 1) {
    end = std::min(text.find('\n', start), text.size());
    widest = std::max(widest, end - start);
  }
  return widest;
}

// y = x, whose rule is off by a factor.
Var scaled_rule(Var x, double factor) {
  Var y = output(x.shape(), {x});
  kernels::copy(into(y), x.value());
  return record("faulty", y, [=] {
    if (Out d = add_to(x)) kernels::scale(d, y.grad(), factor);
  });
}

GptOptions small(int layers) {
  return {.vocab = 11, .context = 6, .layers = layers, .heads = 2, .width = 16, .bias = true, .deviation = 0.3};
}
const Tensor& tokens() {
  static const Tensor ids = tensor({{1, 2, 3, 4, 10, 0}, {0, 6, 5, 2, 2, 9}}, i32);
  return ids;
}
const Tensor& targets() {
  static const Tensor ids = tensor({{2, 3, 4, 10, 0, 7}, {6, 5, -100, 2, 9, 8}}, i32);
  return ids;
}
auto loss_of(const Gpt& model) {
  return [&model] { return cross_entropy(model(tokens()), targets()); };
}

// A perceptron on f32 data, whose parts a test can spoil.
struct Perceptron {
  Linear up, down;
  Parameter spare{tensor({1, 2, 3})};
  explicit Perceptron(Rng rng) : up({.in = 3, .out = 8}, rng), down({.in = 8, .out = 2}, rng) {}
  void each(auto&& visit) { visit("up", up), visit("down", down), visit("spare", spare); }
};
struct OneParameter {
  Parameter weight;
  void each(auto&& visit) { visit("weight", weight); }
};
const Tensor& data() {
  static const Tensor x = tensor({{0.5, -1, 2}, {1, 0.25, -0.5}, {-2, 1, 1}});
  return x;
}

}  // namespace

TEST_CASE("a whole two-layer Gpt is right, fused and step by step: digits against forward mode, differences and f32") {
  Gpt model(small(2), Rng(3));
  const VerifyReport report = verify(model, loss_of(model));
  MESSAGE(report.text());
  CHECK(widest_line(report.text()) <= 80);
  CHECK(report.verdict() == Verdict::right);
  CHECK(report.parameters.size() == ParameterList(model).states().size());
  CHECK(report.forward_error() <= 1e-12);
  CHECK(report.differences_error() <= 1e-8);
  CHECK(report.miss_probability > 0);
  CHECK(report.miss_probability < 1e-12);
  CHECK(report.ops.ops > 20);
  CHECK(report.severed.empty());
  for (const VerifiedParameter& p : report.parameters) {
    CHECK_MESSAGE(p.single_digits() > 5, p.name);
    CHECK(p.single_digits() < 9);
    CHECK(p.every_element == (p.shape.count() <= 32));
  }
  const Observer steps([](const TapPoint& at) { return at.name == "scores" ? at.value * 1 : at.value; });
  const VerifyReport composed = verify(model, loss_of(model));
  CHECK(composed.verdict() == Verdict::right);
  CHECK(composed.forward_error() <= 1e-12);
  CHECK(model.token.weight.dtype() == f32);
  CHECK_FALSE(model.token.weight.has_grad());
}

TEST_CASE("a fault of 0.1 % in layer 2 of 4 is found, and named with its layer, line, and element") {
  Gpt model(small(4), Rng(3));
  const Observer fault([](const TapPoint& at) {
    return at.path == "blocks.2.attention" && at.name == "heads" ? scaled_rule(at.value, 1.001) : at.value;
  });
  const VerifyReport report = verify(model, loss_of(model));
  CHECK(report.verdict() == Verdict::wrong);
  REQUIRE(report.ops.wrong.size() == 1);
  CHECK(report.ops.wrong[0].op == "faulty");
  CHECK(contains(report.ops.wrong[0].place, "blocks.2.attention, verify_test.cpp:"));
  CHECK(widest_line(report.text()) <= 80);
  CHECK(contains(report.text(), "each op: 1 of "));
  CHECK(contains(report.text(), "(ratio 1.001)"));
  // What lies behind the fault has wrong gradients; what lies before it on the way back has right ones.
  for (const VerifiedParameter& p : report.parameters) {
    if (p.name.rfind("blocks.3", 0) == 0 || p.name.rfind("norm", 0) == 0 || p.name == "blocks.2.mlp.up.weight")
      CHECK_MESSAGE(p.verdict == Verdict::right, p.name);
    if (p.name.rfind("blocks.0", 0) == 0 || p.name == "blocks.2.attention.qkv.weight")
      CHECK_MESSAGE(p.verdict == Verdict::wrong, p.name);
  }
}

TEST_CASE("a model on f32 data, with dropout, and one whose result is no single number") {
  Perceptron model(Rng(1));
  const auto f = [&] {
    const Var hidden = dropout(gelu(model.up(data())), 0.25);
    const Var spare = sum(Var(model.spare) * 2);
    return model.down(hidden) + spare;
  };
  const VerifyReport report = verify(model, f);
  CHECK_MESSAGE(report.verdict() == Verdict::right, report.text());
  CHECK(report.forward_error() < 1e-13);
}

TEST_CASE("a loss without a trained parameter is no loss to verify") {
  Perceptron model(Rng(1));
  const VerifyReport report = verify(model, [&] { return sum(detach(model.up(data()))); });
  CHECK(report.verdict() == Verdict::wrong);
  CHECK(report.failure == "the loss depends on no parameter that is trained");
  CHECK(contains(report.text(), report.failure));
}

TEST_CASE("a gradient that f32 cannot hold has no digits, wherever it stands") {
  for (const Tensor& at : {tensor({1, 2, 60}), tensor({60, 1, 2})}) {
    OneParameter model{Parameter(at)};
    const VerifyReport report = verify(model, [&] { return sum(log(exp(Var(model.weight) * 2) + 1)); });
    CHECK_MESSAGE(report.verdict() == Verdict::right, report.text());
    CHECK(report.parameters[0].single_digits() == 0);
  }
}

TEST_CASE("a parameter that lies on a kink is held to forward mode alone, and the kink is named") {
  OneParameter model{Parameter(tensor({0, 1, -2, 3}))};
  const VerifyReport report = verify(model, [&] { return sum(relu(Var(model.weight))); });
  CHECK_MESSAGE(report.verdict() == Verdict::right, report.text());
  CHECK_MESSAGE(has_note(report, "weight: differences cross a kink of relu, and were not compared"), report.text());
}

TEST_CASE("parameters that no gradient reaches are named, with the reason, and nothing is claimed of them") {
  Perceptron model(Rng(1));
  const auto with = [&](auto spoil) {
    return verify(model, [&] {
      const Var out = model.down(tanh(model.up(data())));
      return sum(out * out) + spoil(Var(model.spare));
    });
  };
  const VerifyReport unused = with([](Var v) { return scalar(0, v); });
  CHECK(unused.verdict() == Verdict::cannot_tell);
  REQUIRE(unused.severed.size() == 1);
  CHECK(unused.severed[0].why == ParameterReport::Why::unused);
  CHECK(contains(unused.text(), "severed: spare: no gradient: its path ended at nothing: no op used it"));
  CHECK(contains(unused.text(), "cannot tell: nothing: no op used it"));

  const VerifyReport cut = with([](Var v) { return sum(detach(v) * 2); });
  CHECK(cut.passed());
  CHECK(cut.severed[0].why == ParameterReport::Why::detached);
  CHECK(has_note(cut, "spare: differences see what a detach hides, and were not compared"));

  const VerifyReport dead = with([](Var v) { return sum(relu(v * -1)); });
  CHECK(dead.verdict() == Verdict::cannot_tell);
  CHECK(dead.severed[0].why == ParameterReport::Why::dead);
  CHECK(contains(dead.severed[0].place, "relu.h:"));
}

TEST_CASE("a saturated model: what could not be verified is said, with its layer") {
  GptOptions options = small(2);
  options.width = 64;
  options.heads = 1;
  options.scale = Scale::none();
  options.deviation = 3;
  Gpt model(options, Rng(3));
  const VerifyReport report = verify(model, loss_of(model), {.small = 8, .projections = 2});
  CHECK_MESSAGE(report.passed(), report.text());
  CHECK(has_note(report, "blocks.0.attention: "));
  CHECK(has_note(report, "rows of attention are saturated"));
  CHECK(report.saturated > 0);
  CHECK(report.verdict() == Verdict::cannot_tell);
}

TEST_CASE("a gradient that is mostly zeros is said to be") {
  Gpt model({.vocab = 40, .context = 6, .layers = 1, .heads = 2, .width = 8, .tied = false, .deviation = 0.3}, Rng(3));
  const VerifyReport report = verify(model, loss_of(model));
  CHECK(report.verdict() == Verdict::right);
  CHECK(has_note(report, "token.weight: the true gradient is 0 in "));
}

TEST_CASE("a loss that draws anew, and one that is not finite, are failures with their reason") {
  Perceptron model(Rng(1));
  int calls = 0;
  const VerifyReport random = verify(model, [&] { return sum(model.down(model.up(data())) * (1.0 + ++calls)); });
  CHECK_FALSE(random);
  CHECK(contains(random.text(), "verify: the loss is not deterministic: "));
  const VerifyReport infinite = verify(model, [&] { return sum(log(model.down(model.up(data())) * 0)); });
  CHECK_FALSE(infinite);
  CHECK(contains(infinite.text(), "verify: a number is not finite: log [3, 2] (after down.bias, log.h:"));
}

TEST_CASE("kinks do not make a right model wrong") {
  Perceptron model(Rng(1));
  const VerifyReport report = verify(model, [&] {
    const Var out = model.down(relu(model.up(data()))), spare = sum(Var(model.spare) * 2);
    return sum(abs(out)) + spare;
  });
  CHECK_MESSAGE(report.verdict() == Verdict::right, report.text());
}
