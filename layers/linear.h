// y = x W + b: an affine map of the last axis.
#pragma once

#include <cmath>

#include "attune/autograd/ops.h"
#include "attune/autograd/parameter.h"
#include "attune/lib/random.h"

namespace attune {

// A parameter drawn from N(0, deviation²).
inline Parameter normal_parameter(const Shape& shape, double deviation, Rng& rng) {
  Parameter parameter(shape);
  fill_normal(parameter.mutable_value(), rng, 0, deviation);
  return parameter;
}

struct LinearOptions {
  Index in = 0, out = 0;
  bool bias = true;
  double deviation = 0;  // of the initial weights; 0 stands for 1 / sqrt(in), which keeps the scale of x
};

struct Linear {
  Parameter weight;  // [in, out]
  Parameter bias;    // [out], zeros at first; does not exist where it is switched off

  Linear(const LinearOptions& options, Rng& rng) {
    check(options.in >= 0 && options.out >= 1, "linear: no map from {} to {}", options.in, options.out);
    const double fan_in = static_cast<double>(options.in > 0 ? options.in : 1);
    const double deviation = options.deviation > 0 ? options.deviation : 1 / std::sqrt(fan_in);
    weight = normal_parameter({options.in, options.out}, deviation, rng);
    if (options.bias) bias = Parameter(Shape{options.out});
  }

  // [..., in] -> [..., out]
  Var operator()(Var x) const {
    Var y = matmul(x, weight);
    return bias.exists() ? y + bias : y;
  }

  void each(auto&& visit) { visit("weight", weight), visit("bias", bias); }
  void each(auto&& visit) const { visit("weight", weight), visit("bias", bias); }
};

}  // namespace attune
