#include "attune/layers/mlp.h"

namespace attune {
namespace {

bool is_gated(const MlpOptions& o) { return o.activation == Activation::swiglu; }

Index hidden(const MlpOptions& o) {
  check(o.hidden >= 0, "mlp: a hidden width of {} is negative", o.hidden);
  if (o.hidden > 0) return o.hidden;
  return is_gated(o) ? (8 * o.width + 2) / 3 : 4 * o.width;
}

Linear up(const MlpOptions& o, Rng& rng) {
  return Linear({.in = o.width, .out = hidden(o), .bias = o.bias, .init = o.init}, rng);
}

}  // namespace

Mlp::Mlp(const MlpOptions& o, Rng& rng)
    : up(attune::up(o, rng)),
      gate(is_gated(o) ? attune::up(o, rng) : Linear()),
      down({.in = hidden(o), .out = o.width, .bias = o.bias, .init = o.out_init}, rng),
      activation(o.activation) {}

Var Mlp::operator()(Var x) const {
  const Var above = up(x);
  switch (activation) {
    case Activation::gelu: return down(gelu(above));
    case Activation::gelu_tanh: return down(gelu_tanh(above));
    case Activation::relu: return down(relu(above));
    case Activation::silu: return down(silu(above));
    case Activation::swiglu: break;
  }
  const Var opened = silu(gate(x));
  return down(opened * above);
}

}  // namespace attune
