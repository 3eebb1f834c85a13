// Reading a tape in reverse: where gradients live, the loop over the rules, and the report on what did not get one.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "attune/autograd/op.h"
#include "attune/autograd/tape.h"
#include "attune/autograd/workspace.h"

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

// Every version is checked before the first rule runs, so that nothing is half done.
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

void add_delayed(std::size_t first) {
  Workspace& w = workspace();
  while (w.delayed.size() > first) {
    const Delayed delayed = w.delayed.back();
    w.delayed.pop_back();
    kernels::copy(add_to(delayed.target), delayed.caught);
  }
}

void run_rule(const Node& node) {
  Workspace& w = workspace();
  const Arena::Mark scratch = w.arena.mark();
  const std::size_t delayed = w.delayed.size();
  node.rule(node.captures);
  if (w.delayed.size() > delayed) add_delayed(delayed);
  w.arena.rewind(scratch);
}

void seed_gradient(Var y, const ConstView* seed) {
  Out place = add_to(y);
  if (seed) kernels::copy(place, *seed);
  else kernels::fill(place, 1);
}

// Runs every rule from node `last` down to the first of the scope. probe(index) sees each node as it is passed, when
// all that used it has been differentiated.
template <class Probe>
void reverse(const ScopeState& scope, std::uint32_t last, Probe&& probe) {
  Workspace& w = workspace();
  for (std::uint32_t index = last + 1; index-- > scope.first_node;) {
    Node& node = w.node(index);
    if (!node.needs_grad) continue;
    const Node& root = w.node(node.root);
    probe(index, node);
    if (!root.gradient) continue;
    if (node.rule) run_rule(node);
    if (node.root != index || belongs_to_parameter(node, scope)) continue;
    if (node.keep && !scope.probing) w.kept.push_back(index);
    else free_gradient(node, scope);
  }
}

}  // namespace
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
  const detail::Running running(scope);
  detail::seed_gradient(y, seed);
  detail::reverse(scope, scope.start, [&](std::uint32_t, const Node& passed) {
    if (options.ready && passed.parameter && passed.touched && !scope.outer)
      options.ready(detail::ParameterAccess::from(passed.parameter->shared_from_this()));
  });
  scope.interrupted = false;
}

// -- The report.

namespace {

enum class Reached : std::uint8_t { no, zero, yes };

bool is_zero(const ConstView& x) {
  return visit(x.dtype(), [&]<class T>() {
    const Tensor copy = Tensor::copy_of(x);
    const auto numbers = copy.data<T>();
    return std::all_of(numbers.begin(), numbers.end(), [](const T& number) {
      if constexpr (std::is_same_v<T, dual>) return number.value == 0 && number.tangent == 0;
      else return number == T{};
    });
  });
}

// Which gradients flow where: for each node of the scope, found by running the rules once more. Gradients that the
// user keeps, and the parameters' own, stand aside meanwhile.
std::vector<Reached> flows_of(ScopeState& scope) {
  auto& w = workspace();
  const std::uint32_t count = w.node_count - scope.first_node;
  std::vector<void*> gradients(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    Node& node = w.node(scope.first_node + i);
    gradients[i] = std::exchange(node.gradient, nullptr);
    node.touched = false;
  }
  std::vector<Reached> flows(count, Reached::no);
  scope.probing = true;
  const bool sparing = std::exchange(scope.sparing, true);
  const ConstView seed = *scope.seed;
  detail::seed_gradient(VarAccess::make(scope.start, scope.generation), &seed);
  detail::reverse(scope, scope.start, [&](std::uint32_t index, const Node& node) {
    const Node& root = w.node(node.root);
    if (root.gradient) flows[index - scope.first_node] = is_zero(gradient_place(node)) ? Reached::zero : Reached::yes;
  });
  scope.probing = false;
  scope.sparing = sparing;
  for (std::uint32_t i = 0; i < count; ++i) {
    Node& node = w.node(scope.first_node + i);
    node.gradient = gradients[i];
    node.touched = gradients[i] != nullptr;
  }
  return flows;
}

// Follows what was computed from a parameter up to where no gradient comes back, and says which op that is.
std::string end_of_path(const ScopeState& scope, const std::vector<Reached>& flows, std::uint32_t parameter) {
  auto& w = workspace();
  std::vector<bool> downstream(flows.size(), false);
  downstream[parameter - scope.first_node] = true;
  std::uint32_t last = parameter;
  for (std::uint32_t index = parameter + 1; index < w.node_count; ++index) {
    const Node& node = w.node(index);
    for (std::uint16_t i = 0; i < node.input_count; ++i) {
      const std::uint32_t input = node.inputs[i];
      if (input < scope.first_node || !downstream[input - scope.first_node]) continue;
      downstream[index - scope.first_node] = true;
      last = index;
      if (flows[index - scope.first_node] != Reached::yes || flows[input - scope.first_node] == Reached::yes) continue;
      const Node& from = w.node(input);
      return from.needs_grad ? fmt::format("{} {}: the gradient that it passes back is zero", node.name, node.value.shape())
                             : fmt::format("{} {}: it passes no gradient back", from.name, from.value.shape());
    }
  }
  if (last == parameter) return "nothing: no op used it";
  return fmt::format("{} {}: backward started from nothing that depends on it", w.node(last).name,
                     w.node(last).value.shape());
}

}  // namespace

std::vector<ParameterReport> Tape::report() {
  using Gradient = ParameterReport::Gradient;
  auto& w = workspace();
  ScopeState& scope = *state_;
  check(scope.seed && w.innermost == &scope, "report: run backward on this tape first, and ask it before other scopes open");
  detail::check_unchanged(scope);
  const std::vector<Reached> flows = flows_of(scope);
  std::vector<ParameterReport> result;
  for (std::uint32_t index = scope.first_node; index < scope.first_node + flows.size(); ++index) {
    const Node& node = w.node(index);
    if (!node.parameter) continue;
    const Reached flow = flows[index - scope.first_node];
    const std::string& name = node.parameter->name;
    ParameterReport line{name.empty() ? fmt::format("{}", node.value.shape()) : name, Gradient::missing, ""};
    if (flow == Reached::yes) line.gradient = Gradient::reached;
    else if (flow == Reached::zero) line.gradient = Gradient::zero;
    if (!node.needs_grad) line.ended_at = "its start: it is not trainable";
    else if (flow != Reached::yes) line.ended_at = end_of_path(scope, flows, index);
    result.push_back(std::move(line));
  }
  return result;
}

}  // namespace attune
