// gradcheck: are the gradients of a function what its values say?
//
//   Tensor x = tensor({1, 2, 3}, f64);
//   GradcheckReport report = gradcheck([](Var x) { return exp(x); }, x);
//   fmt::print("{}\n", report.text());
//
// Reverse mode is compared with two others, which know nothing of its rules. Forward mode, in dual numbers, is exact:
// twelve digits agree, or something is wrong. Central differences ask the values themselves; their step is found for
// each element by Ridders' extrapolation (Ridders 1982), which comes with an error bar of its own. The upstream
// gradient is random, since under one of all ones a softmax or a layer norm has no gradient at all. Everything is
// computed in f64; f32 differences would drown what they measure. Dropout drops the same at each evaluation.
//
// Reverse mode runs twice: a rule must add to a gradient that holds something already, too, where a function uses what
// it is given once and would never notice.
//
// Where differences disagree with the gradient, smaller steps are tried until the function is smooth at their scale: of one
// that turns many times within a step, as sin(1000 x), wide ones see a slope that it does not have.
//
// A check can be fooled, and says where it might have been: an element at a kink (of a relu, a maximum ...) has no
// derivative to compare with and is left out, by name; a gradient that is 0 by all three (a saturated softmax) proves
// nothing, and the verdict is that it cannot be told; one that is mostly zeros is said to be.
//
// A gradient check does not prove the forward right: that takes known answers.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attune/autograd/forward.h"
#include "attune/autograd/parameter.h"
#include "attune/autograd/tape.h"

namespace attune {

enum class Verdict { right, wrong, cannot_tell };

struct GradcheckOptions {
  double tolerance = 1e-8;  // on max |a - n| / max |n| of each input, a the analytic gradient and n the numeric one
  double forward_tolerance = 1e-10;  // on the same with forward mode in place of n
  // The first h, as a share of the element's size or of its tensor's root mean square, whichever is larger. It is halved
  // until the error bar no longer falls.
  double step = 1.0 / 16;
  std::uint64_t seed = 0;  // of the upstream gradient, and of dropout
  Index elements = 0;      // of an input that has more, so many are checked at most, evenly spaced; 0: all
};

// What was found for an input. All shares are of the largest |n| in it.
struct GradcheckInput {
  std::string name;  // "input 0", or a parameter's path
  Shape shape;
  Verdict verdict = Verdict::right;
  double error = 0;    // max |a - n| / max |n|
  double largest = 0;  // max |n|
  double bar = 0;      // the largest error bar of n, as a share
  // The same with forward mode; not a number where that was not to be had.
  double forward_error = 0;
  Index worst = 0;  // the row-major number of the element of the largest |a - n|, and all sides there
  double analytic = 0, numeric = 0, forward = 0;
  // Where max |n| is no more than what rounding makes of differences, as for the bias of keys, which cannot matter:
  // then |a - n| was held against that rounding instead, and what is right cannot be told.
  bool absolute = false;
  bool missing = false;      // no gradient reached it
  bool overwritten = false;  // a rule wrote over what its gradient held, instead of adding to it
  Index compared = 0;        // elements
  Index zeros = 0;           // of those, where the true gradient is 0
  Index unclear = 0;         // where the error bar of differences is too large to judge by
  Index excluded = 0;        // at a kink, and
  std::vector<std::string> kinks = {};  // of which ops
  bool passed = false;                  // whether it is not wrong

  double digits() const;  // that agree: by forward mode, or else by differences
};

struct GradcheckReport {
  std::vector<GradcheckInput> inputs;
  std::string failure;             // what went wrong before any comparison could be made, as a function that is not deterministic
  std::vector<std::string> notes;  // what the check could not see: no forward mode, saturated rows, many zeros

  bool passed() const;  // nothing is wrong
  explicit operator bool() const { return passed(); }
  Verdict verdict() const;  // wrong if one is; else cannot_tell if one cannot be told
  double error() const;     // the largest of those that are relative
  // A table, a line for each input, and for one that failed its worst element.
  std::string text() const;
};

// f of Vars of the inputs, which are f64, each given once, and have their bits back afterwards (even where f throws).
GradcheckReport gradcheck(const std::function<Var(std::span<const Var>)>& f, std::span<Tensor* const> inputs,
                          const GradcheckOptions& options = {});

// The same for a lambda of as many Vars as there are inputs: gradcheck(f, tensor({1, 2}, f64)).
template <class F, class... Tensors>
  requires(std::is_same_v<std::remove_reference_t<Tensors>, Tensor> && ...)
GradcheckReport gradcheck(F&& f, Tensors&&... inputs) {
  return gradcheck(GradcheckOptions{}, std::forward<F>(f), inputs...);
}
template <class F, class... Tensors>
  requires(std::is_same_v<std::remove_reference_t<Tensors>, Tensor> && ...)
GradcheckReport gradcheck(const GradcheckOptions& options, F&& f, Tensors&&... inputs) {
  Tensor* const list[] = {&inputs...};
  const auto spread = [&](std::span<const Var> vars) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) { return f(vars[i]...); }
    (std::index_sequence_for<Tensors...>{});
  };
  return gradcheck(spread, list, options);
}

// The gradients of a model's parameters, which are f64 (Cast): f computes with the model, the same each time it is
// called. Values are back afterwards.
GradcheckReport gradcheck_parameters(const ParameterList& parameters, const std::function<Var()>& f,
                                     const GradcheckOptions& options = {});

// -- The parts, for checks of one's own.

// f'(0), with an error bar: central differences of step h, h / 2, ..., extrapolated to 0 (Ridders 1982) until the bar is
// at most `goal` or no longer falls. Where f is not finite, smaller steps are tried.
struct Slope {
  double value = 0, bar = 0;
  double step = 0;  // the largest that took part in the value
};
Slope differentiate(const std::function<double(double)>& f, double h, double goal = 0);

namespace detail {
// Which way each op with a kink went (relu, abs, clamp, max, a comparison ...), for the innermost scope: two points with
// the same branches lie on the same smooth piece.
struct Branch {
  std::string op;
  std::uint64_t hash;
};
std::vector<Branch> branches_of_scope();
// The ops whose branch differs, each once.
std::vector<std::string> differing(const std::vector<Branch>& a, const std::vector<Branch>& b);

// Whether an op of this name was recorded in the innermost scope.
bool scope_has(const char* op);

// Rows of softmax results in the innermost scope in which one weight is 1 and all else together below 1e-12: no gradient
// that f64 could measure passes. A line for each op.
std::vector<std::string> saturated_rows_of_scope();
}  // namespace detail

}  // namespace attune
