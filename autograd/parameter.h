// Parameter: a value that training changes, and its gradient. And what one does with all parameters of a model.
//
// A model is any struct with a visitor `each(visit)` that calls visit("name", member) for its parameters and for the
// structs that hold more of them, or containers of either, whose elements are "name.0" and so on, or an optional one.
// Once will do: for_each_parameter walks constant models by the same each().
#pragma once

#include <memory>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "attune/lib/tensor.h"

namespace attune {

namespace detail {
struct ParameterState : std::enable_shared_from_this<ParameterState> {
  StorageRef value_storage, gradient_storage;
  View value, gradient;
  bool has_gradient = false;  // whether anything was written since the last step; the next write then adds
  bool trainable = true;
  bool decay = true;
  std::uint64_t version = 0;
  std::string name;
};
struct ParameterAccess;
struct GradientSink;
}  // namespace detail

class Parameter {
 public:
  Parameter() = default;  // of shape [0]: a layer's bias that is switched off
  // Trainable, with a gradient of zeros.
  explicit Parameter(const Tensor& value);
  explicit Parameter(const Shape& shape, DType dtype = f32);

  Parameter(Parameter&&) noexcept = default;
  Parameter& operator=(Parameter&&) noexcept = default;

  bool exists() const { return state_ != nullptr; }
  const Shape& shape() const { return view().shape(); }
  DType dtype() const { return view().dtype(); }
  Index count() const { return view().count(); }

  // The value. The View may write, so it counts as a change: a tape that used the old value refuses its backward.
  ConstView value() const { return view(); }
  View mutable_value();

  // The gradient: zeros unless has_grad().
  ConstView grad() const;
  View mutable_grad();  // and marks it as present
  bool has_grad() const { return state_ && state_->has_gradient; }
  void zero_grad();

  // A parameter that is not trainable is a buffer: saved and cast with its model, and left alone by optimizers.
  bool trainable() const { return state_ && state_->trainable; }
  void set_trainable(bool trainable);
  // Whether an optimizer's weight decay may reach it (it does for rank 2 and more). True unless said otherwise.
  bool decay() const { return state_ && state_->decay; }
  void set_decay(bool decay);
  // Its path in the model, once flatten() or an optimizer has walked the model; else empty.
  const std::string& name() const;

 private:
  friend struct detail::ParameterAccess;
  explicit Parameter(std::shared_ptr<detail::ParameterState> state) : state_(std::move(state)) {}
  const View& view() const;
  detail::ParameterState& state();

  std::shared_ptr<detail::ParameterState> state_;
};

namespace detail {
struct ParameterAccess {
  static const std::shared_ptr<ParameterState>& state(const Parameter& p) { return p.state_; }
  static Parameter from(std::shared_ptr<ParameterState> state) { return Parameter(std::move(state)); }
};

// What each() of a model calls: hands its parameters on to f, as constants where the model is one.
template <class F, bool constant>
struct PathVisitor {
  F& f;
  std::string prefix;

  template <class Member>
  void operator()(const std::string& name, Member& member) const {
    if constexpr (std::is_same_v<std::remove_const_t<Member>, Parameter>) {
      if (member.exists()) f(prefix + name, static_cast<std::conditional_t<constant, const Parameter&, Parameter&>>(member));
    } else if constexpr (std::ranges::range<Member>) {
      std::size_t i = 0;
      for (auto& element : member) (*this)(name + "." + std::to_string(i++), element);
    } else if constexpr (requires { static_cast<bool>(member), *member; }) {
      if (member) (*this)(name, *member);
    } else {
      member.each(PathVisitor{f, prefix + name + "."});
    }
  }
};
}  // namespace detail

// f("blocks.0.mlp.up.weight", parameter) for every parameter of the model, in the order of each().
// Of a constant model f sees constants.
template <class Model, class F>
void for_each_parameter(Model& model, F&& f) {
  using Walked = std::remove_const_t<Model>;
  using Visitor = detail::PathVisitor<std::remove_reference_t<F>, std::is_const_v<Model>>;
  if constexpr (std::is_same_v<Walked, Parameter>) f(std::string("parameter"), model);
  else const_cast<Walked&>(model).each(Visitor{f, ""});  // each() only names, and f gets constants
}

// How many numbers the model's parameters hold.
template <class Model>
Index parameter_count(const Model& model) {
  Index count = 0;
  for_each_parameter(model, [&](const std::string&, const Parameter& p) { count += p.count(); });
  return count;
}

// The states of a model's parameters, named by their paths, each once.
class ParameterList {
 public:
  template <class Model>
  explicit ParameterList(Model& model) {
    for_each_parameter(model, [&](const std::string& path, Parameter& p) { add(path, p); });
  }
  const std::vector<std::shared_ptr<detail::ParameterState>>& states() const { return states_; }

 private:
  void add(const std::string& path, Parameter& parameter);
  std::vector<std::shared_ptr<detail::ParameterState>> states_;
};

// Brings values and gradients of the listed parameters together, in order, each in one block padded to 64 bytes, unless
// they stand so already. Their numbers do not change.
void flatten(const ParameterList& parameters);
template <class Model>
void flatten(Model& model) {
  flatten(ParameterList(model));
}

// Gradients of a model's parameters, elsewhere: for replicas that sum in a fixed order.
class GradientSet {
 public:
  template <class Model>
  explicit GradientSet(Model& model) : GradientSet(ParameterList(model)) {}
  explicit GradientSet(const ParameterList& parameters);

  // The gradient of a parameter of the model; throws for any other.
  ConstView grad(const Parameter& parameter) const;
  bool has_grad(const Parameter& parameter) const;
  // Adds all that is here to the parameters' own gradients, in order, and leaves zeros.
  void add_to_parameters();
  void zero();

 private:
  friend struct detail::GradientSink;
  struct Entry {
    std::shared_ptr<detail::ParameterState> parameter;
    View gradient;
    bool has_gradient = false;
  };
  Entry& entry(const detail::ParameterState* parameter);
  const Entry& entry(const detail::ParameterState* parameter) const {
    return const_cast<GradientSet*>(this)->entry(parameter);
  }

  Tensor block_;
  std::vector<Entry> entries_;
};

// While it lives, the model's parameters have another element type, in memory of their own: cast(model, f64) to verify
// it, dual to differentiate forward. Afterwards they have their old bits and gradients again.
class Cast {
 public:
  template <class Model>
  Cast(Model& model, DType dtype) : Cast(ParameterList(model), dtype) {}
  Cast(const ParameterList& parameters, DType dtype);
  ~Cast();
  Cast(const Cast&) = delete;
  Cast& operator=(const Cast&) = delete;

 private:
  struct Before {
    std::shared_ptr<detail::ParameterState> parameter;
    detail::StorageRef value_storage, gradient_storage;
    View value, gradient;
    bool has_gradient;
  };
  std::vector<Before> before_;
};

}  // namespace attune
