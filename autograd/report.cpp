// What a tape says of itself: which parameters got no gradient and why, and where numbers stopped being finite.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "attune/autograd/place.h"
#include "attune/autograd/reverse.h"
#include "attune/autograd/tape.h"

namespace attune {

using detail::Node;
using detail::RecordLog;
using detail::ScopeState;
using detail::workspace;
using Why = ParameterReport::Why;

// -- Places.

void Tape::watch(const TapeOptions& options) {
  if (options.places) {
    state_->log = new RecordLog;
    state_->attended = true;
  }
  if (options.constants) state_->constants = options.constants;
}

void RecordLog::note(std::uint32_t node, const std::source_location& where) {
  // A place that an exception left behind belongs to a node that is gone.
  while (!places.empty() && places.back().node >= node) places.pop_back();
  places.push_back({node, where, current_path()});
  if (begins) begins(node);
}

void detail::forget(RecordLog* log) { delete log; }

namespace {

// The path of the layer; or, where none said its own, which parameter was the last that came before.
std::string path_of(const ScopeState& scope, const RecordLog::Place& place) {
  if (!place.path.empty()) return place.path;
  for (std::uint32_t node = place.node; node-- > scope.first_node;)
    if (const detail::ParameterState* parameter = workspace().node(node).parameter; parameter && !parameter->name.empty())
      return "after " + parameter->name;
  return "";
}

}  // namespace

std::string detail::place_of(const ScopeState& scope, std::uint32_t node) {
  if (!scope.log) return "";
  const auto& places = scope.log->places;
  const auto found = std::lower_bound(places.begin(), places.end(), node,
                                      [](const RecordLog::Place& place, std::uint32_t n) { return place.node < n; });
  if (found == places.end() || found->node != node) return "";
  std::string_view file = found->where.file_name();
  file = file.substr(file.find_last_of('/') + 1);
  std::string path = path_of(scope, *found);
  if (file.empty()) return path;
  return fmt::format("{}{}{}:{}", path, path.empty() ? "" : ", ", file, found->where.line());
}

namespace {

// -- Which gradients flow where.

enum class Reached : std::uint8_t { no, zero, yes };

template <class F>
bool all_numbers(const ConstView& x, F&& f) {
  return visit(x.dtype(), [&]<class T>() {
    const Tensor copy = Tensor::copy_of(x);
    const auto numbers = copy.data<T>();
    return std::all_of(numbers.begin(), numbers.end(), [&](const T& number) {
      if constexpr (std::is_same_v<T, dual>) return f(number.value) && f(number.tangent);
      else return f(static_cast<double>(number));
    });
  });
}
bool is_zero(const ConstView& x) {
  return all_numbers(x, [](double number) { return number == 0; });
}
bool is_finite(const ConstView& x) {
  return all_numbers(x, [](double number) { return std::isfinite(number); });
}

// Runs the rules once more. Gradients that the user keeps, and the parameters' own, stand aside meanwhile.
template <class Before, class After>
void probe(ScopeState& scope, Before&& before, After&& after) {
  auto& w = workspace();
  const std::uint32_t count = w.node_count - scope.first_node;
  std::vector<void*> gradients(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    Node& node = w.node(scope.first_node + i);
    gradients[i] = std::exchange(node.gradient, nullptr);
    node.touched = false;
  }
  scope.probing = true;
  const bool sparing = std::exchange(scope.sparing, true);
  const ConstView seed = *scope.seed;
  detail::seed_gradient(VarAccess::make(scope.start, scope.generation), &seed);
  detail::reverse(scope, scope.start, before, after);
  scope.probing = false;
  scope.sparing = sparing;
  for (std::uint32_t i = 0; i < count; ++i) {
    Node& node = w.node(scope.first_node + i);
    node.gradient = gradients[i];
    node.touched = gradients[i] != nullptr;
  }
}

std::vector<Reached> flows_of(ScopeState& scope) {
  auto& w = workspace();
  std::vector<Reached> flows(w.node_count - scope.first_node, Reached::no);
  const auto before = [&](std::uint32_t index, const Node& node) {
    if (!w.node(node.root).gradient) return;
    flows[index - scope.first_node] = is_zero(gradient_place(node)) ? Reached::zero : Reached::yes;
  };
  probe(scope, before, [](std::uint32_t, const Node&) {});
  return flows;
}

// -- Why a path ended.

struct End {
  std::string text;
  Why why;
  std::uint32_t node;
};

bool is_any_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Whether a gradient reaches the values of an attention: then it is not the mask that keeps it from queries and keys.
bool values_are_reached(const ScopeState& scope, const std::vector<Reached>& flows, const Node& node) {
  const Node& root = workspace().node(node.root);
  return root.input_count >= 3 && flows[root.inputs[2] - scope.first_node] == Reached::yes;
}

End at_zero(const ScopeState& scope, const std::vector<Reached>& flows, std::uint32_t index, std::uint32_t input) {
  auto& w = workspace();
  const Node& node = w.node(index);
  const std::string_view name = node.name;
  const std::string start = fmt::format("{} {}: the gradient that it passes back is zero", name, node.value.shape());
  const bool below = all_numbers(w.node(input).value, [](double x) { return x <= 0; });
  if (name == "relu" && below) return {start + ": none of its inputs is above 0", Why::dead, index};
  if (is_any_of(name, {"softmax", "sparsemax", "entmax15", "attention_weights"}))
    return {start + ": in every row one weight is 1 and the others 0", Why::saturated, index};
  if (name == "attention" && values_are_reached(scope, flows, node))
    return {start + " to queries and keys: every query sees one key alone, or weighs one alone", Why::saturated, index};
  if (is_any_of(name, {"attention", "masked_scores", "weigh", "where", "tril", "dropout", "cross_entropy", "nll"}))
    return {start + ": all that came from here is masked or dropped", Why::masked, index};
  return {start, Why::zeroed, index};
}

End at_cut(const Node& node, std::uint32_t index) {
  if (node.value.dtype() == DType::i32)
    return {fmt::format("{} {}: integers have no gradient", node.name, node.value.shape()), Why::integers, index};
  return {fmt::format("{} {}: it passes no gradient back", node.name, node.value.shape()), Why::detached, index};
}

// The first op on the way to `index` that passes nothing back; those behind it have nothing to pass.
std::uint32_t first_cut(const ScopeState& scope, const std::vector<bool>& downstream, std::uint32_t index) {
  auto& w = workspace();
  for (std::uint16_t i = 0; i < w.node(index).input_count;) {
    const std::uint32_t input = w.node(index).inputs[i++];
    if (input < scope.first_node || !downstream[input - scope.first_node]) continue;
    if (w.node(input).needs_grad) return index;
    index = input;
    i = 0;
  }
  return index;
}

// Follows what was computed from a parameter up to where no gradient comes back, and says which op that is.
End end_of_path(const ScopeState& scope, const std::vector<Reached>& flows, std::uint32_t parameter) {
  auto& w = workspace();
  const auto flow = [&](std::uint32_t index) { return flows[index - scope.first_node]; };
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
      if (flow(index) != Reached::yes || flow(input) == Reached::yes) continue;
      if (w.node(input).needs_grad) return at_zero(scope, flows, index, input);
      const std::uint32_t cut = first_cut(scope, downstream, input);
      return at_cut(w.node(cut), cut);
    }
  }
  if (last == parameter) return {"nothing: no op used it", Why::unused, parameter};
  return {fmt::format("{} {}: backward started from nothing that depends on it", w.node(last).name,
                      w.node(last).value.shape()),
          Why::not_in_loss, last};
}

