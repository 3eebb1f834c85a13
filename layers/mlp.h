// The transformer's perceptron, applied to each position alone: down(act(up(x))), or, gated, down(act(gate(x)) * up(x)).
#pragma once

#include "attune/layers/dropout.h"
#include "attune/layers/linear.h"

namespace attune {

// swiglu is the gated form, with silu (Shazeer 2020).
enum class Activation { gelu, gelu_tanh, relu, silu, swiglu };

struct MlpOptions {
  Index width = 0;
  Index hidden = 0;  // 0 stands for 4 * width; gated, for 8/3 of it, which makes as many weights
  Activation activation = Activation::gelu;
  bool bias = true;
  Init init = Init::lecun_normal(), out_init = Init::lecun_normal();
};

struct Mlp {
  Linear up;    // width -> hidden
  Linear gate;  // width -> hidden, of swiglu
  Linear down;  // hidden -> width
  Activation activation;

  Mlp(const MlpOptions& options, Rng& rng);

  // [..., width] -> [..., width]; another width is an error.
  Var operator()(Var x) const;

  void each(auto&& visit) { visit("up", up), visit("gate", gate), visit("down", down); }
};

}  // namespace attune
