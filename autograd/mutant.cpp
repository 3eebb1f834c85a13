#include "attune/autograd/mutant.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "attune/autograd/reverse.h"

namespace attune {

using detail::Node;
using detail::ScopeState;
using detail::workspace;

struct Mutant::State {
  MutantOptions options;
  int made = 0;
  // Of the tape that was seen last.
  std::uint32_t generation = 0;
  int seen = 0;
  std::function<void(std::uint32_t)>* before = nullptr;
  std::function<void(std::uint32_t)> hook;
};

namespace {

// A rule in the place of another. It stands in the tape's memory, as captures do.
struct Wrapper {
  void (*rule)(const void*);
  const void* captures;
  std::uint32_t index;
  const MutantOptions* options;
};

struct Aside {
  std::uint32_t root;
  void* gradient;
  bool touched;
};

void add_changed(const Wrapper& wrapper, const Aside& aside, int input) {
  Node& root = workspace().node(aside.root);
  void* const written = std::exchange(root.gradient, aside.gradient);
  const bool wrote = std::exchange(root.touched, aside.touched);
  if (!written) return;
  const View contribution(written, gradient_layout(root));
  const bool meant = wrapper.options->input < 0 || wrapper.options->input == input;
  if (wrote) {
    if (meant && wrapper.options->change) wrapper.options->change(contribution);
    Out place = add_to(VarAccess::make(aside.root, root.generation));
    if (meant && wrapper.options->assigns) place.accumulate = false;
    kernels::copy(place, contribution);
  }
  workspace().gradients.give(written, gradient_bytes(root));
}

void run_wrapped(const void* kept) {
  const Wrapper wrapper = *static_cast<const Wrapper*>(kept);
  auto& w = workspace();
  ScopeState& scope = *w.innermost;
  const Node& owner = w.node(w.node(wrapper.index).root);
  // What the rule writes is caught in memory of its own, that of parameters too.
  std::vector<std::pair<Aside, int>> asides;
  for (int k = 0; k < owner.input_count; ++k) {
    const Node& input = w.node(owner.inputs[k]);
    if (!input.needs_grad || input.generation != scope.generation) continue;
    const auto same = [&](const auto& other) { return other.first.root == input.root; };
    if (std::find_if(asides.begin(), asides.end(), same) != asides.end()) continue;
    Node& root = w.node(input.root);
    asides.push_back({{input.root, std::exchange(root.gradient, nullptr), std::exchange(root.touched, false)}, k});
  }
  const bool sparing = std::exchange(scope.sparing, true);
  Node original = w.node(wrapper.index);
  original.rule = wrapper.rule;
  original.captures = wrapper.captures;
  detail::run_rule(original);
  scope.sparing = sparing;
  for (const auto& [aside, input] : asides) add_changed(wrapper, aside, input);
}

}  // namespace

Mutant::Mutant(MutantOptions options) : state_(new State{.options = std::move(options), .hook = {}}) {
  state_->hook = [state = state_](std::uint32_t index) {
    auto& w = workspace();
    if (state->before) (*state->before)(index);
    Node& node = w.node(index);
    if (state->generation != node.generation) state->seen = 0;
    state->generation = node.generation;
    if (state->options.op != node.name) return;
    if (const int number = state->seen++; state->options.which >= 0 && state->options.which != number) return;
    ++state->made;
    void* memory = detail::scope_memory(sizeof(Wrapper), alignof(Wrapper));
    node.captures = new (memory) Wrapper{node.rule, node.captures, index, &state->options};
    node.rule = run_wrapped;
  };
  state_->before = std::exchange(workspace().mutate, &state_->hook);
}

Mutant::~Mutant() {
  workspace().mutate = state_->before;
  delete state_;
}

int Mutant::count() const { return state_->made; }

std::function<void(const View&)> scaled_by(double factor) {
  return [=](const View& written) { kernels::scale(written, written, factor); };
}

std::function<void(const View&)> without_last_row() {
  return [](const View& written) {
    if (written.rank() == 0 || written.count() == 0) return kernels::fill(written, 0);
    kernels::fill(written.select(0, written.size(0) - 1), 0);
  };
}

std::function<void(const View&)> rows_shifted() {
  return [](const View& written) {
    if (written.rank() == 0 || written.size(0) < 2) return;
    const Tensor before = Tensor::copy_of(written);
    const Index rows = written.size(0);
    for (Index i = 0; i < rows; ++i) kernels::copy(written.select(0, i), before.view().select(0, (i + 1) % rows));
  };
}

std::function<void(const View&)> transposed() {
  return [](const View& written) {
    if (written.rank() < 2 || written.size(-1) != written.size(-2)) return;
    const Tensor before = Tensor::copy_of(written);
    kernels::copy(written, before.view().t());
  };
}

}  // namespace attune
