// Optimizers, clipping and schedules.
#pragma once

#include <vector>

#include "attune/autograd/parameter.h"
#include "attune/lib/kernels/adamw.h"

namespace attune {

// Scales all gradients of the model by min(1, max_norm / norm), where norm is their length as one vector, summed in
// double. Returns the norm before. Where it is not finite nothing is scaled. Throws where max_norm is not above 0.
double clip_grad_norm(const ParameterList& parameters, double max_norm);
template <class Model>
double clip_grad_norm(Model& model, double max_norm) {
  return clip_grad_norm(ParameterList(model), max_norm);
}

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double decay = 0.01;  // decoupled; reaches trainable parameters of rank 2 and more whose decay is not switched off
  double clip = 0;      // the gradients' norm is cut to this; 0: it is not
};

// Adam with decoupled weight decay (Kingma & Ba 2015; Loshchilov & Hutter 2019). The bias corrections count the steps of
// each parameter; epsilon stands outside of the root, after the correction.
class AdamW {
 public:
  template <class Model>
  explicit AdamW(Model& model, const AdamWOptions& options = {}) : AdamW(ParameterList(model), options) {}
  AdamW(const ParameterList& parameters, const AdamWOptions& options);

  // Moves every trainable parameter that has a gradient, and consumes the gradients: zeros are left. Where their norm is
  // not finite nothing moves, and the step counts as skipped.
  void step();

  double lr() const { return options_.lr; }
  void set_lr(double lr);
  // The gradients' norm at the last step, before clipping, and how many steps were skipped for its sake.
  double grad_norm() const { return grad_norm_; }
  Index skipped() const { return skipped_; }

 private:
  struct Slot {
    std::shared_ptr<detail::ParameterState> parameter;
    View first_moment, second_moment;
    Index steps = 0;
  };

  AdamWOptions options_;
  Tensor moments_;
  std::vector<Slot> slots_;
  std::vector<kernels::AdamWSegment> segments_;  // kept between steps for its memory
  DType dtype_ = f32;
  double grad_norm_ = 0;
  Index skipped_ = 0;
};

// The learning rate of step t = 0, 1, ...: up in a line over `warmup` steps, down along half a cosine until `total`, then
// min_lr. A warm-up of 0 starts at lr.
struct WarmupCosine {
  double lr = 1e-3, min_lr = 0;
  Index warmup = 0, total = 1;

  double operator()(Index step) const;
};

}  // namespace attune
