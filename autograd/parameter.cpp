#include "attune/autograd/parameter.h"

#include <algorithm>
#include <cstring>

#include "attune/lib/kernels/elementwise.h"

namespace attune {
namespace {

using State = detail::ParameterState;

std::size_t padded_bytes(const View& view) {
  const auto bytes = static_cast<std::size_t>(view.count() * size_of(view.dtype()));
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// A tensor's memory, handed over.
void own(State& state, Tensor&& value, Tensor&& gradient) {
  state.value_storage = value.storage();
  state.gradient_storage = gradient.storage();
  state.value = value.view();
  state.gradient = gradient.view();
}

// Whether all views stand one after the other, as flatten would lay them.
template <class F>
bool stand_in_order(const std::vector<std::shared_ptr<State>>& states, F view_of) {
  for (std::size_t i = 1; i < states.size(); ++i) {
    const View before = view_of(*states[i - 1]);
    if (static_cast<char*>(before.data()) + padded_bytes(before) != view_of(*states[i]).data()) return false;
  }
  return true;
}

// Moves one view after the other into a new block.
template <class Access>
void lay_out(const std::vector<std::shared_ptr<State>>& states, Access access) {
  std::size_t bytes = 0;
  for (const auto& state : states) bytes += padded_bytes(access(*state).first);
  detail::StorageRef block(detail::Storage::create(bytes));
  auto* next = static_cast<char*>(block->data());
  std::memset(next, 0, bytes);
  for (const auto& state : states) {
    auto [view, storage] = access(*state);
    const View moved(next, view.shape(), view.dtype());
    kernels::copy(moved, view);
    next += padded_bytes(view);
    view = moved;
    storage = block;
  }
}

}  // namespace

Parameter::Parameter(const Tensor& value) : state_(std::make_shared<State>()) {
  check(is_float(value.dtype()), "parameter: {} cannot be trained", value.dtype());
  own(*state_, value.clone(), Tensor(value.shape(), value.dtype()));
}

Parameter::Parameter(const Shape& shape, DType dtype) : Parameter(Tensor(shape, dtype)) {}

const View& Parameter::view() const {
  static const View none(nullptr, Shape{0}, f32);
  return state_ ? state_->value : none;
}

detail::ParameterState& Parameter::state() {
  check(exists(), "parameter: this one was never made (a bias that is switched off?), or was moved from");
  return *state_;
}

View Parameter::mutable_value() {
  ++state().version;
  return state_->value;
}

ConstView Parameter::grad() const { return exists() ? ConstView(state_->gradient) : ConstView(view()); }

View Parameter::mutable_grad() {
  state().has_gradient = true;
  return state_->gradient;
}

void Parameter::zero_grad() {
  kernels::fill(state().gradient, 0);
  state_->has_gradient = false;
}

void Parameter::set_trainable(bool trainable) { state().trainable = trainable; }
void Parameter::set_decay(bool decay) { state().decay = decay; }

const std::string& Parameter::name() const {
  static const std::string none;
  return exists() ? state_->name : none;
}

void ParameterList::add(const std::string& path, Parameter& parameter) {
  const auto& state = detail::ParameterAccess::state(parameter);
  if (std::find(states_.begin(), states_.end(), state) != states_.end()) return;
  state->name = path;
  states_.push_back(state);
}

void flatten(const ParameterList& parameters) {
  const auto& states = parameters.states();
  const auto value = [](State& s) { return std::pair<View&, detail::StorageRef&>(s.value, s.value_storage); };
  const auto gradient = [](State& s) { return std::pair<View&, detail::StorageRef&>(s.gradient, s.gradient_storage); };
  if (!stand_in_order(states, [&](State& s) { return value(s).first; })) lay_out(states, value);
  if (!stand_in_order(states, [&](State& s) { return gradient(s).first; })) lay_out(states, gradient);
}

GradientSet::GradientSet(const ParameterList& parameters) {
  const auto& states = parameters.states();
  if (states.empty()) return;
  const DType dtype = states.front()->value.dtype();
  std::size_t bytes = 0;
  for (const auto& state : states) {
    check(state->value.dtype() == dtype, "gradient set: parameters of {} and of {}", dtype, state->value.dtype());
    bytes += padded_bytes(state->value);
  }
  block_ = Tensor(Shape{static_cast<Index>(bytes) / size_of(dtype)}, dtype);
  auto* next = static_cast<char*>(block_.view().data());
  for (const auto& state : states) {
    entries_.push_back({state, View(next, state->value.shape(), dtype)});
    next += padded_bytes(state->value);
  }
}

GradientSet::Entry& GradientSet::entry(const detail::ParameterState* parameter) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& e) { return e.parameter.get() == parameter; });
  check(found != entries_.end(), "gradient set: a parameter of shape {} is not in it",
        parameter ? parameter->value.shape() : Shape{0});
  return *found;
}

ConstView GradientSet::grad(const Parameter& parameter) const {
  return entry(detail::ParameterAccess::state(parameter).get()).gradient;
}

bool GradientSet::has_grad(const Parameter& parameter) const {
  return entry(detail::ParameterAccess::state(parameter).get()).has_gradient;
}

void GradientSet::add_to_parameters() {
  for (Entry& entry : entries_) {
    if (!entry.has_gradient) continue;
    State& state = *entry.parameter;
    kernels::copy(Out(state.gradient, state.has_gradient), entry.gradient);
    state.has_gradient = true;
  }
  zero();
}

void GradientSet::zero() {
  for (Entry& entry : entries_) {
    kernels::fill(entry.gradient, 0);
    entry.has_gradient = false;
  }
}

Cast::Cast(const ParameterList& parameters, DType dtype) {
  check(is_float(dtype), "cast: {} cannot be trained", dtype);
  for (const auto& state : parameters.states()) {
    before_.push_back({state, state->value_storage, state->gradient_storage, state->value, state->gradient,
                       state->has_gradient});
    own(*state, Tensor::copy_of(state->value).to(dtype), Tensor(state->value.shape(), dtype));
    state->has_gradient = false;
    ++state->version;
  }
  flatten(parameters);
}

Cast::~Cast() {
  for (Before& before : before_) {
    State& state = *before.parameter;
    state.value_storage = before.value_storage;
    state.gradient_storage = before.gradient_storage;
    state.value = before.value;
    state.gradient = before.gradient;
    state.has_gradient = before.has_gradient;
    ++state.version;
  }
}

}  // namespace attune
