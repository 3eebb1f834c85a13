// What ops do to the record: results, their rules, views of them, and where a rule finds its gradients.
#include "attune/autograd/op.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "attune/autograd/workspace.h"

namespace attune {
namespace {

using namespace detail;  // the workspace's names
using std::source_location;

[[gnu::always_inline]] inline void set_inputs(Node& node, std::span<const Var> inputs, std::span<const Var> integers) {
  const std::size_t count = inputs.size() + integers.size();
  auto* list = static_cast<std::uint32_t*>(
      workspace().arena.allocate(count * sizeof(std::uint32_t), alignof(std::uint32_t)));
  node.inputs = list;
  node.input_count = static_cast<std::uint16_t>(count);
  for (Var input : inputs) *list++ = VarAccess::index(input);
  for (Var input : integers) *list++ = VarAccess::index(input);
}

bool is_dual_across_scopes(const Node& input, const ScopeState& scope) {
  return input.value.dtype() == DType::dual && scope.records && input.generation != scope.generation &&
         input.needs_grad;
}

[[noreturn]] void throw_dual_across_scopes(const std::string& op, const Node& input) {
  throw std::invalid_argument(
      fmt::format("{}: in dual a tape cannot use {} of shape {} from the tape around it: forward and reverse mode "
                  "would differ",
                  op, input.name, input.value.shape()));
}

// Inside of a checkpoint: Vars come in as arguments, or their gradient would be lost.
void check_sealed(const Node& input, const ScopeState& scope, const source_location& where) {
  const bool lost = scope.sealed && input.needs_grad && scope.outer && input.generation == scope.outer->generation;
  if (lost)
    check(false, "{}: inside of a checkpoint, {} of shape {} is used but not given to it: its gradient would be lost",
          detail::op_name(where), input.name, input.value.shape());
}

// For whoever checks the tape.
[[gnu::noinline, gnu::cold]] void note(const ScopeState& scope, std::uint32_t index, const source_location& where) {
  if (scope.log) scope.log->note(index, where);
}

// What was lent to a scope around this one is watched by both.
void watch_in_both(const Node& input) {
  Workspace& w = workspace();
  const auto lent = std::find_if(w.borrowed.begin(), w.borrowed.end(),
                                 [&](const detail::Borrowed& b) { return b.node == input.memory; });
  if (lent == w.borrowed.end()) return;
  detail::Borrowed again = *lent;
  if (again.parameter) again.version = again.parameter->version;
  else if (again.storage) again.version = again.storage->version.load(std::memory_order_relaxed);
  again.of_outer_scope = true;
  w.borrowed.push_back(std::move(again));
}

// A rule will read the value of this input, so whoever lent its memory must not change it before backward.
inline void need_value(const Node& input, const ScopeState& scope) {
  Node& owner = workspace().node(input.memory);
  if (owner.generation == scope.generation) [[likely]]
    owner.value_saved = true;
  else if (owner.leaf && scope.records)
    watch_in_both(input);
}

}  // namespace

namespace detail {

Var output_of(const Shape& shape, std::span<const Var> inputs, std::span<const Var> integers, Saves saves,
              source_location where) {
  const ScopeState& scope = open_scope(where);
  Workspace& w = workspace();
  bool needs_grad = false;
  const Node* typed = nullptr;
  for (Var input : inputs) {
    const Node& node = VarAccess::node(input, where);
    if (saves == Saves::values) need_value(node, scope);
    if (typed && typed->value.dtype() != node.value.dtype()) [[unlikely]]
      check(false, "{}: element types {} and {} differ", detail::op_name(where), typed->value.dtype(),
            node.value.dtype());
    if (is_dual_across_scopes(node, scope)) [[unlikely]]
      throw_dual_across_scopes(detail::op_name(where), node);
    typed = &node;
    needs_grad |= node.needs_grad && node.generation == scope.generation;
  }
  for (Var input : integers) need_value(VarAccess::node(input, where), scope);
  if (scope.attended) [[unlikely]]
    for (Var input : inputs) check_sealed(VarAccess::node(input, where), scope, where);
  if (!typed || !is_float(typed->value.dtype())) [[unlikely]]
    check(false, "{}: it computes with f32, f64 or dual, and got {}", detail::op_name(where),
          inputs.empty() ? std::string_view("no operand") : name_of(inputs.front().dtype(where)));
  const DType dtype = typed->value.dtype();
  const std::uint32_t index = w.node_count;
  Node& node = push_root("output", scope.generation, new_memory(shape, dtype), shape, dtype);
  node.needs_grad = needs_grad && scope.records;
  node.saves = saves == Saves::values;
  node.writable = true;
  if (scope.records) set_inputs(node, inputs, integers);
  if (scope.attended) [[unlikely]]
    note(scope, index, where);
  return VarAccess::make(index, scope.generation);
}

}  // namespace detail

Out into(Var y, source_location where) {
  const Node& node = VarAccess::node(y, where);
  if (!node.writable) [[unlikely]]
    check(false, "into: {} of shape {} is finished, and rules may need its numbers", node.name, node.value.shape());
  return Out(const_cast<void*>(node.value.data()), node.value.layout(), false);
}

Out add_to(Var x, source_location where) {
  Workspace& w = workspace();
  const Node& node = VarAccess::node(x, where);
  if (!node.needs_grad || node.generation != w.innermost->generation) return {};
  Node& root = w.node(node.root);
  detail::ensure_gradient(root, *w.innermost);
  bool adds = detail::touch(root, *w.innermost);
  // The first to write everything need not add. One that writes a part leaves zeros in the rest.
  if (!adds && node.value.count() != root.value.count()) {
    kernels::fill(detail::gradient_place(root), 0);
    adds = true;
  }
  return Out(detail::gradient_data(node), detail::gradient_layout(node), adds);
}

void add_grad_of(Var y, Var x, source_location where) {
  Workspace& w = workspace();
  const ScopeState& scope = *w.innermost;
  Node& to = VarAccess::node(x, where);
  Node& from = VarAccess::node(y, where);
  if (!to.needs_grad || to.generation != scope.generation) return;
  const bool alike = to.value.shape() == from.value.shape();
  const auto whole_and_free = [&](const Node& node, Var var) {
    return node.root == VarAccess::index(var) && !node.keep && !node.parameter;
  };
  if (alike && whole_and_free(to, x) && whole_and_free(from, y) && !to.gradient) {
    to.gradient = std::exchange(from.gradient, nullptr);
    to.touched = true;
    return;
  }
  const Out place = add_to(x, where);
  if (alike) kernels::copy(place, detail::gradient_place(from));
  else kernels::sum(place, detail::gradient_place(from));
}

namespace {
bool needs_grad_here(Var x, const source_location& where) {
  const Node& node = VarAccess::node(x, where);
  return node.needs_grad && node.generation == workspace().innermost->generation;
}

// The parts of one buffer have one root, and places in its gradient that do not meet.
bool have_distinct_gradients(const Node& a, const Node& b) {
  return a.root != b.root || (!a.place && !b.place && !overlap(a.value, b.value));
}

// Whether they are parts of one root that nobody has written to, without overlap, and nothing is left of it: then each
// writes its part, and the whole needs no zeros first.
template <std::size_t n>
bool make_up_an_untouched_root(const Var (&targets)[n], const source_location& where) {
  const Node& first = VarAccess::node(targets[0], where);
  const Node& root = workspace().node(first.root);
  if (root.touched || root.place || !needs_grad_here(targets[0], where) ||
      belongs_to_parameter(root, *workspace().innermost))
    return false;
  Index count = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Node& part = VarAccess::node(targets[i], where);
    if (part.root != first.root) return false;
    for (std::size_t before = 0; before < i; ++before)
      if (!have_distinct_gradients(VarAccess::node(targets[before], where), part)) return false;
    count += part.value.count();
  }
  return count == root.value.count();
}

template <std::size_t n>
std::array<Out, n> distinct_places(const Var (&targets)[n], const source_location& where) {
  Workspace& w = workspace();
  std::array<Out, n> places;
  if (make_up_an_untouched_root(targets, where)) {
    Node& root = w.node(VarAccess::node(targets[0], where).root);
    detail::ensure_gradient(root, *w.innermost);
    detail::touch(root, *w.innermost);
    for (std::size_t i = 0; i < n; ++i) {
      const Node& part = VarAccess::node(targets[i], where);
      places[i] = Out(detail::gradient_data(part), detail::gradient_layout(part), false);
    }
    return places;
  }
  for (std::size_t i = 0; i < n; ++i) {
    bool distinct = true;
    for (std::size_t before = 0; before < i; ++before)
      distinct &= have_distinct_gradients(VarAccess::node(targets[before], where), VarAccess::node(targets[i], where));
    if (distinct) {
      places[i] = add_to(targets[i], where);
    } else if (needs_grad_here(targets[i], where)) {
      places[i] = Out(scratch(targets[i].shape(where), targets[i].dtype(where)));
      w.delayed.push_back({targets[i], places[i].view});
    }
  }
  return places;
}

}  // namespace

