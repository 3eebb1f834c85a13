#include "attune/layers/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attune/layers/names.h"
#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/kernels/reduce.h"

namespace attune {
namespace {

using State = detail::ParameterState;

bool moves(const State& p) { return p.trainable && p.has_gradient; }

// std::isfinite may be folded away under other people's flags; a comparison with infinity is not.
bool is_finite(double x) { return std::abs(x) < HUGE_VAL; }

void consume(State& p) {
  kernels::fill(p.gradient, 0);
  p.has_gradient = false;
}

// How many elements of a gradient are not finite, and how.
BadGradient faults_of(const std::string& name, const View& gradient) {
  BadGradient bad{name, 0, 0, gradient.count()};
  visit(gradient.dtype(), [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>)
      for (const T x : std::span<const T>(gradient.as<T>(), static_cast<std::size_t>(gradient.count()))) {
        bad.nans += x != x;
        bad.infinities += std::abs(static_cast<double>(x)) == HUGE_VAL;
      }
  });
  return bad;
}

}  // namespace

Optimizer::Optimizer(const char* name, const ParameterList& parameters, const Settings& settings, int slots)
    : name_(name), settings_(settings), slots_per_parameter_(slots) {
  set_lr(settings.lr);
  check(settings.decay >= 0 && is_finite(settings.decay), "{}: decay is {}, and must not be negative", name,
        settings.decay);
  check(settings.clip >= 0 && settings.clip_epsilon >= 0,
        "{}: clip is {} and clip_epsilon {}, and they must not be negative", name, settings.clip,
        settings.clip_epsilon);
  flatten(parameters);
  const auto& states = parameters.states();
  if (!states.empty()) dtype_ = states.front()->value.dtype();
  for (const auto& p : states) {
    check(p->value.dtype() == dtype_, "{}: parameters of {} and of {}", name, dtype_, p->value.dtype());
    slots_.push_back({.parameter = p, .name = p->name, .group = 0, .memory = {}, .steps = 0});
  }
  assign_groups();
  allocate(slots);
}

void Optimizer::assign_groups() {
  std::vector<std::string> names;
  for (Slot& slot : slots_) {
    slot.group = settings_.groups.size();  // the rest
    names.push_back(slot.name);
  }
  for (std::size_t g = 0; g < settings_.groups.size(); ++g) {
    const ParameterGroup& group = settings_.groups[g];
    check(group.lr_scale >= 0 && is_finite(group.lr_scale), "{}: group '{}': lr_scale is {}, and must not be negative",
          name_, group.match, group.lr_scale);
    const double decay = group.decay.value_or(0);
    check(decay >= 0 && is_finite(decay), "{}: group '{}': decay is {}, and must not be negative", name_, group.match,
          decay);
    bool matches = false, takes = false;
    for (Slot& slot : slots_) {
      if (!matches_pattern(slot.name, group.match)) continue;
      matches = true;
      if (slot.group < g) continue;
      slot.group = g;
      takes = true;
    }
    if (!matches) check(false, "{}: group '{}': {}", name_, group.match, no_such("parameter", group.match, names));
    check(takes, "{}: group '{}' matches only parameters that an earlier group has", name_, group.match);
  }
}

void Optimizer::allocate(int slots) {
  const Index line = static_cast<Index>(kAlignment) / size_of(dtype_);
  const auto padded = [&](const Slot& slot) { return (slot.parameter->value.count() + line - 1) / line * line; };
  Index total = 0;
  for (const Slot& slot : slots_) total += padded(slot);
  memory_ = Tensor({slots, total}, dtype_);
  Index next = 0;
  for (Slot& slot : slots_) {
    const Shape& shape = slot.parameter->value.shape();
    for (int i = 0; i < slots; ++i)
      slot.memory[i] = memory_.view().select(0, i).slice(0, next, next + shape.count()).reshape(shape);
    next += padded(slot);
  }
}

void Optimizer::set_lr(double lr) {
  check(lr >= 0 && is_finite(lr), "{}: a learning rate of {} is no rate", name_, lr);
  settings_.lr = lr;
}

double Optimizer::group_lr(std::size_t group) const {
  return group < settings_.groups.size() ? settings_.lr * settings_.groups[group].lr_scale : settings_.lr;
}

