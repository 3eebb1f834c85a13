// Layer normalisation of the last axis, with a learned gain and shift (Ba, Kiros & Hinton 2016).
#pragma once

#include "attune/autograd/ops.h"
#include "attune/autograd/parameter.h"

namespace attune {

struct LayerNorm {
  Parameter weight, bias;  // [width]: ones and zeros at first
  double epsilon = 1e-5;

  explicit LayerNorm(Index width) : weight(ones({width})), bias(Shape{width}) {}

  // [..., width] -> [..., width]
  Var operator()(Var x) const {
    const Var gain = weight;
    const Var shift = bias;
    return layer_norm(x, gain, shift, epsilon);
  }

  void each(auto&& visit) { visit("weight", weight), visit("bias", bias); }
  void each(auto&& visit) const { visit("weight", weight), visit("bias", bias); }
};

}  // namespace attune