std::array<Out, 2> add_to(Var a, Var b, source_location where) { return distinct_places({a, b}, where); }

std::array<Out, 3> add_to(Var a, Var b, Var c, source_location where) { return distinct_places({a, b, c}, where); }

Var scalar(double number, Var like, source_location where) {
  open_scope(where);
  if (!is_float(like.dtype(where))) [[unlikely]]
    check(false, "{}: it computes with f32, f64 or dual, and got {}", detail::op_name(where), like.dtype(where));
  const View value = saved({}, like.dtype(where));
  kernels::fill(value, number);
  return constant_of("scalar", value, {}, where);
}

Var constant_of(const char* name, const View& value, std::initializer_list<Var> from, source_location where) {
  const ScopeState& scope = open_scope(where);
  const std::uint32_t index = workspace().node_count;
  Node& node = push_root(name, scope.generation, value.data(), value.layout());
  if (scope.records && from.size() > 0) set_inputs(node, {from.begin(), from.size()}, {});
  if (scope.attended) note(scope, index, where);
  return VarAccess::make(index, scope.generation);
}

View scratch(const Shape& shape, DType dtype) { return View(new_memory(shape, dtype), shape, dtype); }

View saved(const Shape& shape, DType dtype) {
  const View numbers = scratch(shape, dtype);
  if (Workspace& w = workspace(); w.saved_log) [[unlikely]]
    w.saved_log->push_back({w.innermost->generation, numbers});
  return numbers;
}

