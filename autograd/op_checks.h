// Every op of a computation by itself: is its rule the derivative of its forward, on the inputs that it really had?
//
//   const OpChecks checks = check_each_op([&] { return cross_entropy(model(ids), targets); }, model);
//   if (!checks) fmt::print("{}\n", checks.text());   // names the first wrong op, its place, and its worst element
//
// The computation runs on a tape of dual numbers, on which each result is given a random tangent of its own as soon as it
// is there. So each op is alone: with u a random gradient of its result, and c_i = what its rule adds to input i for u,
//
//   u · (tangent of the result) = Σ c_i · (tangent of input i)
//
// holds for the right rule, whatever other ops do, and for a wrong one with probability 0. The forward pass is run once
// for each of a few such draws: rules that write into fresh memory (filled with NaN), rules that add to what is there, and
// tangents on some inputs alone, so that a small one is not hidden behind a large one.
//
// Only what the forward in `dual` says can be found out: that it is the derivative of the f64 forward, the op's own
// gradcheck says. A checkpoint is looked into.
#pragma once

#include <string>
#include <vector>

#include "attune/autograd/forward.h"

namespace attune {

struct OpChecksOptions {
  double tolerance = 1e-10;  // on |left - right|, as a share of the terms that were summed
  int draws = 4;             // at least 2
  bool training = true;
  std::uint64_t seed = 0;
  Index elements = 256;  // of a wrong op's input, how many are looked at one by one; of more, the worst is sought by halves
};

struct WrongOp {
  std::string op;
  Shape shape;        // of its result
  std::string place;  // "blocks.2.attention, softmax.h:18"
  double error;       // |left - right| as a share of the terms
  // The worst element of its inputs, with both sides: the gradient that the rule makes of u, and the true one. Empty where
  // none stands out.
  std::string input;  // "input 0, gelu"
  Shape input_shape;
  std::vector<Index> element;
  double analytic = 0, numeric = 0;

  std::string text() const;
};

struct OpChecks {
  Index ops = 0;     // that were checked: those with a rule
  double error = 0;  // the largest of the right ones
  std::string worst;  // whose it is
  std::vector<WrongOp> wrong;  // in the order in which they were computed; the worst element of the first only
  std::string failure;         // why nothing could be checked

  bool passed() const { return wrong.empty() && failure.empty(); }
  explicit operator bool() const { return passed(); }
  std::string text() const;
};

// f computes with the parameters; it is run several times, and must record the same ops each time.
OpChecks check_each_op(const std::function<Var()>& f, const ParameterList& parameters,
                       const OpChecksOptions& options = {});
// f of Vars of these inputs, f32 or f64.
OpChecks check_each_op(const FunctionOfVars& f, std::span<const Tensor> inputs, const OpChecksOptions& options = {});

template <class F, HasParameters Model>
  requires std::is_invocable_r_v<Var, F>
OpChecks check_each_op(F&& f, Model& model, const OpChecksOptions& options = {}) {
  return check_each_op(std::function<Var()>(std::ref(f)), ParameterList(model), options);
}
template <class F>
  requires std::is_invocable_r_v<Var, F, Var>
OpChecks check_each_op(F&& f, const Tensor& input, const OpChecksOptions& options = {}) {
  return check_each_op([&](std::span<const Var> vars) { return f(vars[0]); }, std::span(&input, 1), options);
}

}  // namespace attune
