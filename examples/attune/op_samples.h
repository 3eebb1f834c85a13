// Every op once, on inputs that an ordinary model would give it: what `attune verify` checks, and draws curves of.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "attune/attune.h"

namespace attune::program {

struct OpSample {
  std::string name;
  std::function<Var(std::span<const Var>)> f;
  std::vector<Tensor> inputs;  // f64; those that have a gradient
};

// In the order of README's table. The numbers are drawn from N(0, 1), away from kinks only as chance has it.
std::vector<OpSample> op_samples();

}  // namespace attune::program
