// verify: are all gradients of a model right, and to how many digits?
//
//   const VerifyReport report = verify(model, [&] { return cross_entropy(model(ids), targets); });
//   fmt::print("{}\n", report.text());
//
// The model is trained in f32 and verified in f64: its parameters are cast in place, f32 data is converted, and afterwards
// all have their old bits. Dropout drops the same in each pass. Then
//
//   forward      reverse mode in f64 against forward mode in dual: every element of small parameters, and random
//                projections of large ones, with the probability of missing a wrong element
//   differences  reverse mode along a random direction in each parameter against extrapolated differences, with their
//                error bar
//   f32          the gradients of the kernels that train against those in f64: digits
//   each op      every op by itself, on the inputs that it had (autograd/op_checks.h): this names what is wrong
//
// and what the check could not see is said: saturated attention, gradients of zeros, kinks, parameters whose path was cut.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attune/autograd/gradcheck.h"
#include "attune/autograd/op_checks.h"

namespace attune {

struct VerifyOptions {
  Index small = 32;     // parameters of at most so many elements are checked one by one, others by
  int projections = 4;  // so many random projections
  double tolerance = 1e-10;             // on forward mode: the error as a share of the gradient's size
  double differences_tolerance = 1e-7;  // on differences, where their error bar is no larger
  bool training = true;                 // whether dropout drops
  std::uint64_t seed = 0;
};

// What was found for one parameter. Errors are shares: of the largest |element| where every element was compared and
// for f32, and of the gradient's norm along directions.
struct VerifiedParameter {
  std::string name;
  Shape shape;
  Verdict verdict = Verdict::right;
  std::string why = {};  // where it is not right
  bool every_element = false;
  double largest = 0;  // |g|
  double forward_error = 0;
  double differences_error = 0, bar = 0;
  double single_error = 0;  // of f32
  Index zeros = 0;          // elements

  double digits() const;         // that reverse and forward mode share
  double single_digits() const;  // of f32
};

struct VerifyReport {
  std::vector<VerifiedParameter> parameters;  // the trainable ones
  OpChecks ops;
  std::vector<ParameterReport> severed;  // parameters that no gradient reaches, and why
  std::vector<std::string> notes;        // what the check could not see
  Index saturated = 0;                   // rows of attention that no gradient passes: the verdict is then not right
  std::string failure;                   // why nothing could be checked
  // That an element which is off by a thousandth of the largest passes all projections: the largest over parameters.
  double miss_probability = 0;

  bool passed() const { return verdict() != Verdict::wrong; }
  explicit operator bool() const { return passed(); }
  Verdict verdict() const;
  double forward_error() const;      // the largest, and
  double differences_error() const;  // of those that could be told
  std::string text() const;
};

// `loss` computes with the model, on the same data each time; where its result has several numbers, a random sum of them
// is what is differentiated.
VerifyReport verify(const ParameterList& parameters, const std::function<Var()>& loss, const VerifyOptions& options = {});
template <HasParameters Model, class F>
  requires std::is_invocable_r_v<Var, F>
VerifyReport verify(Model& model, F&& loss, const VerifyOptions& options = {}) {
  return verify(ParameterList(model), std::function<Var()>(std::ref(loss)), options);
}

}  // namespace attune
