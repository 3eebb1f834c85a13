// The optimizers: rules by which parameters follow their gradients.
//
// In all of them `decay` reaches trainable parameters of rank 2 and more (matrices and embeddings, not biases or gains)
// whose decay is not switched off, unless a group says otherwise; a parameter without a gradient is left alone, decay
// included; and `clip` cuts the norm of all gradients together, as clip_grad_norm does.
#pragma once

#include "attune/layers/clip.h"
#include "attune/layers/optimizer.h"
#include "attune/layers/schedule.h"

namespace attune {

struct SgdOptions {
  double lr = 1e-2;
  double momentum = 0;
  bool nesterov = false;
  double decay = 0;  // L2: part of the gradient, as in PyTorch
  double clip = 0, clip_epsilon = 0;
  std::vector<ParameterGroup> groups = {};
};

// Descent, with momentum m = momentum m + g (not damped), and in Nesterov's form (Sutskever et al. 2013).
class Sgd : public Optimizer {
 public:
  template <class Model>
  explicit Sgd(Model& model, const SgdOptions& options = {}) : Sgd(ParameterList(model), options) {}
  Sgd(const ParameterList& parameters, const SgdOptions& options = {});

 private:
  void move(std::span<const kernels::StepSegment> segments, DType type) override;
  kernels::SgdRates rates_;
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double decay = 0;  // L2: part of the gradient, as in PyTorch; AdamW is the one that is meant to decay
  double clip = 0, clip_epsilon = 0;
  std::vector<ParameterGroup> groups = {};
};

// Kingma & Ba 2015. The bias corrections count the steps of each parameter; epsilon stands outside of the root, after
// the correction.
class Adam : public Optimizer {
 public:
  template <class Model>
  explicit Adam(Model& model, const AdamOptions& options = {}) : Adam(ParameterList(model), options) {}
  Adam(const ParameterList& parameters, const AdamOptions& options = {});

 private:
  void move(std::span<const kernels::StepSegment> segments, DType type) override;
  kernels::AdamRates rates_;
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double decay = 0.01;  // decoupled: p = p - lr decay p, before p moves
  double clip = 0, clip_epsilon = 0;
  std::vector<ParameterGroup> groups = {};
};

// Adam with decoupled weight decay (Loshchilov & Hutter 2019).
class AdamW : public Optimizer {
 public:
  template <class Model>
  explicit AdamW(Model& model, const AdamWOptions& options = {}) : AdamW(ParameterList(model), options) {}
  AdamW(const ParameterList& parameters, const AdamWOptions& options = {});

 private:
  void move(std::span<const kernels::StepSegment> segments, DType type) override;
  kernels::AdamRates rates_;
};

struct LionOptions {
  double lr = 1e-4;  // three to ten times less than AdamW's
  double beta1 = 0.9, beta2 = 0.99;
  double decay = 0;  // decoupled; three to ten times more than AdamW's
  double clip = 0, clip_epsilon = 0;
  std::vector<ParameterGroup> groups = {};
};

// Chen et al. 2023: every parameter moves by lr, in the direction of an average of its gradients.
class Lion : public Optimizer {
 public:
  template <class Model>
  explicit Lion(Model& model, const LionOptions& options = {}) : Lion(ParameterList(model), options) {}
  Lion(const ParameterList& parameters, const LionOptions& options = {});

 private:
  void move(std::span<const kernels::StepSegment> segments, DType type) override;
  kernels::LionRates rates_;
};

}  // namespace attune
