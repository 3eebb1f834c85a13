// Forward-mode differentiation (Wengert 1964), and with it exact second derivatives.
//
//   const Derivative d = jvp([](Var x) { return softmax(x); }, x, v);        // d.value, and d.tangent = J v
//   const std::vector<Tensor> v = random_direction(model, 1);
//   const HessianProduct h = hvp([&] { return cross_entropy(model(ids), targets); }, model, v);   // h.product = H v
//
// Everything is computed in dual numbers, f64 twice, through the very ops and layers that train. A function of f32 data is
// welcome as it stands: its constants are converted, and a model's parameters are cast in place and have their old bits
// afterwards, also where the function throws. Tangents are cut where gradients are: at detach, at constants, and at
// parameters that are not trainable. NoGrad does not cut them.
//
// A Hessian-vector product is forward mode over reverse mode (Pearlmutter 1994): the price of a few gradients, whatever
// the number of parameters, and no step size.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "attune/autograd/parameter.h"
#include "attune/autograd/tape.h"

namespace attune {

struct ForwardOptions {
  bool training = true;    // whether dropout drops
  std::uint64_t seed = 0;  // of what it drops: the same each time
};

// Both f64, of the shape of f's result.
struct Derivative {
  Tensor value, tangent;
};

struct HessianProduct {
  double loss = 0;
  double slope = 0;              // g·v, by forward mode
  std::vector<Tensor> gradient;  // g, and
  std::vector<Tensor> product;   // H v: f64, each of the shape of its input
};

using FunctionOfVars = std::function<Var(std::span<const Var>)>;

// f at x, along v: f32 or f64 inputs, and for each a direction of its shape.
Derivative jvp(const FunctionOfVars& f, std::span<const Tensor> x, std::span<const Tensor> v,
               const ForwardOptions& options = {});
// The Hessian of f, whose result is a single number, at x, times v.
HessianProduct hvp(const FunctionOfVars& f, std::span<const Tensor> x, std::span<const Tensor> v,
                   const ForwardOptions& options = {});

// The same for what f computes with a model: v has a direction for each parameter, in the order of each().
Derivative jvp(const std::function<Var()>& f, const ParameterList& parameters, std::span<const Tensor> v,
               const ForwardOptions& options = {});
HessianProduct hvp(const std::function<Var()>& loss, const ParameterList& parameters, std::span<const Tensor> v,
                   const ForwardOptions& options = {});

// A direction for each parameter, f64, of independent normal numbers.
std::vector<Tensor> random_direction(const ParameterList& parameters, std::uint64_t seed);

// -- For a function of one Var, and for a model instead of its list.

template <class F>
  requires std::is_invocable_r_v<Var, F, Var>
Derivative jvp(F&& f, const Tensor& x, const Tensor& v, const ForwardOptions& options = {}) {
  return jvp([&](std::span<const Var> vars) { return f(vars[0]); }, std::span(&x, 1), std::span(&v, 1), options);
}
template <class F>
  requires std::is_invocable_r_v<Var, F, Var>
HessianProduct hvp(F&& f, const Tensor& x, const Tensor& v, const ForwardOptions& options = {}) {
  return hvp([&](std::span<const Var> vars) { return f(vars[0]); }, std::span(&x, 1), std::span(&v, 1), options);
}

template <class Model>
concept HasParameters = requires(std::remove_const_t<Model>& model) { model.each([](const std::string&, auto&) {}); };

template <class F, HasParameters Model>
  requires std::is_invocable_r_v<Var, F>
Derivative jvp(F&& f, Model& model, std::span<const Tensor> v, const ForwardOptions& options = {}) {
  return jvp(std::function<Var()>(std::ref(f)), ParameterList(model), v, options);
}
template <class F, HasParameters Model>
  requires std::is_invocable_r_v<Var, F>
HessianProduct hvp(F&& loss, Model& model, std::span<const Tensor> v, const ForwardOptions& options = {}) {
  return hvp(std::function<Var()>(std::ref(loss)), ParameterList(model), v, options);
}
template <HasParameters Model>
std::vector<Tensor> random_direction(Model& model, std::uint64_t seed) {
  return random_direction(ParameterList(model), seed);
}

// -- Dual numbers as two arrays of f64.

Tensor dual_of(const ConstView& value, const ConstView& tangent);
Tensor values_of(const ConstView& x);    // also of f32 and f64, as they are
Tensor tangents_of(const ConstView& x);  // zeros of those

}  // namespace attune
