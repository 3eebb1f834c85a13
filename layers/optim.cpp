#include "attune/layers/optim.h"

#include <cmath>
#include <cstring>

#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/kernels/reduce.h"
#include "attune/lib/math.h"

namespace attune {
namespace {

using State = detail::ParameterState;

bool moves(const State& p) { return p.trainable && p.has_gradient; }

double grad_norm(const std::vector<std::shared_ptr<State>>& states) {
  double squares = 0;
  for (const auto& p : states)
    if (moves(*p)) squares += kernels::squared_norm(p->gradient);
  return std::sqrt(squares);
}

// std::isfinite may be folded away under other people's flags; a comparison with infinity is not.
bool is_finite(double x) { return std::abs(x) < HUGE_VAL; }

// beta^t by repeated squaring: std::pow's last bit depends on the machine's libm.
double power(double base, Index exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2) result *= base;
  return result;
}

void consume(State& p) {
  kernels::fill(p.gradient, 0);
  p.has_gradient = false;
}

}  // namespace

double clip_grad_norm(const ParameterList& parameters, double max_norm) {
  check(max_norm > 0, "clip_grad_norm: a largest norm of {} is not above 0", max_norm);
  const double norm = grad_norm(parameters.states());
  if (is_finite(norm) && norm > max_norm)
    for (const auto& p : parameters.states())
      if (moves(*p)) kernels::scale(p->gradient, p->gradient, max_norm / norm);
  return norm;
}

AdamW::AdamW(const ParameterList& parameters, const AdamWOptions& options) : options_(options) {
  set_lr(options.lr);
  check(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1,
        "adamw: beta1 {} and beta2 {} must lie in [0, 1)", options.beta1, options.beta2);
  check(options.epsilon >= 0 && options.decay >= 0 && options.clip >= 0,
        "adamw: epsilon {}, decay {} and clip {} must not be negative", options.epsilon, options.decay, options.clip);
  flatten(parameters);
  const auto& states = parameters.states();
  if (states.empty()) return;
  dtype_ = states.front()->value.dtype();
  Index total = 0;
  const Index line = static_cast<Index>(kAlignment) / size_of(dtype_);
  const auto padded = [&](const State& p) { return (p.value.count() + line - 1) / line * line; };
  for (const auto& p : states) {
    check(p->value.dtype() == dtype_, "adamw: parameters of {} and of {}", dtype_, p->value.dtype());
    total += padded(*p);
  }
  moments_ = Tensor({2, total}, dtype_);
  Index next = 0;
  for (const auto& p : states) {
    const View both = moments_.view().slice(1, next, next + p->value.count());
    slots_.push_back({p, both.select(0, 0), both.select(0, 1)});
    next += padded(*p);
  }
}

void AdamW::set_lr(double lr) {
  check(lr >= 0 && is_finite(lr), "adamw: a learning rate of {} is no rate", lr);
  options_.lr = lr;
}

void AdamW::step() {
  double squares = 0;
  for (const Slot& slot : slots_) {
    if (!moves(*slot.parameter)) continue;
    check(slot.parameter->value.dtype() == dtype_, "adamw: {} is {} now, and was {} when this optimizer was made",
          slot.parameter->name, slot.parameter->value.dtype(), dtype_);
    squares += kernels::squared_norm(slot.parameter->gradient);
  }
  grad_norm_ = std::sqrt(squares);
  if (!is_finite(grad_norm_)) {
    ++skipped_;
    for (const Slot& slot : slots_)
      if (slot.parameter->has_gradient) consume(*slot.parameter);
    return;
  }
  const double clip = options_.clip > 0 && grad_norm_ > options_.clip ? options_.clip / grad_norm_ : 1;
  segments_.clear();
  for (Slot& slot : slots_) {
    State& p = *slot.parameter;
    if (!moves(p)) continue;
    ++slot.steps;
    segments_.push_back({.parameter = p.value.data(),
                         .first_moment = slot.first_moment.data(),
                         .second_moment = slot.second_moment.data(),
                         .gradient = p.gradient.data(),
                         .count = p.value.count(),
                         .lr = options_.lr,
                         .beta1 = options_.beta1,
                         .beta2 = options_.beta2,
                         .epsilon = options_.epsilon,
                         .decay = p.decay && p.value.rank() >= 2 ? options_.decay : 0,
                         .correction1 = 1 - power(options_.beta1, slot.steps),
                         .correction2 = 1 - power(options_.beta2, slot.steps),
                         .gradient_scale = clip});
    ++p.version;
    p.has_gradient = false;
  }
  kernels::adamw(segments_, dtype_);
}

double WarmupCosine::operator()(Index step) const {
  const auto t = static_cast<double>(step);
  if (step < warmup) return lr * (t + 1) / static_cast<double>(warmup);
  if (step >= total) return min_lr;
  constexpr double pi = 3.14159265358979323846;
  const double progress = (t - static_cast<double>(warmup)) / static_cast<double>(total - warmup);
  return min_lr + (lr - min_lr) / 2 * (1 + math::cos(pi * progress));
}

}  // namespace attune
