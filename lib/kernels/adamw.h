// One step of Adam with decoupled weight decay (Kingma & Ba 2015; Loshchilov & Hutter 2019), in one pass over
// memory.
#pragma once

#include <span>

#include "attune/lib/dtype.h"

namespace attune::kernels {

// A run of parameters that share their settings. The four places hold `count` elements each, and do not
// overlap.
struct AdamWSegment {
  void* parameter;
  void* first_moment;
  void* second_moment;
  void* gradient;
  Index count;
  double lr, beta1, beta2, epsilon;
  double decay;               // 0: none
  double correction1 = 1;     // 1 - beta1^t, in the t-th step of these parameters
  double correction2 = 1;     // 1 - beta2^t
  double gradient_scale = 1;  // multiplies the gradient first: how clipping comes in
};

// For each element, with g the scaled gradient:
//   m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g²,
//   p = p - lr decay p,   then   p = p - lr (m / correction1) / (sqrt(v / correction2) + epsilon),
// and the gradient is left at 0. f32 and f64; the factors are computed in double. Throws on other element
// types.
void adamw(std::span<const AdamWSegment> segments, DType type);

}  // namespace attune::kernels
