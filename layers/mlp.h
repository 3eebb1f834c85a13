// The transformer's two-layer perceptron, applied to each position alone.
#pragma once

#include "attune/layers/linear.h"

namespace attune {

struct MlpOptions {
  Index width = 0;
  Index hidden = 0;  // 0 stands for 4 * width
  bool bias = true;
  double deviation = 0, out_deviation = 0;  // as in LinearOptions
};

struct Mlp {
  Linear up;    // width -> hidden
  Linear down;  // hidden -> width

  Mlp(const MlpOptions& o, Rng& rng)
      : up({.in = o.width, .out = hidden(o), .bias = o.bias, .deviation = o.deviation}, rng),
        down({.in = hidden(o), .out = o.width, .bias = o.bias, .deviation = o.out_deviation}, rng) {}

  // [..., width] -> [..., width]
  Var operator()(Var x) const { return down(gelu(up(x))); }

  void each(auto&& visit) { visit("up", up), visit("down", down); }
  void each(auto&& visit) const { visit("up", up), visit("down", down); }

 private:
  static Index hidden(const MlpOptions& o) { return o.hidden > 0 ? o.hidden : 4 * o.width; }
};

}  // namespace attune
