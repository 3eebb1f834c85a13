// Reading a tape in reverse: where gradients live, and what is checked before the first rule runs.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "attune/autograd/op.h"
#include "attune/autograd/reverse.h"

namespace attune {
namespace detail {

struct GradientSink {
  static View place(GradientSet& set, const ParameterState* parameter) { return set.entry(parameter).gradient; }
  static bool& has_gradient(GradientSet& set, const ParameterState* parameter) {
    return set.entry(parameter).has_gradient;
  }
};

void* parameter_gradient(const Node& root, const ScopeState& scope) {
  return scope.sink ? GradientSink::place(*scope.sink, root.parameter).data() : root.parameter->gradient.data();
}

bool touch_parameter(const Node& root, const ScopeState& scope) {
  bool& has_gradient =
      scope.sink ? GradientSink::has_gradient(*scope.sink, root.parameter) : root.parameter->has_gradient;
  return std::exchange(has_gradient, true);
}

namespace {

// What the first op of this scope whose rule reads the memory of node `index` is called.
const char* user_of(std::uint32_t index, const ScopeState& scope) {
  Workspace& w = workspace();
  for (std::uint32_t user = scope.first_node; user < w.node_count; ++user) {
    const Node& node = w.node(user);
    for (std::uint16_t i = 0; i < node.input_count; ++i)
      if (node.saves && w.node(node.inputs[i]).memory == index) return node.name;
  }
  return "an op";
}

}  // namespace

void check_unchanged(const ScopeState& scope) {
  Workspace& w = workspace();
  for (std::size_t i = scope.first_borrowed; i < w.borrowed.size(); ++i) {
    const Borrowed& borrowed = w.borrowed[i];
    const Node& node = w.node(borrowed.node);
    if (const ParameterState* p = borrowed.parameter.get()) {
      if (p->version != borrowed.version)
        check(false, "backward: parameter {} of shape {} was changed after this tape had used it: step after backward",
              p->name.empty() ? "(unnamed)" : p->name, node.value.shape());
    } else if ((node.value_saved || borrowed.of_outer_scope) && borrowed.storage) {
      if (borrowed.storage->version.load(std::memory_order_relaxed) != borrowed.version)
        check(false, "backward: a tensor of shape {}, which {} still needs, was changed after this tape had used it",
              node.value.shape(), user_of(borrowed.node, scope));
    }
  }
}

namespace {

// The same for where gradients of parameters go: each has its place there, of its type.
void check_sink(const ScopeState& scope, GradientSet& sink) {
  Workspace& w = workspace();
  for (std::size_t i = scope.first_borrowed; i < w.borrowed.size(); ++i) {
    const Node& node = w.node(w.borrowed[i].node);
    if (!node.parameter || !node.needs_grad || node.generation != scope.generation) continue;
    const DType dtype = GradientSink::place(sink, node.parameter).dtype();
    check(dtype == node.value.dtype(), "backward: the gradient set was made for {}, and a parameter of shape {} is {} now",
          dtype, node.value.shape(), node.value.dtype());
  }
}

// A tape inside of a rule, which computes something again, writes where the tape around it does.
GradientSet* sink_of(const ScopeState& scope, const BackwardOptions& options) {
  if (options.into) return options.into;
  for (const ScopeState* outer = scope.outer; outer; outer = outer->outer)
    if (outer->running) return outer->sink;
  return nullptr;
}

// Backward is running, from here to the end of a block.
class Running {
 public:
  explicit Running(ScopeState& scope) : scope_(scope) { scope_.running = scope_.interrupted = true; }
  ~Running() { scope_.running = false; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  ScopeState& scope_;
};

}  // namespace

void add_delayed(std::size_t first) {
  Workspace& w = workspace();
  while (w.delayed.size() > first) {
    const Delayed delayed = w.delayed.back();
    w.delayed.pop_back();
    kernels::copy(add_to(delayed.target), delayed.caught);
  }
}

}  // namespace detail

using detail::Node;
using detail::ScopeState;
using detail::workspace;

void Tape::backward(Var loss, const BackwardOptions& options) {
  const Shape& shape = loss.shape();
  check(shape.count() == 1, "backward: a loss of shape {} is not a scalar: reduce it, or give a seed", shape);
  differentiate(loss, nullptr, options);
}

void Tape::backward(Var loss, GradientSet& into) { backward(loss, BackwardOptions{.into = &into}); }

void Tape::backward(Var y, const ConstView& seed, const BackwardOptions& options) {
  check(seed.shape() == y.shape() && seed.dtype() == y.dtype(), "backward: a seed of {} {} does not fit a result of {} {}",
        seed.dtype(), seed.shape(), y.dtype(), y.shape());
  differentiate(y, &seed, options);
}

void Tape::differentiate(Var y, const ConstView* seed, const BackwardOptions& options) {
  auto& w = workspace();
  ScopeState& scope = *state_;
  check(w.innermost == &scope, "backward: a scope inside of this tape is still open, or this is another thread");
  const Node& node = VarAccess::node(y, std::source_location::current());
  check(node.generation == scope.generation,
        "backward: the loss of shape {} was made in another scope (a NoGrad, or a tape around this one)",
        node.value.shape());
  check(!scope.seed, "backward: this tape was differentiated before: compute again on a new Tape, where the gradients "
                     "of parameters add up until the optimizer steps");
  check(node.needs_grad,
        "backward: the loss of shape {} depends on no parameter and no variable of this tape (those of a tape around "
        "it are constants here)",
        node.value.shape());
  detail::check_unchanged(scope);
  GradientSet* const sink = detail::sink_of(scope, options);
  if (sink) detail::check_sink(scope, *sink);

  // report() will want the seed again; keep it in the scope's memory, behind what rules use as scratch.
  View kept = saved(node.value.shape(), node.value.dtype());
  if (seed) kernels::copy(kept, *seed);
  else kernels::fill(kept, 1);
  scope.seed = new (w.arena.allocate(sizeof(View), alignof(View))) View(kept);
  scope.start = VarAccess::index(y);
  scope.sink = sink;
  scope.sparing = scope.sparing || options.spare_parameters;
  const detail::Running running(scope);
  detail::seed_gradient(y, seed);
  detail::reverse(scope, scope.start, [&](std::uint32_t, const Node& passed) {
    if (options.ready && passed.parameter && passed.touched && !scope.outer)
      options.ready(detail::ParameterAccess::from(passed.parameter->shared_from_this()));
  });
  scope.interrupted = false;
}

}  // namespace attune
