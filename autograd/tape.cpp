// The record: scopes, Vars and what ops do to them. backward.cpp reads it in reverse.
#include "attune/autograd/tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "attune/autograd/op.h"
#include "attune/autograd/workspace.h"

namespace attune {
namespace {

using detail::Node;
using detail::ScopeState;
using detail::Workspace;
using detail::workspace;
using std::source_location;

std::atomic<std::uint32_t> last_generation{0};

const ScopeState& open_scope(const source_location& where) {
  const ScopeState* scope = workspace().innermost;
  if (!scope) [[unlikely]]
    check(false, "{}: no tape is open on this thread: open a Tape (to differentiate) or a NoGrad (to evaluate)",
          detail::op_name(where));
  return *scope;
}

// A node that shows memory of its own.
// `view` is what a ConstView is made of, in place: a view that is copied as soon as it is written makes the processor wait.
template <class... View>
Node& push_root(const char* name, std::uint32_t generation, const void* data, const View&... view) {
  Workspace& w = workspace();
  const std::uint32_t index = w.node_count;
  Node& node = w.push_node();
  std::construct_at(&node.value, data, view...);
  node.name = name;
  node.rule = nullptr;
  node.captures = nullptr;
  node.place = nullptr;
  node.parameter = nullptr;
  node.gradient = nullptr;
  node.inputs = nullptr;
  node.generation = generation;
  node.root = node.memory = index;
  node.input_count = 0;
  node.needs_grad = node.touched = node.keep = node.value_saved = node.saves = node.writable = node.leaf = false;
  return node;
}

void* new_memory(const Shape& shape, DType dtype) {
  return workspace().arena.allocate(static_cast<std::size_t>(shape.count() * size_of(dtype)), kAlignment);
}

void set_inputs(Node& node, std::span<const Var> inputs) {
  auto* list = static_cast<std::uint32_t*>(
      workspace().arena.allocate(inputs.size() * sizeof(std::uint32_t), alignof(std::uint32_t)));
  for (std::size_t i = 0; i < inputs.size(); ++i) list[i] = VarAccess::index(inputs[i]);
  node.inputs = list;
  node.input_count = static_cast<std::uint16_t>(inputs.size());
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

// A rule will read the value of this input, so whoever lent its memory must not change it before backward. Where that
// was lent to a scope around this one, both watch it.
void need_value(const Node& input, const ScopeState& scope) {
  Workspace& w = workspace();
  Node& owner = w.node(input.memory);
  if (owner.generation == scope.generation) {
    owner.value_saved = true;
  } else if (owner.leaf && scope.records) {
    const auto lent = std::find_if(w.borrowed.begin(), w.borrowed.end(),
                                   [&](const detail::Borrowed& b) { return b.node == input.memory; });
    if (lent == w.borrowed.end()) return;
    detail::Borrowed again = *lent;
    if (again.parameter) again.version = again.parameter->version;
    else if (again.storage) again.version = again.storage->version.load(std::memory_order_relaxed);
    again.of_outer_scope = true;
    w.borrowed.push_back(std::move(again));
  }
}

Var leaf(const char* name, const View& value, const detail::StorageRef& storage, std::uint64_t version,
         bool needs_grad, const source_location& where) {
  const ScopeState& scope = open_scope(where);
  Workspace& w = workspace();
  const std::uint32_t index = w.node_count;
  Node& node = push_root(name, scope.generation, value.data(), value.layout());
  node.leaf = true;
  node.needs_grad = node.keep = needs_grad && scope.records;
  w.borrowed.push_back({index, storage, version, nullptr});
  return VarAccess::make(index, scope.generation);
}

// A dual constant has no tangent, whatever its tensor holds: the two modes of differentiation must agree.
View without_tangents(const ConstView& value) {
  const View copy = saved(value.shape(), DType::dual);
  kernels::copy(copy, value);
  auto* numbers = copy.as<dual>();
  for (Index i = 0; i < copy.count(); ++i) numbers[i].tangent = 0;
  return copy;
}

bool has_gradient(const Node& node) {
  const Node& root = workspace().node(node.root);
  return root.gradient != nullptr && root.touched;
}

View borrowed_view(const ConstView& view) { return View(const_cast<void*>(view.data()), view.layout()); }

}  // namespace

// -- Scopes.

namespace detail {

std::string op_name(const source_location& where) {
  // "attune::Var attune::softmax(attune::Var)" is softmax. A call operator goes by the name of its class.
  constexpr std::string_view anonymous = "(anonymous namespace)::", call = "::operator";
  std::string text = where.function_name();
  for (auto at = text.find(anonymous); at != text.npos; at = text.find(anonymous)) text.erase(at, anonymous.size());
  std::string_view name = text;
  name = name.substr(0, name.find('('));
  if (name.ends_with(call)) name.remove_suffix(call.size());
  name = name.substr(name.find_last_of(' ') + 1);
  name = name.substr(name.rfind(':') + 1);
  return name.empty() ? text : std::string(name);
}

Scope::Scope(bool records, bool training) {
  Workspace& w = workspace();
  std::uint32_t generation = last_generation.fetch_add(1, std::memory_order_relaxed) + 1;
  if (generation == 0) generation = last_generation.fetch_add(1, std::memory_order_relaxed) + 1;
  const Arena::Mark mark = w.arena.mark();
  void* memory = w.arena.allocate(sizeof(ScopeState), alignof(ScopeState));
  state_ = new (memory) ScopeState{w.innermost,     generation, w.node_count, w.borrowed.size(), w.kept.size(),
                                   w.delayed.size(), mark,       records,      training};
  state_->sparing = w.innermost && w.innermost->sparing;
  w.innermost = state_;
}

Scope::~Scope() {
  Workspace& w = workspace();
  if (w.innermost != state_) {
    fmt::print(stderr, "attune: a tape must end on its own thread, and before the tapes around it\n");
    std::abort();
  }
  if (state_->interrupted)
    for (std::uint32_t index = state_->first_node; index < w.node_count; ++index) free_gradient(w.node(index), *state_);
  for (std::size_t i = state_->first_kept; i < w.kept.size(); ++i) free_gradient(w.node(w.kept[i]), *state_);
  w.kept.resize(state_->first_kept);
  w.delayed.erase(w.delayed.begin() + static_cast<std::ptrdiff_t>(state_->first_delayed), w.delayed.end());
  w.node_count = state_->first_node;
  w.borrowed.resize(state_->first_borrowed);
  w.innermost = state_->outer;
  w.arena.rewind(state_->mark);
}

}  // namespace detail

bool is_training() { return open_scope(source_location::current()).training; }

void release_tape_memory() {
  Workspace& w = workspace();
  check(!w.innermost, "release_tape_memory: a tape is open on this thread");
  w.arena.release();
  w.gradients.release();
  w.nodes.clear();
  w.nodes.shrink_to_fit();
}

// -- Vars.

void VarAccess::throw_dead(const source_location& where) {
  throw std::invalid_argument(
      fmt::format("{}: a Var was used after its tape had ended, or on another thread", detail::op_name(where)));
}

Var::Var(const Tensor& tensor, Location where)
    : Var(leaf("constant", borrowed_view(tensor.view()), tensor.storage(), tensor.version(), false, where)) {
  if (tensor.dtype() == DType::dual) VarAccess::node(*this, where).value = without_tangents(tensor);
}

Var::Var(Tensor&& tensor, Location where) : Var(static_cast<const Tensor&>(tensor), where) { Tensor(std::move(tensor)); }

Var variable(const Tensor& tensor, source_location where) {
  check(is_float(tensor.dtype()), "variable: {} has no gradient", tensor.dtype());
  return leaf("variable", borrowed_view(tensor.view()), tensor.storage(), tensor.version(), true, where);
}

Var variable(Tensor&& tensor, source_location where) {
  const Var x = variable(static_cast<const Tensor&>(tensor), where);
  Tensor(std::move(tensor));
  return x;
}

Var::Var(const Parameter& parameter, Location where) : id_(0) {
  const auto& state = detail::ParameterAccess::state(parameter);
  check(state != nullptr, "{}: a parameter that does not exist was used", detail::op_name(where));
  open_scope(where);
  *this = VarAccess::leaf_of(state);
}

const ConstView& Var::value(Location where) const { return VarAccess::node(*this, where).value; }
const Shape& Var::shape(Location where) const { return VarAccess::node(*this, where).value.shape(); }
DType Var::dtype(Location where) const { return VarAccess::node(*this, where).value.dtype(); }
bool Var::needs_grad(Location where) const { return VarAccess::node(*this, where).needs_grad; }

bool Var::has_grad(Location where) const { return has_gradient(VarAccess::node(*this, where)); }

ConstView Var::grad(Location where) const {
  const Node& node = VarAccess::node(*this, where);
  if (!has_gradient(node)) [[unlikely]]
    check(false, "grad: {} of shape {} has no gradient: backward has not run or did not reach it, or it was freed: "
                 "keep_grad(x) before backward keeps it",
          node.name, node.value.shape());
  return ConstView(detail::gradient_data(node), detail::gradient_layout(node));
}

void keep_grad(Var x, source_location where) {
  const Node& node = VarAccess::node(x, where);
  check(node.needs_grad, "keep_grad: {} of shape {} depends on nothing that has a gradient", node.name,
        node.value.shape());
  workspace().node(node.root).keep = true;
}

// -- For ops.

Var output(const Shape& shape, std::span<const Var> inputs, Saves saves, source_location where) {
  const ScopeState& scope = open_scope(where);
  Workspace& w = workspace();
  bool needs_grad = false;
  const Node* typed = nullptr;
  for (Var input : inputs) {
    const Node& node = VarAccess::node(input, where);
    if (saves == Saves::values) need_value(node, scope);
    if (!is_float(node.value.dtype())) continue;
    if (typed && typed->value.dtype() != node.value.dtype()) [[unlikely]]
      check(false, "{}: element types {} and {} differ", detail::op_name(where), typed->value.dtype(),
            node.value.dtype());
    if (is_dual_across_scopes(node, scope)) [[unlikely]]
      throw_dual_across_scopes(detail::op_name(where), node);
    typed = &node;
    needs_grad |= node.needs_grad && node.generation == scope.generation;
  }
  if (!typed) [[unlikely]]
    check(false, "{}: it computes with f32, f64 or dual, and got {}", detail::op_name(where),
          inputs.empty() ? std::string_view("no operand") : name_of(inputs.front().dtype(where)));
  const DType dtype = typed->value.dtype();
  const std::uint32_t index = w.node_count;
  Node& node = push_root("output", scope.generation, new_memory(shape, dtype), shape, dtype);
  node.needs_grad = needs_grad && scope.records;
  node.saves = saves == Saves::values;
  node.writable = true;
  if (scope.records) set_inputs(node, inputs);
  return VarAccess::make(index, scope.generation);
}

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
}  // namespace

std::array<Out, 3> add_to(Var a, Var b, Var c, source_location where) {
  Workspace& w = workspace();
  const Var targets[] = {a, b, c};
  std::array<Out, 3> places;
  for (std::size_t i = 0; i < places.size(); ++i) {
    bool distinct = true;
    for (std::size_t before = 0; before < i; ++before)
      distinct &= VarAccess::node(targets[before], where).root != VarAccess::node(targets[i], where).root;
    if (distinct) {
      places[i] = add_to(targets[i], where);
    } else if (needs_grad_here(targets[i], where)) {
      places[i] = Out(scratch(targets[i].shape(where), targets[i].dtype(where)));
      w.delayed.push_back({targets[i], places[i].view});
    }
  }
  return places;
}

Var scalar(double number, Var like, source_location where) {
  const ScopeState& scope = open_scope(where);
  if (!is_float(like.dtype(where))) [[unlikely]]
    check(false, "{}: it computes with f32, f64 or dual, and got {}", detail::op_name(where), like.dtype(where));
  const View value = saved({}, like.dtype(where));
  kernels::fill(value, number);
  const std::uint32_t index = workspace().node_count;
  push_root("scalar", scope.generation, value.data(), value.layout());
  return VarAccess::make(index, scope.generation);
}

View scratch(const Shape& shape, DType dtype) { return saved(shape, dtype); }

View saved(const Shape& shape, DType dtype) { return View(new_memory(shape, dtype), shape, dtype); }

Var alias_of(const char* name, Var x, const View& value, Flow flow, source_location where) {
  const ScopeState& scope = open_scope(where);
  Workspace& w = workspace();
  const Node& from = VarAccess::node(x, where);
  if (flow == Flow::open && is_dual_across_scopes(from, scope)) throw_dual_across_scopes(name, from);
  const std::uint32_t owner = from.memory;
  const bool needs_grad = from.needs_grad && from.generation == scope.generation && flow == Flow::open;
  const std::uint32_t index = w.node_count;
  Node& node = push_root(name, scope.generation, value.data(), value.layout());
  node.needs_grad = needs_grad;
  node.memory = owner;
  if (scope.records) set_inputs(node, std::span(&x, 1));
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

void* scope_memory(std::size_t bytes, std::size_t alignment) { return workspace().arena.allocate(bytes, alignment); }

bool takes_rule(Var y, source_location where) { return VarAccess::node(y, where).needs_grad; }

void set_rule(const char* name, Var y, void (*rule)(const void*), const void* captures) {
  Node& node = workspace().node(VarAccess::index(y));
  node.name = name;
  node.rule = rule;
  node.captures = captures;
  node.writable = false;
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
  const bool own = from.generation == scope.generation;
  const std::uint32_t index = w.node_count;
  Node& node = push_root(name, scope.generation, pair.value.data(), pair.value.layout());
  node.memory = from.memory;
  if (scope.records) set_inputs(node, std::span(&x, 1));
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

// A tape makes one leaf per parameter, found again in its own table: two tapes on two threads never meet.
Var VarAccess::leaf_of(const std::shared_ptr<detail::ParameterState>& parameter) {
  Workspace& w = workspace();
  ScopeState& scope = *w.innermost;
  if (2 * (scope.leaf_count + 1) > scope.leaf_capacity) detail::grow_leaves(scope);
  ScopeState::Leaf& slot = detail::find_leaf(scope, parameter.get());
  if (!slot.parameter) {
    slot = {parameter.get(), w.node_count};
    ++scope.leaf_count;
    w.borrowed.push_back({w.node_count, parameter->value_storage, parameter->version, parameter});
    Node& node = push_root("parameter", scope.generation, parameter->value.data(), parameter->value.layout());
    node.leaf = node.keep = true;
    node.needs_grad = scope.records && parameter->trainable;
    node.parameter = parameter.get();
  }
  return make(slot.node, scope.generation);
}

namespace detail {

ScopeState::Leaf& find_leaf(ScopeState& scope, const ParameterState* parameter) {
  std::size_t place = (reinterpret_cast<std::uintptr_t>(parameter) >> 4) * 0x9E3779B97F4A7C15u >> 32;
  for (;; ++place) {
    ScopeState::Leaf& slot = scope.leaves[place & (scope.leaf_capacity - 1)];
    if (!slot.parameter || slot.parameter == parameter) return slot;
  }
}

void grow_leaves(ScopeState& scope) {
  const ScopeState::Leaf* before = scope.leaves;
  const std::uint32_t count = scope.leaf_capacity;
  scope.leaf_capacity = count ? 2 * count : 32;
  scope.leaves = static_cast<ScopeState::Leaf*>(
      workspace().arena.allocate(scope.leaf_capacity * sizeof(ScopeState::Leaf), alignof(ScopeState::Leaf)));
  std::uninitialized_fill_n(scope.leaves, scope.leaf_capacity, ScopeState::Leaf{nullptr, 0});
  for (std::uint32_t i = 0; i < count; ++i)
    if (before[i].parameter) find_leaf(scope, before[i].parameter) = before[i];
}

}  // namespace detail

}  // namespace attune
