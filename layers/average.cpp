#include "attune/layers/average.h"

#include <algorithm>

#include "attune/lib/kernels/elementwise.h"

namespace attune {

WeightAverage::WeightAverage(const ParameterList& parameters, const WeightAverageOptions& options) : options_(options) {
  check(options.decay >= 0 && options.decay < 1, "average: decay is {}, and must lie in [0, 1)", options.decay);
  for (const auto& p : parameters.states()) entries_.push_back({p, p->name, Tensor::copy_of(p->value)});
}

void WeightAverage::check_unchanged(const char* what) const {
  check(!swapped_, "average: no {} while the model has the averages", what);
  for (const Entry& entry : entries_)
    check(entry.parameter->value.dtype() == entry.average.dtype(),
          "average: {} is {} now, and was {} when the average was made", entry.name, entry.parameter->value.dtype(),
          entry.average.dtype());
}

void WeightAverage::update() {
  check_unchanged("update");
  const auto t = static_cast<double>(updates_);
  const double decay = options_.warmup ? std::min(options_.decay, (1 + t) / (10 + t)) : options_.decay;
  for (Entry& entry : entries_) {
    kernels::scale(entry.average, entry.average, decay);
    kernels::scale(Out(entry.average.view(), true), entry.parameter->value, 1 - decay);  // adds
  }
  ++updates_;
}

ConstView WeightAverage::average(const Parameter& parameter) const {
  const auto& state = detail::ParameterAccess::state(parameter);
  const auto found = std::ranges::find(entries_, state, &Entry::parameter);
  check(found != entries_.end(), "average: a parameter of shape {} is not in it", parameter.shape());
  return found->average;
}

void WeightAverage::swap() {
  for (Entry& entry : entries_) {
    auto* weights = static_cast<char*>(entry.parameter->value.data());
    auto* averages = static_cast<char*>(entry.average.view().data());
    std::swap_ranges(weights, weights + entry.average.count() * size_of(entry.average.dtype()), averages);
    ++entry.parameter->version;
  }
  swapped_ = !swapped_;
}

void WeightAverage::visit_state(StateVisitor& state) {
  check_unchanged("saving or loading");
  state.integer("updates", updates_);
  for (Entry& entry : entries_) state.tensor(entry.name, entry.average.view());
}

AveragedWeights::AveragedWeights(WeightAverage& average) : average_(average) {
  average.check_unchanged("second swap");
  average.swap();
}

AveragedWeights::~AveragedWeights() { average_.swap(); }

}  // namespace attune
