#include "attune/layers/accumulate.h"

#include <algorithm>
#include <utility>

namespace attune {

Index count_targets(const ConstView& targets, Index ignored) {
  check(targets.dtype() == i32, "count_targets: targets are i32, not {}", targets.dtype());
  const Tensor dense = Tensor::copy_of(targets);
  const auto all = dense.data<std::int32_t>();
  return static_cast<Index>(all.size()) - std::ranges::count(all, ignored);
}

void Accumulation::add(Tape& tape, Var summed_loss, Index count) {
  check(count >= 0, "accumulation: {} targets", count);
  const double loss = summed_loss.item();
  if (count == 0) return;
  tape.backward(summed_loss);
  loss_ += loss;
  count_ += count;
}

std::optional<double> Accumulation::step(Optimizer& optimizer) {
  const auto count = static_cast<double>(std::exchange(count_, 0));
  const double loss = std::exchange(loss_, 0);
  if (count == 0) return std::nullopt;
  optimizer.step(count);
  return loss / count;
}

}  // namespace attune
