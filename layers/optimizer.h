// What all optimizers have in common: groups of parameters, clipping, steps that are skipped, state that is saved. The
// rules themselves are in layers/optim.h. One's own is a class that derives from Optimizer and says how to move.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attune/autograd/parameter.h"
#include "attune/layers/state.h"
#include "attune/lib/kernels/optimizer_steps.h"

namespace attune {

// Parameters with settings of their own, chosen by their paths: "*" stands for any characters, as in "token.*",
// "*.bias", "blocks.0.*". A parameter belongs to the first group that matches it, or else to the rest.
struct ParameterGroup {
  std::string match;
  double lr_scale = 1;  // its rate, in units of the optimizer's
  // For all of its parameters, of whatever rank, but those that have decay switched off; else as the optimizer's.
  std::optional<double> decay = {};
};

// What an optimizer does with some of its parameters: those of one rate and one decay.
struct GroupReport {
  double lr, decay;
  std::vector<std::string> names;  // each once, however often its parameter is used
};

// A gradient that was not finite, and made the step be skipped.
struct BadGradient {
  std::string parameter;
  Index nans, infinities, count;  // of that many elements
};

// It shares the parameters' memory, so the model may move, or go first. Building one flattens the model (flatten()) and
// names its parameters. A group that matches nothing is a std::invalid_argument that names what it may have meant.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(Optimizer&&) noexcept = default;
  Optimizer& operator=(Optimizer&&) noexcept = default;

  // Moves every trainable parameter that has a gradient, and consumes the gradients: zeros are left. The gradients are
  // divided by `divisor` first, the number of terms that they are sums over (see layers/accumulate.h). Where their norm
  // is not finite nothing moves and nothing is remembered, and the step counts as skipped.
  void step(double divisor = 1);

  // The base rate. Groups follow it in proportion.
  double lr() const { return settings_.lr; }
  void set_lr(double lr);

  // The norm of the divided gradients at the last step, before clipping.
  double grad_norm() const { return grad_norm_; }
  // How many steps were skipped, and why the last of these was: the parameters whose gradients were not finite (none
  // where only their norm was too large for a double), and the same as a sentence.
  Index skipped() const { return skipped_; }
  const std::vector<BadGradient>& bad_gradients() const { return bad_gradients_; }
  std::string why_skipped() const;

  // All trainable parameters, by what is done with them: first the groups as they were given, then the rest, those that
  // decay before those that do not.
  std::vector<GroupReport> groups() const;

  // The rate, what is remembered of each parameter and its number of steps, but no settings.
  void visit_state(StateVisitor& state);

 protected:
  struct Settings {
    double lr;
    double decay;           // of parameters of rank 2 and more that have it not switched off
    bool coupled_decay;     // whether decay is part of the gradient (L2) or apart from it
    double clip;            // the gradients' norm is cut to this; 0: it is not
    double clip_epsilon;    // added to the norm that clipping divides by
    std::vector<ParameterGroup> groups;
  };

  // `name` starts the messages, and `slots` is how many numbers (0 to 2) are remembered of each parameter's.
  Optimizer(const char* name, const ParameterList& parameters, const Settings& settings, int slots);

  // Moves the parameters of these segments, and leaves their gradients at 0.
  virtual void move(std::span<const kernels::StepSegment> segments, DType type) = 0;

 private:
  struct Slot {
    std::shared_ptr<detail::ParameterState> parameter;
    std::string name;
    std::size_t group = 0;  // in settings_.groups; one beyond them is the rest
    View memory[2];
    Index steps = 0;
  };

  void assign_groups();
  void allocate(int slots);
  double group_lr(std::size_t group) const;
  double decay_of(const Slot& slot) const;
  double gradient_norm() const;
  void skip();
  kernels::StepSegment segment_of(Slot& slot, double gradient_scale) const;

  const char* name_;
  Settings settings_;
  int slots_per_parameter_;
  DType dtype_ = f32;
  Tensor memory_;
  std::vector<Slot> slots_;
  std::vector<kernels::StepSegment> segments_;  // kept between steps for its memory
  double grad_norm_ = 0;
  Index skipped_ = 0;
  std::vector<BadGradient> bad_gradients_;
};

}  // namespace attune
