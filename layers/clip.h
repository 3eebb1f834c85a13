// Clipping: what keeps one bad batch from throwing a model off. Parameters that are frozen, or have no gradient, are
// left out.
#pragma once

#include "attune/autograd/parameter.h"

namespace attune {

// Scales all gradients of the model by min(1, max_norm / (norm + epsilon)), where norm is their length as one vector,
// summed in double (Pascanu et al. 2013). Returns the norm before; 0 where there is no gradient. Where it is not finite
// nothing is scaled. Throws where max_norm is not above 0. PyTorch has an epsilon of 1e-6.
double clip_grad_norm(const ParameterList& parameters, double max_norm, double epsilon = 0);
template <class Model>
double clip_grad_norm(Model& model, double max_norm, double epsilon = 0) {
  return clip_grad_norm(ParameterList(model), max_norm, epsilon);
}

// Cuts every element of every gradient to -limit ... limit; an infinity becomes the limit, a NaN stays. Returns how
// many were cut. Throws where the limit is not above 0.
Index clip_grad_value(const ParameterList& parameters, double limit);
template <class Model>
Index clip_grad_value(Model& model, double limit) {
  return clip_grad_value(ParameterList(model), limit);
}

}  // namespace attune
