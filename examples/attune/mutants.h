// The checker is itself checked: every gradient rule of every op is made wrong in every way that applies to it, and
// each of these mutants must be caught. They are generated from what the rules write and read (autograd/mutant.h), for
// the samples that `attune verify` checks, and judged by the same checks.
//
// What a rule writes tells which mutants it can have, but for two kinds: a mask or a scale is there only where an op's
// formula has one, so that the samples of those ops are listed. No mutant took an edit of the source.
//
// A mutant that computes the same is not wrong: the rows of its Jacobian, one for each element of the result, must then
// be those of the right rule, bit for bit. A rule is linear in the gradient that it is given, so that this is a proof,
// for the sample's inputs.
//
// Beside it stands what PyTorch's gradcheck would say at its defaults (2.x; eps 1e-6, atol 1e-5, rtol 1e-3): each
// element of the Jacobian, by reverse mode and by central differences in f64, |a - n| <= atol + rtol |n|; and a
// gradient of zeros must give zeros.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attune/examples/show/terminal.h"
#include "op_samples.h"

namespace attune::program {

struct MutantVerdict {
  std::string kind, sample, op;
  int which, input;    // the op's number on the sample's tape, and whose gradient is wrong
  std::string detail;  // "x 1.001", "the value of input 0"
  enum class Fate { caught, equal, escaped } fate;
  double error;       // at which it was seen, as a share of the largest number in the true gradient
  bool alone;         // seen by no gradcheck, but by the op's check alone (op_checks.h)
  bool peers_passes;  // PyTorch's gradcheck

  std::string text() const;
};

struct MutantReport {
  std::vector<MutantVerdict> mutants;
  std::vector<std::string> kinds;     // in the order of the table
  std::vector<std::string> composed;  // samples whose ops are all other samples' ops, or views, which have no rule
  std::vector<std::string> wrong;     // samples that do not pass, by either check, without any mutant

  bool passed() const;
  std::string text(const show::Terminal& out) const;
  std::string json() const;
};

// Of these samples; done(i) after each.
MutantReport check_mutants(std::vector<OpSample>& samples, const std::function<void(std::size_t)>& done);

// The checks that `attune verify` makes of a sample: gradcheck, and each of its ops alone.
struct SampleChecks {
  GradcheckReport gradients;
  OpChecks ops;

  bool passed() const { return gradients.passed() && ops.passed(); }
};
SampleChecks check_sample(OpSample& sample);

}  // namespace attune::program