Var alias_of(const char* name, Var x, const View& value, Flow flow, source_location where) {
  const ScopeState& scope = open_scope(where);
  Workspace& w = workspace();
  const Node& from = VarAccess::node(x, where);
  if (flow == Flow::open && is_dual_across_scopes(from, scope)) throw_dual_across_scopes(name, from);
  if (flow == Flow::open && scope.sealed) check_sealed(from, scope, where);
  const std::uint32_t owner = from.memory;
  const bool needs_grad = from.needs_grad && from.generation == scope.generation && flow == Flow::open;
  const std::uint32_t index = w.node_count;
  Node& node = push_root(name, scope.generation, value.data(), value.layout());
  node.needs_grad = needs_grad;
  node.memory = owner;
  if (scope.records) set_inputs(node, std::span(&x, 1), {});
  if (scope.attended) note(scope, index, where);
  if (needs_grad && !value.is_contiguous()) {
    void* place = w.arena.allocate(sizeof(detail::GradientPlace), alignof(detail::GradientPlace));
    node.place = new (place) detail::GradientPlace{0, View(nullptr, value.shape(), value.dtype()).layout()};
  }
  if (flow == Flow::cut && value.dtype() == DType::dual) {
    node.value = without_tangents(value);
    node.memory = index;
  }
  return VarAccess::make(index, scope.generation);
}

namespace detail {

namespace {
[[gnu::noinline, gnu::cold]] void tell_recorded(std::uint32_t index) {
  Workspace& w = workspace();
  if (!w.node(index).rule) return;
  if (w.mutate) (*w.mutate)(index);
  if (const RecordLog* log = w.innermost->log; log && log->recorded) log->recorded(index);
}
}  // namespace

void* scope_memory(std::size_t bytes, std::size_t alignment) { return workspace().arena.allocate(bytes, alignment); }

bool takes_rule(Var y, source_location where) { return VarAccess::node(y, where).needs_grad; }

void set_rule(const char* name, Var y, void (*rule)(const void*), const void* captures) {
  Node& node = workspace().node(VarAccess::index(y));
  node.name = name;
  node.rule = rule;
  node.captures = captures;
  node.writable = false;
  if (workspace().innermost->attended) [[unlikely]]
    tell_recorded(VarAccess::index(y));
}

ViewPair views(Var x, source_location where) {
  open_scope(where);
  const Node& node = VarAccess::node(x, where);
  const View value = borrowed_view(node.value);
  if (!node.place) return {value, {}, false};
  // Only offsets matter: the gradient's memory does not exist yet.
  char* base = static_cast<char*>(value.data());
  return {value, View(base + node.place->offset * size_of(node.value.dtype()), node.place->layout), true};
}

Var record_view(const char* name, Var x, const ViewPair& pair) {
  Workspace& w = workspace();
  const ScopeState& scope = *w.innermost;
  const Node& from = w.node(VarAccess::index(x));
  if (is_dual_across_scopes(from, scope)) throw_dual_across_scopes(name, from);
  if (scope.sealed) check_sealed(from, scope, std::source_location::current());
  const bool own = from.generation == scope.generation;
  const std::uint32_t index = w.node_count;
  Node& node = push_root(name, scope.generation, pair.value.data(), pair.value.layout());
  node.memory = from.memory;
  if (scope.records) set_inputs(node, std::span(&x, 1), {});
  if (scope.attended) note(scope, index, {});
  if (!own) return VarAccess::make(index, scope.generation);
  node.root = from.root;
  node.writable = from.writable;
  node.needs_grad = from.needs_grad;
  if (pair.differs) {
    void* place = w.arena.allocate(sizeof(GradientPlace), alignof(GradientPlace));
    const Index bytes = static_cast<const char*>(pair.gradient.data()) - static_cast<const char*>(from.value.data());
    node.place = new (place) GradientPlace{bytes / size_of(pair.value.dtype()), pair.gradient.layout()};
  }
  return VarAccess::make(index, scope.generation);
}

}  // namespace detail

}  // namespace attune
