#include "attune/layers/schedule.h"

#include <algorithm>
#include <cmath>

#include "attune/lib/math.h"

namespace attune {
namespace {

// The first phase of a schedule that warms up, or what `then` makes of the share of the second that is over.
template <class F>
double warm_up(double lr, double min_lr, Index warmup, Index total, Index step, F&& then) {
  step = std::max<Index>(step, 0);
  const auto t = static_cast<double>(step);
  if (step < warmup) return lr * (t + 1) / static_cast<double>(warmup);
  if (step >= total) return min_lr;
  return then((t - static_cast<double>(warmup)) / static_cast<double>(total - warmup));
}

}  // namespace

double WarmupCosine::operator()(Index step) const {
  constexpr double pi = 3.14159265358979323846;
  return warm_up(lr, min_lr, warmup, total, step,
                 [&](double over) { return min_lr + (lr - min_lr) / 2 * (1 + math::cos(pi * over)); });
}

double WarmupLinear::operator()(Index step) const {
  return warm_up(lr, min_lr, warmup, total, step, [&](double over) { return min_lr + (lr - min_lr) * (1 - over); });
}

double InverseSquareRoot::operator()(Index step) const {
  const auto n = static_cast<double>(std::max<Index>(step, 0) + 1);
  const auto up = static_cast<double>(warmup);
  const double rate = warmup > 0 ? std::min(1 / std::sqrt(n), n / (up * std::sqrt(up))) : 1 / std::sqrt(n);
  return factor / std::sqrt(static_cast<double>(std::max<Index>(width, 1))) * rate;
}

double StepDecay::operator()(Index step) const {
  if (every < 1) return lr;
  double rate = lr, power = factor;
  for (Index times = std::max<Index>(step, 0) / every; times > 0; times /= 2, power *= power)
    if (times % 2) rate *= power;
  return rate;
}

}  // namespace attune
