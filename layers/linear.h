// y = x W + b: an affine map of the last axis.
#pragma once

#include "attune/autograd/ops.h"
#include "attune/layers/initialize.h"

namespace attune {

struct LinearOptions {
  Index in = 0, out = 0;
  bool bias = true;
  Init init = Init::lecun_normal();  // of the weights; the bias starts at 0
};

struct Linear {
  Parameter weight;  // [in, out]
  Parameter bias;    // [out]; does not exist where it is switched off

  // A map that does not exist, as the gate of a perceptron without one: it has no parameters, and cannot be called.
  Linear() = default;
  Linear(const LinearOptions& options, Rng& rng) {
    check(options.in >= 0 && options.out >= 1, "linear: no map from {} to {}", options.in, options.out);
    weight = options.init(options.in, options.out, rng);
    if (options.bias) bias = Parameter(Shape{options.out});
  }
  bool exists() const { return weight.exists(); }

  // [..., in] -> [..., out], of the weight's type.
  Var operator()(Var x) const {
    const Var matrix = weight;
    if (!bias.exists()) return matmul(x, matrix);
    const Var shift = bias;
    return linear(x, matrix, shift);
  }

  void each(auto&& visit) { visit("weight", weight), visit("bias", bias); }
};

}  // namespace attune