std::string name_of(const Node& node) {
  return node.parameter && !node.parameter->name.empty() ? fmt::format("{} {}", node.name, node.parameter->name)
                                                         : std::string(node.name);
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
    if (!node.needs_grad) {
      line.ended_at = "its start: it is not trainable";
      line.why = Why::frozen;
    } else if (flow != Reached::yes) {
      const End end = end_of_path(scope, flows, index);
      line.ended_at = end.text;
      line.why = end.why;
      line.place = detail::place_of(scope, end.node);
    }
    result.push_back(std::move(line));
  }
  return result;
}

std::string ParameterReport::text() const {
  if (gradient == Gradient::reached) return "";
  return fmt::format("{}: {}: its path ended at {}{}", parameter,
                     gradient == Gradient::zero ? "a gradient of zeros" : "no gradient", ended_at,
                     place.empty() ? "" : fmt::format(" ({})", place));
}

// -- Numbers that are not finite.

namespace {

// Where the first number that is not finite stands in x, and which it is.
void locate(NonFinite& result, const ConstView& x) {
  const Tensor copy = Tensor::copy_of(x);
  Index found = 0;
  result.number = visit(copy.dtype(), [&]<class T>() {
    for (const T& number : copy.data<T>()) {
      if constexpr (std::is_same_v<T, dual>) {
        if (!std::isfinite(number.value)) return number.value;
        if (!std::isfinite(number.tangent)) return number.tangent;
      } else {
        if (!std::isfinite(static_cast<double>(number))) return static_cast<double>(number);
      }
      ++found;
    }
    return 0.0;
  });
  result.element.assign(static_cast<std::size_t>(copy.rank()), 0);
  for (int axis = copy.rank() - 1; axis >= 0; --axis) {
    result.element[static_cast<std::size_t>(axis)] = found % copy.size(axis);
    found /= copy.size(axis);
  }
}

// Whether each node's value is infinite or NaN somewhere, and so is what came of it in the end: scores of -inf that a
// softmax hides are no fault.
std::vector<bool> harmed(const ScopeState& scope, std::uint32_t end) {
  auto& w = workspace();
  std::vector<bool> bad(end - scope.first_node), used(bad.size()), spread(bad.size());
  for (std::size_t i = bad.size(); i-- > 0;) {
    const Node& node = w.node(scope.first_node + static_cast<std::uint32_t>(i));
    const bool infinite = node.value.dtype() != DType::i32 && !is_finite(node.value);
    bad[i] = infinite && (spread[i] || !used[i]);
    for (std::uint16_t k = 0; k < node.input_count; ++k) {
      if (node.inputs[k] < scope.first_node) continue;
      const std::size_t input = node.inputs[k] - scope.first_node;
      used[input] = true;
      if (bad[i]) spread[input] = true;
    }
  }
  return bad;
}

std::optional<NonFinite> first_in_forward(const ScopeState& scope) {
  auto& w = workspace();
  const std::uint32_t end = scope.seed ? scope.start + 1 : w.node_count;
  const std::vector<bool> bad = harmed(scope, end);
  for (std::uint32_t index = scope.first_node; index < end; ++index) {
    if (!bad[index - scope.first_node]) continue;
    const Node& node = w.node(index);
    NonFinite result{NonFinite::Phase::forward, name_of(node), node.value.shape(), "", {}, 0,
                     detail::place_of(scope, index)};
    locate(result, node.value);
    return result;
  }
  return std::nullopt;
}

std::optional<NonFinite> first_in_backward(ScopeState& scope) {
  auto& w = workspace();
  std::optional<NonFinite> found;
  const auto after = [&](std::uint32_t index, const Node& node) {
    const Node& root = w.node(node.root);
    for (std::uint16_t k = 0; k < root.input_count && !found; ++k) {
      const Node& input = w.node(root.inputs[k]);
      const Node& target = w.node(input.root);
      if (!input.needs_grad || !target.gradient || is_finite(gradient_place(input))) continue;
      found = NonFinite{NonFinite::Phase::backward, node.name, node.value.shape(), name_of(input), {}, 0,
                        detail::place_of(scope, index)};
      locate(*found, gradient_place(input));
    }
  };
  probe(scope, [](std::uint32_t, const Node&) {}, after);
  return found;
}

}  // namespace

std::optional<NonFinite> Tape::find_nonfinite() {
  ScopeState& scope = *state_;
  check(workspace().innermost == &scope, "find_nonfinite: ask this tape while no other scope is open inside of it");
  std::optional<NonFinite> found = first_in_forward(scope);
  if (found || !scope.seed) return found;
  detail::check_unchanged(scope);
  return first_in_backward(scope);
}

std::string NonFinite::text() const {
  const std::string at = place.empty() ? "" : fmt::format(" ({})", place);
  const std::string where = fmt::format("[{}]", fmt::join(element, ", "));
  const std::string value = std::isnan(number) ? "nan" : fmt::format("{}", number);  // a NaN's sign says nothing
  if (phase == Phase::forward) return fmt::format("{} {}{}: element {} is {}", op, shape, at, where, value);
  return fmt::format("the rule of {} {}{}: it makes element {} of the gradient of {} {}", op, shape, at, where, input,
                     value);
}

}  // namespace attune
