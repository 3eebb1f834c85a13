// One uniform check for every layer, as op_check.h has one for every op. A test says how the layer is made,
// how it is called, what it should compute in plain double, and on which inputs:
//
//   check_layer({.name = "Linear", .inputs = {real({2, 5, 4})}},
//               [] { Rng rng(1); return Linear({.in = 4, .out = 3}, rng); },
//               [](const Linear& layer, Vars x) { return layer(x[0]); },
//               [](const Linear& layer, Plains x) { return affine(x[0], layer); });
//
// The figures stand in the table of the ops, in the columns that mean something for a layer:
//
//   values     f64 against the reference
//   f32        f32 against f64: values, and gradients of inputs and parameters
//   gradcheck  reverse mode against differences in f64: inputs and parameters
//   dual       reverse mode against forward mode, along one direction in all inputs and parameters
//   strided    each input as a window, as every other element, with axes reversed: the same bits
//   adds       backward twice: parameters have the sum of both gradients
//   rows       every instruction set, on 1, 2 and 3 threads, f32, f64 and dual, values and all gradients: the
//   same bits errors     messages, to the letter
//
// The other columns have a dash, whose reason stands below the table.
#pragma once

#include <memory>

#include "../lib/kernel_check.h"
#include "attune/autograd/parameter.h"
#include "op_check.h"

namespace attune::check_layers {

using check_ops::Plain;
using Vars = std::span<const Var>;
using Plains = std::span<const Plain>;

struct LayerCase {
  std::string name;
  check_ops::Inputs inputs = {};
  std::vector<check_ops::Refusal> errors = {};

  bool draws = false;  // random numbers in training, so that differences see another function at each call
  bool under_nograd = false;  // it has no gradients
  Index larger =
      40;  // how much more of the first axis the rows see, so that threads have work; 1: it is fixed
  double f32_bound = 2e-6;  // on max |f32 - f64| / max |f64|, of values and of each gradient

  // What completed() fills in: the layer of an element type, called; its parameters; and the reference.
  std::function<Var(DType, Vars)> f = {};
  std::function<ParameterList(DType)> parameters = {};
  std::function<Plain(Plains)> reference = {};
};

// What each check may be off by, relative to the largest element; of gradients and dual as for ops.
inline constexpr double kValueBound = 1e-13;
inline constexpr double kAddsBound = 1e-14;

// Runs every check, and asserts nothing.
check_ops::OpReport examine(const LayerCase& layer);

// Runs every check; each failure fails the test that called. The figures go into the table.
void check_layer(const LayerCase& layer);

// Three copies of a layer with the same numbers, one for each element type. Gains and biases are moved away
// from 1 and 0, and the duals' tangents are a random direction.
template <class Layer>
class Copies {
 public:
  template <class Make>
  explicit Copies(Make make) : single_(varied(make())), twice_(varied(make())), dual_(varied(make())) {
    std::uint64_t seed = 500;
    for_each_parameter(dual_, [&](const std::string&, Parameter& p) {
      const Tensor value = Tensor::copy_of(p.value()).to(f64);
      kernels::copy(p.mutable_value(),
                    check_kernels::dual_of(value, check_kernels::random(p.shape(), f64, ++seed)));
    });
  }
  const Layer& of(DType dtype) const { return dtype == f32 ? single_ : dtype == f64 ? twice_ : dual_; }
  ParameterList parameters(DType dtype) {
    return ParameterList(dtype == f32 ? single_ : dtype == f64 ? twice_ : dual_);
  }

 private:
  static Layer varied(Layer layer) {
    std::uint64_t seed = 100;
    for_each_parameter(layer, [&](const std::string&, Parameter& p) {
      if (p.shape().rank() != 1) return;
      const Tensor shift = check_kernels::random(p.shape(), f32, ++seed, -0.2, 0.2);
      kernels::copy(Out(p.mutable_value(), true), shift);
    });
    return layer;
  }

  Layer single_, twice_, dual_;
  Cast to_f64_{twice_, f64}, to_dual_{dual_, DType::dual};
};

template <class Make, class Call, class InPlain>
LayerCase completed(LayerCase layer, Make make, Call call, InPlain reference) {
  const auto copies = std::make_shared<Copies<decltype(make())>>(make);
  layer.f = [=](DType dtype, Vars x) { return call(copies->of(dtype), x); };
  layer.parameters = [=](DType dtype) { return copies->parameters(dtype); };
  layer.reference = [=](Plains x) { return reference(copies->of(f64), x); };
  return layer;
}
template <class Make, class Call, class InPlain>
void check_layer(const LayerCase& layer, Make make, Call call, InPlain reference) {
  check_layer(completed(layer, make, call, reference));
}

}  // namespace attune::check_layers
