// gradcheck: are the gradients of a function what its values say?
//
//   Tensor x = tensor({1, 2, 3}, f64);
//   GradcheckReport report = gradcheck([](Var x) { return exp(x); }, x);
//   fmt::print("{}\n", report.text());
//
// Reverse mode is compared with four-point central differences, (8 (f(x + h) - f(x - h)) - (f(x + 2h) - f(x - 2h))) / 12h,
// whose error falls as h⁴. The upstream gradient is random, since under one of all ones a softmax or a layer norm has no
// gradient at all. Everything is computed in f64; f32 differences would drown what they measure.
//
// A gradient check does not prove the forward right: that takes known answers.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attune/autograd/parameter.h"
#include "attune/autograd/tape.h"

namespace attune {

struct GradcheckOptions {
  double tolerance = 1e-8;  // on max |a - n| / max |n| of each input, a the analytic gradient and n the numeric one
  // h, as a share of the element's size, or of 1 where that is larger. Where inputs are far below 1 and their scale
  // matters, as that of initial weights under a norm, take less: 1e-4.
  double step = 1e-3;
  std::uint64_t seed = 0;   // of the upstream gradient
  Index elements = 0;       // of an input that has more, so many are checked, evenly spaced; 0: all
};

struct GradcheckInput {
  std::string name;  // "input 0", or a parameter's path
  Shape shape;
  double error = 0;    // max |a - n| / max |n|
  double largest = 0;  // max |n|
  Index worst = 0;     // the row-major number of the element of the largest |a - n|, and both sides there
  double analytic = 0, numeric = 0;
  // Where max |n| is no more than what rounding makes of differences, as for the bias of keys, which cannot matter:
  // then |a - n| was held against that rounding instead.
  bool absolute = false;
  bool missing = false;  // no gradient reached it
  bool passed = false;
};

struct GradcheckReport {
  std::vector<GradcheckInput> inputs;
  std::string failure;  // what went wrong before any comparison could be made, as a function that is not deterministic

  bool passed() const;
  explicit operator bool() const { return passed(); }
  double error() const;  // the largest of those that are relative
  // A table, a line for each input, and for one that failed its worst element.
  std::string text() const;
};

// f of Vars of the inputs, which are f64, each given once, and have their bits back afterwards (even where f throws).
GradcheckReport gradcheck(const std::function<Var(std::span<const Var>)>& f, std::span<Tensor* const> inputs,
                          const GradcheckOptions& options = {});

// The same for a lambda of one to four Vars.
template <class F, class... Tensors>
  requires(std::is_same_v<Tensors, Tensor> && ...)
GradcheckReport gradcheck(F&& f, Tensors&... inputs) {
  return gradcheck(GradcheckOptions{}, std::forward<F>(f), inputs...);
}
template <class F, class... Tensors>
  requires(std::is_same_v<Tensors, Tensor> && ...)
GradcheckReport gradcheck(const GradcheckOptions& options, F&& f, Tensors&... inputs) {
  Tensor* const list[] = {&inputs...};
  const auto spread = [&](std::span<const Var> vars) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) { return f(vars[i]...); }
    (std::index_sequence_for<Tensors...>{});
  };
  return gradcheck(spread, list, options);
}

// The gradients of a model's parameters, which are f64 (Cast): f computes with the model, the same each time it is called
// (no dropout). Values are back afterwards.
GradcheckReport gradcheck_parameters(const ParameterList& parameters, const std::function<Var()>& f,
                                     const GradcheckOptions& options = {});

}  // namespace attune