double Optimizer::decay_of(const Slot& slot) const {
  const State& p = *slot.parameter;
  if (!p.decay) return 0;
  if (slot.group < settings_.groups.size() && settings_.groups[slot.group].decay)
    return *settings_.groups[slot.group].decay;
  return p.value.rank() >= 2 ? settings_.decay : 0;
}

double Optimizer::gradient_norm() const {
  double squares = 0;
  for (const Slot& slot : slots_) {
    const State& p = *slot.parameter;
    if (!moves(p)) continue;
    check(p.value.dtype() == dtype_, "{}: {} is {} now, and was {} when this optimizer was made", name_, slot.name,
          p.value.dtype(), dtype_);
    squares += kernels::squared_norm(p.gradient);
  }
  return std::sqrt(squares);
}

void Optimizer::step(double divisor) {
  check(divisor > 0 && is_finite(divisor), "{}: gradients cannot be divided by {}", name_, divisor);
  grad_norm_ = gradient_norm() / divisor;
  if (!is_finite(grad_norm_)) return skip();
  const double clip = settings_.clip > 0 ? std::min(1.0, settings_.clip / (grad_norm_ + settings_.clip_epsilon)) : 1;
  segments_.clear();
  for (Slot& slot : slots_) {
    State& p = *slot.parameter;
    if (!moves(p)) continue;
    ++slot.steps;
    segments_.push_back(segment_of(slot, clip / divisor));
    ++p.version;
    p.has_gradient = false;
  }
  move(segments_, dtype_);
}

kernels::StepSegment Optimizer::segment_of(Slot& slot, double gradient_scale) const {
  const State& p = *slot.parameter;
  const double decay = decay_of(slot);
  return {.parameter = p.value.data(),
          .gradient = p.gradient.data(),
          .slots = {slot.memory[0].data(), slot.memory[1].data()},
          .count = p.value.count(),
          .step = slot.steps,
          .lr = group_lr(slot.group),
          .decay = settings_.coupled_decay ? 0 : decay,
          .coupled_decay = settings_.coupled_decay ? decay : 0,
          .gradient_scale = gradient_scale};
}

void Optimizer::skip() {
  ++skipped_;
  bad_gradients_.clear();
  for (const Slot& slot : slots_) {
    State& p = *slot.parameter;
    if (!p.has_gradient) continue;
    const BadGradient bad = faults_of(slot.name, p.gradient);
    if (p.trainable && bad.nans + bad.infinities > 0) bad_gradients_.push_back(bad);
    consume(p);
  }
}

std::string Optimizer::why_skipped() const {
  if (skipped_ == 0) return "";
  if (bad_gradients_.empty()) return fmt::format("{}: skipped: the gradients' norm is too large for a double", name_);
  std::string text = fmt::format("{}: skipped:", name_);
  for (const BadGradient& bad : bad_gradients_)
    text += fmt::format("{} the gradient of {} has {} NaN and {} infinite of {} elements",
                        &bad == &bad_gradients_.front() ? "" : ",", bad.parameter, bad.nans, bad.infinities, bad.count);
  return text;
}

std::vector<GroupReport> Optimizer::groups() const {
  std::vector<GroupReport> reports;
  for (std::size_t g = 0; g <= settings_.groups.size(); ++g) {
    std::vector<GroupReport> parts;  // by their decay
    for (const Slot& slot : slots_) {
      if (slot.group != g || !slot.parameter->trainable) continue;
      const double decay = decay_of(slot);
      auto part = std::ranges::find(parts, decay, &GroupReport::decay);
      if (part == parts.end()) part = parts.insert(parts.end(), {group_lr(g), decay, {}});
      part->names.push_back(slot.name);
    }
    std::ranges::sort(parts, std::greater(), &GroupReport::decay);
    std::ranges::move(parts, std::back_inserter(reports));
  }
  return reports;
}

void Optimizer::visit_state(StateVisitor& state) {
  state.constant("rule", name_);
  state.number("lr", settings_.lr);
  state.integer("skipped", skipped_);
  for (Slot& slot : slots_) {
    state.integer("steps." + slot.name, slot.steps);
    for (int i = 0; i < slots_per_parameter_; ++i) state.tensor(fmt::format("slot{}.{}", i, slot.name), slot.memory[i]);
  }
}

}  // namespace attune
