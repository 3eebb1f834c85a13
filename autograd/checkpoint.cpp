#include "attune/autograd/checkpoint.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "attune/autograd/workspace.h"

namespace attune {
namespace detail {
namespace {

// How the tape around computes, so that it can be done again.
struct Mode {
  bool training;
  std::optional<Rng> random;
};
static_assert(std::is_trivially_copyable_v<Mode>);

Mode mode_of(const ScopeState& scope) {
  return {scope.training, scope.random ? std::optional<Rng>(*scope.random) : std::nullopt};
}

// A scope that computes as the tape around it does, but does not record.
class Unrecorded : public Scope {
 public:
  explicit Unrecorded(const ScopeState& around) : Scope(false, around.training, around.random) {
    state_->sealed = state_->attended = true;
  }
};

// A tape that computes for the second time.
class Again : public Tape {
 public:
  explicit Again(Mode& mode) : Tape({.training = mode.training, .random = mode.random ? &*mode.random : nullptr}) {
    state_->again = true;
  }
};

// A result that outlives its scope, in memory that is there already; and the parameters that took part.
struct Forward {
  View result;
  std::size_t bytes = 0;
  std::vector<std::shared_ptr<ParameterState>> parameters;
};

Forward forward(Recomputed call, const void* f, std::span<const Var> inputs, const std::source_location& where) {
  Workspace& w = workspace();
  const Unrecorded scope(*w.innermost);
  const std::size_t first_borrowed = w.borrowed.size();
  std::vector<Var> given;
  for (const Var input : inputs) given.push_back(leaf_of_view("input", borrowed_view(input.value(where)), false, where));
  const ConstView value = call(f, given).value(where);
  Forward done;
  for (std::size_t i = first_borrowed; i < w.borrowed.size(); ++i)
    if (w.borrowed[i].parameter) done.parameters.push_back(w.borrowed[i].parameter);
  done.bytes = static_cast<std::size_t>(value.count() * size_of(value.dtype()));
  done.result = View(w.gradients.take(done.bytes), value.shape(), value.dtype());
  kernels::copy(done.result, value);
  return done;
}

// A parameter that the tape inside has given its gradient; and that gradient, where it must not go to the parameter
// itself (when Tape::report runs the rules again).
struct Reached {
  std::shared_ptr<ParameterState> parameter;
  View caught;
};

std::vector<Reached> reached_parameters(std::size_t first_borrowed) {
  Workspace& w = workspace();
  std::vector<Reached> reached;
  for (std::size_t i = first_borrowed; i < w.borrowed.size(); ++i) {
    const Node& leaf = w.node(w.borrowed[i].node);
    if (!leaf.parameter || !leaf.touched) continue;
    View caught;
    if (!belongs_to_parameter(leaf, *w.innermost)) {
      caught = View(w.gradients.take(gradient_bytes(leaf)), leaf.value.shape(), leaf.value.dtype());
      kernels::copy(caught, gradient_place(leaf));
    }
    reached.push_back({w.borrowed[i].parameter, caught});
  }
  return reached;
}

// The same for the tape around, whose leaf of the parameter knows nothing of it yet.
void pass_on(const Reached& reached) {
  Workspace& w = workspace();
  const Var leaf = VarAccess::leaf_of(reached.parameter);
  if (reached.caught.data()) {
    kernels::copy(add_to(leaf), reached.caught);
    w.gradients.give(reached.caught.data(), gradient_bytes(VarAccess::node(leaf, std::source_location::current())));
  } else {
    Node& node = VarAccess::node(leaf, std::source_location::current());
    ensure_gradient(node, *w.innermost);
    node.touched = true;
  }
}

// An input, while its gradient is made by a tape of its own.
struct Passed {
  Var outside, inside;
  View caught = {};      // its gradient, in scratch: the tape inside must end before gradients outside can be reached
  bool begins = false;   // with the gradient that it has outside already, so that sums are made in the same order
  bool repeats = false;  // another that was passed before
};

std::vector<Passed> pass(std::span<const Var> inputs) {
  std::vector<Passed> passed;
  for (const Var input : inputs) {
    Passed next{.outside = input, .inside = input};
    next.repeats = std::any_of(passed.begin(), passed.end(), [&](const Passed& other) {
      return VarAccess::index(other.outside) == VarAccess::index(input);
    });
    const Node& node = VarAccess::node(input, std::source_location::current());
    if (input.needs_grad() && !next.repeats) {
      next.caught = scratch(input.shape(), input.dtype());
      // Not a view, nor a parameter, to whose gradient the tape inside may add by itself.
      next.begins = node.root == VarAccess::index(input) && !node.parameter && node.touched && node.gradient;
      if (next.begins) kernels::copy(next.caught, gradient_place(node));
    }
    passed.push_back(next);
  }
  return passed;
}

// The leaves of the tape inside. One that was passed twice is one leaf, as it is one outside.
std::vector<Var> leaves_of(std::vector<Passed>& passed) {
  std::vector<Var> leaves;
  for (Passed& each : passed) {
    const auto first = std::find_if(passed.begin(), passed.end(), [&](const Passed& other) {
      return VarAccess::index(other.outside) == VarAccess::index(each.outside);
    });
    each.inside = each.repeats ? first->inside
                               : leaf_of_view("input", borrowed_view(each.outside.value()), each.outside.needs_grad(),
                                              std::source_location::current());
    if (each.begins) kernels::copy(add_to(each.inside), each.caught);
    leaves.push_back(each.inside);
  }
  return leaves;
}

// dinput += its part of dy, through a tape of its own.
void backward(Recomputed call, const void* f, std::span<const Var> inputs, Mode mode, Var y) {
  std::vector<Passed> passed = pass(inputs);
  std::vector<Reached> parameters;
  const std::size_t first_borrowed = workspace().borrowed.size();
  {
    Again tape(mode);
    const std::vector<Var> leaves = leaves_of(passed);
    const Var result = call(f, leaves);
    if (result.needs_grad()) tape.backward(result, y.grad());
    for (Passed& each : passed) {
      if (!each.caught.data()) continue;
      if (each.inside.has_grad()) kernels::copy(each.caught, each.inside.grad());
      else each.caught = View();
    }
    parameters = reached_parameters(first_borrowed);
  }
  for (const Reached& parameter : parameters) pass_on(parameter);
  for (const Passed& each : passed)  // before views of them add theirs
    if (each.begins && each.caught.data()) kernels::copy(Out(add_to(each.outside).view, false), each.caught);
  for (const Passed& each : passed)
    if (each.caught.data() && !each.begins)
      if (Out d = add_to(each.outside)) kernels::copy(d, each.caught);
}

}  // namespace

Var checkpoint(Recomputed call, const void* f, std::span<const Var> inputs, std::source_location where) {
  const ScopeState& scope = open_scope(where);
  // Who checks each op wants to see those inside, not one that hides them.
  if (!scope.records || (scope.log && scope.log->recorded)) return call(f, inputs);
  const Mode mode = mode_of(scope);
  const std::span<const Var> kept = saved(inputs);
  const Forward done = forward(call, f, inputs, where);
  bool trains = false;
  for (const auto& parameter : done.parameters) {
    // Its leaf stands before the result: the gradient is complete when the rule below has run.
    VarAccess::leaf_of(parameter);
    trains |= parameter->trainable;
  }
  Var y = output(done.result.shape(), inputs, Saves::values, where);
  Node& node = VarAccess::node(y, where);
  node.needs_grad |= trains;
  kernels::copy(into(y, where), done.result);
  workspace().gradients.give(const_cast<void*>(static_cast<const void*>(done.result.data())), done.bytes);
  return record("checkpoint", y, [=] { backward(call, f, kept, mode, y); }, where);
}

}  // namespace detail

bool is_recomputing() {
  const detail::ScopeState* scope = &detail::open_scope(std::source_location::current());
  for (; scope; scope = scope->outer)
    if (scope->again) return true;
  return false;
}

}  // namespace attune
