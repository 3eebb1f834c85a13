#include "attune/layers/clip.h"

#include <algorithm>
#include <cmath>

#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/kernels/reduce.h"

namespace attune {
namespace {

using State = detail::ParameterState;

bool moves(const State& p) { return p.trainable && p.has_gradient; }

// An element of a gradient cut to -limit ... limit, and whether it had to be.
template <class T>
bool cut(T& number, double limit) {
  const auto bound = static_cast<T>(limit);
  if (number > bound) return number = bound, true;
  if (number < -bound) return number = -bound, true;
  return false;
}
bool cut(dual& number, double limit) {
  if (!cut(number.value, limit)) return false;
  number.tangent = 0;
  return true;
}

}  // namespace

double clip_grad_norm(const ParameterList& parameters, double max_norm, double epsilon) {
  check(max_norm > 0, "clip_grad_norm: a largest norm of {} is not above 0", max_norm);
  check(epsilon >= 0, "clip_grad_norm: an epsilon of {} is below 0", epsilon);
  double squares = 0;
  for (const auto& p : parameters.states())
    if (moves(*p)) squares += kernels::squared_norm(p->gradient);
  const double norm = std::sqrt(squares);
  const double factor = std::min(1.0, max_norm / (norm + epsilon));
  if (norm < HUGE_VAL && factor < 1)
    for (const auto& p : parameters.states())
      if (moves(*p)) kernels::scale(p->gradient, p->gradient, factor);
  return norm;
}

Index clip_grad_value(const ParameterList& parameters, double limit) {
  check(limit > 0, "clip_grad_value: a limit of {} is not above 0", limit);
  Index count = 0;
  for (const auto& p : parameters.states())
    if (moves(*p))
      visit(p->gradient.dtype(), [&]<class T>() {
        T* const numbers = p->gradient.as<T>();
        for (Index i = 0; i < p->gradient.count(); ++i) count += cut(numbers[i], limit);
      });
  return count;
}

}  // namespace attune
