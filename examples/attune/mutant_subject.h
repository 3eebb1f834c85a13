// A sample as the subject of mutations: its gradients as numbers, and which of its rules can be made wrong.
#pragma once

#include <vector>

#include "attune/autograd/mutant.h"
#include "op_samples.h"

namespace attune::program {

// For each element of the result, the gradients of all inputs for an upstream gradient of 1 there and 0 elsewhere.
using Jacobian = std::vector<std::vector<double>>;

// Of the sample, which it does not own.
class MutantSubject {
 public:
  explicit MutantSubject(OpSample& sample);

  OpSample& sample() { return sample_; }
  const std::vector<MutantTarget>& targets() const { return targets_; }

  Jacobian analytic();                           // by its rules
  Jacobian numeric(double eps);                  // by central differences
  std::vector<double> row(std::size_t element);  // of analytic()
  // The gradients of all inputs where the upstream gradient is zeros, or random numbers.
  std::vector<double> of_zeros();
  std::vector<double> of_random();

  // What dropout draws from: the same at each evaluation.
  static Rng stream() { return Rng(5); }

 private:
  std::vector<Var> variables() const;
  std::vector<double> gradient(const Tensor& upstream);
  std::vector<double> values();

  OpSample& sample_;
  std::vector<MutantTarget> targets_;
  Shape shape_;  // of the result
  Tensor upstream_;
};

}  // namespace attune::program
