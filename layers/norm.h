// Normalisation of the last axis, with learned gains. A last axis of another width is an error.
#pragma once

#include <variant>

#include "attune/autograd/ops.h"
#include "attune/autograd/parameter.h"

namespace attune {

// To mean 0 and variance 1, then a gain and a shift (Ba, Kiros & Hinton 2016).
struct LayerNorm {
  Parameter weight, bias;  // [width]: ones and zeros at first
  double epsilon = 1e-5;

  explicit LayerNorm(Index width, double small = 1e-5) : weight(ones({width})), bias(Shape{width}), epsilon(small) {}

  // [..., width] -> [..., width]
  Var operator()(Var x) const {
    const Var gain = weight;
    const Var shift = bias;
    return layer_norm(x, gain, shift, epsilon);
  }

  void each(auto&& visit) { visit("weight", weight), visit("bias", bias); }
};

// To a mean square of 1, then a gain (Zhang & Sennrich 2019).
struct RmsNorm {
  Parameter weight;  // [width]: ones at first
  double epsilon = 1e-6;

  explicit RmsNorm(Index width, double small = 1e-6) : weight(ones({width})), epsilon(small) {}

  // [..., width] -> [..., width]
  Var operator()(Var x) const { return rms_norm(x, weight, epsilon); }

  void each(auto&& visit) { visit("weight", weight); }
};

enum class Normalize { layer, rms };

// Either of them, chosen by the model's options.
struct Norm {
  std::variant<LayerNorm, RmsNorm> kind;

  explicit Norm(Index width, Normalize how = Normalize::layer)
      : kind(how == Normalize::layer ? decltype(kind)(LayerNorm(width)) : decltype(kind)(RmsNorm(width))) {}

  Var operator()(Var x) const {
    return std::visit([&](const auto& norm) { return norm(x); }, kind);
  }

  void each(auto&& visit) {
    std::visit([&](auto& norm) { norm.each(visit); }, kind);
  }
};

}  // namespace attune
