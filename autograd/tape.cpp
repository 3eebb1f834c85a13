// Scopes, and the Vars that users make and ask. op.cpp records what is computed with them, backward.cpp reads it in reverse.
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

using namespace detail;  // the workspace's names
using std::source_location;

std::atomic<std::uint32_t> last_generation{0};

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

// A constant of another type than its tensor.
[[gnu::noinline, gnu::cold]] ConstView converted(const Tensor& tensor, DType dtype) {
  const View copy = saved(tensor.shape(), dtype);
  kernels::copy(copy, tensor.to(dtype));
  return copy;
}

bool has_gradient(const Node& node) {
  const Node& root = workspace().node(node.root);
  return root.gradient != nullptr && root.touched;
}

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

Scope::Scope(bool records, bool training, Rng* random) {
  Workspace& w = workspace();
  std::uint32_t generation = last_generation.fetch_add(1, std::memory_order_relaxed) + 1;
  if (generation == 0) generation = last_generation.fetch_add(1, std::memory_order_relaxed) + 1;
  const Arena::Mark mark = w.arena.mark();
  void* memory = w.arena.allocate(sizeof(ScopeState), alignof(ScopeState));
  state_ = new (memory) ScopeState{w.innermost,     generation, w.node_count, w.borrowed.size(), w.kept.size(),
                                   w.delayed.size(), mark,       records,      training,       random};
  if (w.innermost) {
    state_->sparing = w.innermost->sparing;
    state_->constants = w.innermost->constants;
  }
  state_->attended = w.mutate != nullptr;
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
  if (state_->log) [[unlikely]]
    detail::forget(state_->log);
  w.arena.rewind(state_->mark);
}

}  // namespace detail

Rng draw_stream(source_location where) {
  const ScopeState& scope = open_scope(where);
  if (!scope.random) [[unlikely]]
    check(false, "{}: it needs random numbers, Tape tape({{.random = &rng}})", detail::op_name(where));
  const Rng own = scope.random->split(scope.random->position());
  scope.random->skip(1);
  return own;
}

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

Var detail::leaf_of_view(const char* name, const View& value, bool needs_grad, const source_location& where) {
  return leaf(name, value, {}, 0, needs_grad, where);
}

Var::Var(const Tensor& tensor, Location where)
    : Var(leaf("constant", borrowed_view(tensor.view()), tensor.storage(), tensor.version(), false, where)) {
  const std::optional<DType>& wanted = workspace().innermost->constants;
  if (tensor.dtype() == DType::dual) VarAccess::node(*this, where).value = without_tangents(tensor);
  else if (wanted && is_float(tensor.dtype()) && tensor.dtype() != *wanted)
    VarAccess::node(*this, where).value = converted(tensor, *wanted);
}

Var::Var(Tensor&& tensor, Location where) : Var(static_cast<const Tensor&>(tensor), where) {
  [[maybe_unused]] const Tensor ends_here(std::move(tensor));
}

Var variable(const Tensor& tensor, source_location where) {
  check(is_float(tensor.dtype()), "variable: {} has no gradient", tensor.dtype());
  return leaf("variable", borrowed_view(tensor.view()), tensor.storage(), tensor.version(), true, where);
}

Var variable(Tensor&& tensor, source_location where) {
  const Var x = variable(static_cast<const Tensor&>(tensor), where);
  [[maybe_unused]] const Tensor ends_here(std::move(tensor));
  return x;
}

Var::Var(const Parameter& parameter, Location where) : id_(0) {
  const auto& state = detail::ParameterAccess::state(parameter);
  if (!state) [[unlikely]]
    check(false, "{}: a parameter that does not exist was used", detail::op_name(where));
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
