// Gradient accumulation: several micro-batches, one step, as if they had been one batch.
//
//   Accumulation window;
//   for (const Batch& batch : micro_batches) {
//     Tape tape;
//     Var loss = cross_entropy(model(batch.inputs), batch.targets, {.reduction = Reduction::sum});
//     window.add(tape, loss, count_targets(batch.targets));
//   }
//   if (const auto loss = window.step(optimizer)) log(*loss);
//
// Losses are summed over their targets, and the step divides by how many targets there were in all: micro-batches of
// few targets do not weigh more for it, as they do in a mean of means. A window ends where step() is called, so the last
// one of an epoch, with fewer micro-batches, is as right as any other.
#pragma once

#include <optional>

#include "attune/autograd/tape.h"
#include "attune/layers/optimizer.h"

namespace attune {

// How many targets, i32 of any shape, are not `ignored`.
Index count_targets(const ConstView& targets, Index ignored = -100);

class Accumulation {
 public:
  // Adds the gradient of a sum over `count` targets to what the parameters have. Where `count` is 0 it adds nothing.
  void add(Tape& tape, Var summed_loss, Index count);

  // Steps with the gradient of the mean over all targets since the last step, and returns that mean: the loss that was
  // trained. Where there was no target it makes no step and returns nothing. Either way a new window begins.
  std::optional<double> step(Optimizer& optimizer);

  // Of the window so far.
  double summed_loss() const { return loss_; }
  Index count() const { return count_; }

 private:
  double loss_ = 0;
  Index count_ = 0;
};

}  // namespace attune
