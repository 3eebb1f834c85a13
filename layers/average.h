// Exponential moving averages of a model's weights, which often score better than the weights themselves (Polyak &
// Juditsky 1992; Tarvainen & Valpola 2017).
//
//   WeightAverage average(model, {.decay = 0.999});
//   ...
//   optimizer.step();
//   average.update();
//   ...
//   {
//     const AveragedWeights averaged(average);   // the model has the averages, until the scope ends
//     evaluate(model);
//   }
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "attune/autograd/parameter.h"
#include "attune/layers/state.h"

namespace attune {

struct WeightAverageOptions {
  double decay = 0.999;  // average = decay * average + (1 - decay) * weight; at least 0 and below 1
  // Whether the first updates forget faster, so that the initial weights do not linger: update t = 0, 1, ... has a
  // decay of at most (1 + t) / (10 + t).
  bool warmup = false;
};

class WeightAverage {
 public:
  // The averages start as the weights are now, in memory of their own; the parameters are shared, so the model may move.
  // Parameters that are not trainable are averaged, too. Throws where the decay is not in [0, 1).
  template <class Model>
  explicit WeightAverage(Model& model, const WeightAverageOptions& options = {})
      : WeightAverage(ParameterList(model), options) {}
  WeightAverage(const ParameterList& parameters, const WeightAverageOptions& options = {});

  // After a step. Throws while the averages are swapped in.
  void update();
  Index updates() const { return updates_; }
  // The average of a parameter of the model; throws for any other.
  ConstView average(const Parameter& parameter) const;

  // The averages and their number of updates. Throws while they are swapped in.
  void visit_state(StateVisitor& state);

 private:
  friend class AveragedWeights;
  struct Entry {
    std::shared_ptr<detail::ParameterState> parameter;
    std::string name;
    Tensor average;
  };
  void check_unchanged(const char* what) const;
  void swap();

  WeightAverageOptions options_;
  std::vector<Entry> entries_;
  Index updates_ = 0;
  bool swapped_ = false;
};

// While it lives, the model has the averages, and the averages' memory keeps the weights, which come back bit by bit.
// Not for training: a step in between would move the averages. The WeightAverage must outlive it.
class AveragedWeights {
 public:
  explicit AveragedWeights(WeightAverage& average);
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  WeightAverage& average_;
};

}  // namespace attune
