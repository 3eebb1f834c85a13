#include "attune/layers/optim.h"

namespace attune {
namespace {

void check_share(const char* name, const char* what, double share) {
  check(share >= 0 && share < 1, "{}: {} is {}, and must lie in [0, 1)", name, what, share);
}

kernels::AdamRates adam_rates(const char* name, double beta1, double beta2, double epsilon) {
  check_share(name, "beta1", beta1);
  check_share(name, "beta2", beta2);
  check(epsilon >= 0, "{}: epsilon is {}, and must not be negative", name, epsilon);
  return {beta1, beta2, epsilon};
}

}  // namespace

Sgd::Sgd(const ParameterList& parameters, const SgdOptions& o)
    : Optimizer("sgd", parameters, {o.lr, o.decay, true, o.clip, o.clip_epsilon, o.groups}, o.momentum == 0 ? 0 : 1),
      rates_{o.momentum, o.nesterov} {
  check_share("sgd", "momentum", o.momentum);
  check(!o.nesterov || o.momentum > 0, "sgd: Nesterov's form needs a momentum above 0");
}

void Sgd::move(std::span<const kernels::StepSegment> segments, DType type) { kernels::sgd(segments, rates_, type); }

Adam::Adam(const ParameterList& parameters, const AdamOptions& o)
    : Optimizer("adam", parameters, {o.lr, o.decay, true, o.clip, o.clip_epsilon, o.groups}, 2),
      rates_(adam_rates("adam", o.beta1, o.beta2, o.epsilon)) {}

void Adam::move(std::span<const kernels::StepSegment> segments, DType type) { kernels::adam(segments, rates_, type); }

AdamW::AdamW(const ParameterList& parameters, const AdamWOptions& o)
    : Optimizer("adamw", parameters, {o.lr, o.decay, false, o.clip, o.clip_epsilon, o.groups}, 2),
      rates_(adam_rates("adamw", o.beta1, o.beta2, o.epsilon)) {}

void AdamW::move(std::span<const kernels::StepSegment> segments, DType type) { kernels::adam(segments, rates_, type); }

Lion::Lion(const ParameterList& parameters, const LionOptions& o)
    : Optimizer("lion", parameters, {o.lr, o.decay, false, o.clip, o.clip_epsilon, o.groups}, 1),
      rates_{o.beta1, o.beta2} {
  check_share("lion", "beta1", o.beta1);
  check_share("lion", "beta2", o.beta2);
}

void Lion::move(std::span<const kernels::StepSegment> segments, DType type) { kernels::lion(segments, rates_, type); }

}  // namespace attune
