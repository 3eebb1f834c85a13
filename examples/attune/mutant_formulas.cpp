// Mutants that an op's own formula decides about: a mask ignored, a term dropped, a scale missing.
#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "mutant_plan.h"

namespace attune::program {
namespace {

// The gradient of another function in the place of that of a sample's op: as if a mask, or a term, were not there.
struct Instead {
  const char *kind, *sample, *detail;
  int inputs;  // so many from the first on: the gradients of others are as they were
  FunctionOfVars f;
};

Tensor targets_with(int fourth) { return tensor({5, 0, static_cast<double>(fourth), 2}, i32); }

Var mean_of_rows(Var x) { return mean(x, {-1}, Axes::stay); }

std::vector<Instead> instead() {
  using Inputs = std::span<const Var>;
  const char *mask = "the mask ignored", *term = "a term dropped";
  const auto all_keys = [](Inputs x) { return attention(x[0], x[1], x[2]); };
  const auto weights = [](Var q, Var k) { return matmul(q, t(k), 1 / std::sqrt(static_cast<double>(q.size(-1)))); };
  return {
      {mask, "relu", "passes everywhere", 1, [](Inputs x) { return x[0] * 1; }},
      {mask, "clamp", "passes everywhere", 1, [](Inputs x) { return x[0] * 1; }},
      {mask, "dropout", "passes everywhere", 1, [](Inputs x) { return x[0] * (1 / 0.7); }},
      {mask, "where", "passes on both sides", 2, [](Inputs x) { return x[0] + x[1]; }},
      {mask, "where, one shape", "passes on both sides", 2, [](Inputs x) { return x[0] + x[1]; }},
      {mask, "maximum", "passes on both sides", 2, [](Inputs x) { return x[0] + x[1]; }},
      {mask, "minimum", "passes on both sides", 2, [](Inputs x) { return x[0] + x[1]; }},
      {mask, "max", "passes everywhere", 1, [](Inputs x) { return sum(x[0], {-1}); }},
      {mask, "min", "passes everywhere", 1, [](Inputs x) { return sum(x[0], {0}); }},
      {mask, "tril", "passes everywhere", 1, [](Inputs x) { return x[0] * 1; }},
      {mask, "sparsemax", "all keys have weight", 1, [](Inputs x) { return x[0] - mean_of_rows(x[0]); }},
      {mask, "softmax, causal", "all keys are seen", 1, [](Inputs x) { return softmax(x[0]); }},
      {mask, "cross_entropy", "no target is ignored", 1,
       [](Inputs x) { return cross_entropy(x[0], targets_with(0), {.smoothing = 0.1}); }},
      {mask, "cross_entropy, of each", "no target is ignored", 1,
       [](Inputs x) { return cross_entropy(x[0], targets_with(0), {.reduction = Reduction::none}); }},
      {mask, "nll", "no target is ignored", 1, [](Inputs x) { return nll(x[0], targets_with(0)); }},
      {mask, "attention, causal", "all keys are seen", 3, all_keys},
      {mask, "attention, window", "all keys are seen", 3, all_keys},
      {mask, "attention, padding", "all keys are seen", 3, all_keys},
      {term, "softmax", "-y (dy·y)", 1, [](Inputs x) { return exp(x[0]) / detach(sum(exp(x[0]), {-1}, Axes::stay)); }},
      {term, "log_softmax", "-exp(y) sum(dy)", 1, [](Inputs x) { return x[0] * 1; }},
      {term, "layer_norm", "that of the mean", 1,
       [](Inputs x) {
         const Var centre = detach(mean_of_rows(x[0]));
         return layer_norm(x[0], x[1], x[2]) +
                (mean_of_rows(x[0]) - centre) * x[1] / detach(sqrt(var(x[0], {-1}, {.reduced = Axes::stay}) + 1e-5));
       }},
      {term, "layer_norm", "that of the variance", 1,
       [](Inputs x) {
         const Var root = detach(sqrt(var(x[0], {-1}, {.reduced = Axes::stay}) + 1e-5));
         return (x[0] - mean_of_rows(x[0])) / root * x[1] + x[2];
       }},
      {term, "rms_norm", "that of the mean square", 1,
       [](Inputs x) { return x[0] / detach(sqrt(mean_of_rows(x[0] * x[0]) + 1e-6)) * x[1]; }},
      {term, "cross_entropy", "that of the target", 1,
       [](Inputs x) {
         return sum(logsumexp(x[0], {-1}) * tensor({1 / 3.0, 1 / 3.0, 0, 1 / 3.0}, f64));
       }},
      {term, "cross_entropy", "the smoothing", 1, [](Inputs x) { return cross_entropy(x[0], targets_with(-100)); }},
      {term, "gelu", "x phi(x)", 1, [](Inputs x) { return x[0] * detach(gelu(x[0]) / x[0]); }},
      {term, "silu", "x s (1 - s)", 1, [](Inputs x) { return x[0] * detach(sigmoid(x[0])); }},
      {term, "var", "the mean is not taken off", 1, [](Inputs x) { return mean(x[0] * x[0], {-1}); }},
      {term, "attention", "-P (dO·O)", 2,
       [=](Inputs x) {
         const Var scores = weights(x[0], x[1]);
         return matmul(exp(scores - detach(logsumexp(scores, {-1}, Axes::stay))), x[2]);
       }},
      {term, "attention, softcap", "1 - tanh²", 3, all_keys},
      {term, "attention, dropout", "that nothing is dropped", 3, all_keys},
  };
}

// An input's gradient holds the factor, which is left out.
struct Scale {
  const char* sample;
  int input;
  double factor;
};

std::vector<Scale> scales() {
  const double root6 = 1 / std::sqrt(6.0), root2 = 1 / std::sqrt(2.0);
  std::vector<Scale> list = {{"mean", 0, 1 / 4.0},          {"dropout", 0, 1 / 0.7},    {"mul, a number", 0, 3},
                             {"matmul, square", 0, 0.5},    {"matmul, square", 1, 0.5}, {"var", 0, 2 / 5.0},
                             {"cross_entropy", 0, 1 / 3.0}, {"nll", 0, 1 / 3.0}};
  for (const char* sample : {"attention", "attention, causal", "attention, softcap", "attention, window",
                             "attention, padding", "attention, bias", "attention, dropout"})
    for (const int input : {0, 1}) list.push_back({sample, input, root6});
  for (const int input : {0, 1}) list.push_back({"attention, one shape", input, 0.5});
  for (const int input : {0, 1}) list.push_back({"attention, sinks", input, root2});
  return list;
}

// What the rule of the sample's op would write if it were another function's.
std::function<void(const View&, const ConstView&)> gradient_of(const FunctionOfVars& f,
                                                               const std::vector<Tensor>& inputs, int input) {
  return [&inputs, f, input](const View& written, const ConstView& upstream) {
    Rng random = MutantSubject::stream();
    Tape tape({.random = &random, .constants = written.dtype()});
    std::vector<Var> vars;
    for (const Tensor& x : inputs) vars.push_back(variable(x.to(written.dtype())));
    tape.backward(f(vars), upstream);
    const Var x = vars[static_cast<std::size_t>(input)];
    if (x.has_grad())
      kernels::copy(written, x.grad());
    else
      kernels::fill(written, 0);
  };
}

}  // namespace

std::vector<Planned> mutants_by_formula(const OpSample& sample, const MutantTarget& target) {
  std::vector<Planned> plan;
  const auto add = [&](const char* kind, std::string detail, MutantOptions options) {
    plan.push_back({kind, std::move(detail), aimed(target, std::move(options))});
  };
  const auto add_scale = [&](double factor) {
    add("the scale missing", fmt::format("{:.4g}", factor), {.change = scaled_by(1 / factor)});
  };
  if (target.op == "attention_scores") add_scale(1 / std::sqrt(static_cast<double>(target.shape.last())));
  if (target.op != op_of(sample)) return plan;
  for (const Instead& one : instead())
    if (one.sample == sample.name && target.input < one.inputs)
      add(one.kind, one.detail, {.replace = gradient_of(one.f, sample.inputs, target.input)});
  for (const Scale& one : scales())
    if (one.sample == sample.name && one.input == target.input) add_scale(one.factor);
  return plan;
}

}  // namespace attune::program
