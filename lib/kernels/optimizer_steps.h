// What optimizers do to a parameter, in one pass over memory: stochastic gradient descent, Adam and Lion.
//
// A step is told as segments, runs of numbers that share their settings. For each element, with the gradient first
// scaled and then joined by the coupled decay,
//   g = gradient_scale gradient + coupled_decay p,
// the rule says how far p moves, and
//   p = p - lr decay p - move;
// the gradient is left at 0. f32 and f64; the factors are computed in double. Throws on other element types.
#pragma once

#include <span>

#include "attune/lib/dtype.h"

namespace attune::kernels {

// The places hold `count` elements each, and do not overlap.
struct StepSegment {
  void* parameter;
  void* gradient;
  void* slots[2] = {nullptr, nullptr};  // what the rule remembers from step to step, zeros at first
  Index count;
  Index step = 1;             // t: this is the t-th step of these parameters
  double lr;
  double decay = 0;           // decoupled: shrinks p before it moves
  double coupled_decay = 0;   // L2: the gradient of coupled_decay p² / 2 is added to g
  double gradient_scale = 1;  // how clipping and the number of summed terms come in
};

// Descent with momentum (Polyak 1964; Sutskever et al. 2013 for Nesterov's): m = momentum m + g in the first slot,
//   move = lr m,   or, Nesterov's,   move = lr (g + momentum m).
// Without momentum it needs no slot, and move = lr g.
struct SgdRates {
  double momentum = 0;
  bool nesterov = false;
};
void sgd(std::span<const StepSegment> segments, const SgdRates& rates, DType type);

// Adam (Kingma & Ba 2015; with `decay`, Loshchilov & Hutter 2019): m and v in the two slots,
//   m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g²,
//   move = lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).
struct AdamRates {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};
void adam(std::span<const StepSegment> segments, const AdamRates& rates, DType type);

// Lion (Chen et al. 2023): m in the first slot,
//   move = lr sign(beta1 m + (1 - beta1) g),   then   m = beta2 m + (1 - beta2) g;
// the sign of 0 is 0.
struct LionRates {
  double beta1 = 0.9, beta2 = 0.99;
};
void lion(std::span<const StepSegment> segments, const LionRates& rates, DType type);

}  // namespace attune::kernels
