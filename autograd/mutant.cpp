#include "attune/autograd/mutant.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "attune/autograd/reverse.h"

namespace attune {

using detail::Node;
using detail::SavedNumbers;
using detail::ScopeState;
using detail::workspace;

struct Mutant::State {
  MutantOptions options;
  int made = 0;
  // Of the tape that was seen last.
  std::uint32_t generation = 0;
  int seen = 0;
  std::vector<SavedNumbers> saved;
  std::function<void(std::uint32_t)>* before = nullptr;
  std::vector<SavedNumbers>* saved_before = nullptr;
  std::function<void(std::uint32_t)> hook;
};

namespace {

// A rule in the place of another. It stands in the tape's memory, as captures do.
struct Wrapper {
  void (*rule)(const void*);
  const void* captures;
  std::uint32_t index;
  const MutantOptions* options;
  View stale;  // what is to be changed before it runs
};

// An input that a rule writes to, under the first number that it has.
struct Target {
  std::uint32_t root;
  int input;
};

std::vector<Target> targets_of(const Node& node) {
  auto& w = workspace();
  const Node& owner = w.node(node.root);
  std::vector<Target> targets;
  for (int k = 0; k < owner.input_count; ++k) {
    const Node& input = w.node(owner.inputs[k]);
    if (!input.needs_grad || input.generation != node.generation) continue;
    const auto same = [&](const Target& other) { return other.root == input.root; };
    if (std::none_of(targets.begin(), targets.end(), same)) targets.push_back({input.root, k});
  }
  return targets;
}

struct Memory {
  std::string name;
  View numbers;
};

// What the rule of a node, the newest of its tape, might read.
std::vector<Memory> memories_of(const Node& node, const std::vector<SavedNumbers>& saved) {
  auto& w = workspace();
  const Node& owner = w.node(node.root);
  std::vector<Memory> list;
  std::vector<std::uint32_t> seen;
  const auto add = [&](std::uint32_t index, std::string name) {
    if (std::find(seen.begin(), seen.end(), index) != seen.end()) return;
    seen.push_back(index);
    list.push_back({std::move(name), detail::borrowed_view(w.node(index).value)});
  };
  for (int k = 0; k < owner.input_count; ++k)
    add(w.node(owner.inputs[k]).memory, fmt::format("the value of input {}", k));
  add(node.memory, "the result");
  for (const SavedNumbers& numbers : saved)
    if (numbers.generation == node.generation)
      list.push_back({fmt::format("what {} saved", node.name), numbers.numbers});
  return list;
}

// One run of a wrapped rule: what it writes is caught, changed, and then added.
class WrongRule {
 public:
  explicit WrongRule(const Wrapper& wrapper)
      : options_(*wrapper.options),
        stale_(wrapper.stale),
        y_(workspace().node(wrapper.index)),
        original_(y_),
        targets_(targets_of(y_)),
        upstream_(Tensor::copy_of(gradient_place(y_))) {
    original_.rule = wrapper.rule;
    original_.captures = wrapper.captures;
  }

  void run() {
    Written written = run_once();
    if (options_.upstream || options_.terms || options_.stale || options_.garbage) {
      Written altered = run_altered();
      for (std::size_t i = 0; i < targets_.size(); ++i)
        if (is_meant(i)) written[i] = std::move(altered[i]);
    }
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      if (!written[i] || !is_meant(i)) continue;
      auto* const mutate = std::exchange(workspace().mutate, nullptr);  // what is computed here is meant as it is
      if (options_.change) options_.change(written[i]->view());
      if (options_.replace) options_.replace(written[i]->view(), upstream_);
      workspace().mutate = mutate;
    }
    if (options_.swapped_with >= 0) swap(written);
    for (std::size_t i = 0; i < targets_.size(); ++i)
      if (written[i]) add(i, *written[i]);
    give_upstream(upstream_);
  }

 private:
  // For each target, what was written.
  using Written = std::vector<std::optional<Tensor>>;

  bool is_meant(std::size_t i) const { return options_.input < 0 || options_.input == targets_[i].input; }

  // A rule may have handed the memory on.
  void give_upstream(const Tensor& numbers) {
    detail::ensure_gradient(workspace().node(y_.root), *workspace().innermost);
    kernels::copy(gradient_place(y_), numbers);
  }

  // What the rule writes is caught in memory of its own, that of parameters too.
  Written run_once(bool into_garbage = false) {
    auto& w = workspace();
    ScopeState& scope = *w.innermost;
    give_upstream(given_ ? *given_ : upstream_);
    std::vector<std::pair<void*, bool>> asides;
    for (const Target& target : targets_) {
      Node& root = w.node(target.root);
      asides.emplace_back(std::exchange(root.gradient, nullptr), std::exchange(root.touched, into_garbage));
      if (!into_garbage) continue;
      root.gradient = w.gradients.take(gradient_bytes(root));
      Rng random(17, target.root);
      fill_normal(View(root.gradient, gradient_layout(root)), random);
    }
    const bool sparing = std::exchange(scope.sparing, true);
    detail::run_rule(original_);
    scope.sparing = sparing;
    Written written(targets_.size());
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      Node& root = w.node(targets_[i].root);
      if (root.touched) written[i] = Tensor::copy_of(View(root.gradient, gradient_layout(root)));
      if (root.gradient) w.gradients.give(root.gradient, gradient_bytes(root));
      root.gradient = asides[i].first;
      root.touched = asides[i].second;
    }
    return written;
  }

  Written run_altered() {
    Tensor upstream = upstream_.clone();
    if (options_.upstream) options_.upstream(upstream.view());
    given_ = &upstream;
    std::optional<Tensor> right;
    if (options_.stale) {
      right = Tensor::copy_of(stale_);
      options_.stale(stale_);
    }
    Written written = options_.terms ? run_terms(upstream) : run_once(options_.garbage);
    if (right) kernels::copy(stale_, right->view());
    given_ = nullptr;
    return written;
  }

  // The sum over elements of the result's gradient.
  Written run_terms(const Tensor& upstream) {
    Written sums(targets_.size());
    const Index count = upstream.count();
    for (Index element = 0; element < count; ++element) {
      Tensor alone(upstream.shape(), upstream.dtype());  // 0 elsewhere
      const auto place = [&](const auto& view) { return view.reshape({count}).slice(0, element, element + 1); };
      kernels::copy(place(alone.view()), place(upstream.view()));
      given_ = &alone;
      Written terms = run_once();
      for (std::size_t i = 0; i < targets_.size(); ++i) {
        if (!terms[i]) continue;
        if (is_meant(i)) options_.terms(terms[i]->view(), element);
        if (sums[i])
          kernels::copy(Out(sums[i]->view(), true), *terms[i]);
        else
          sums[i] = std::move(terms[i]);
      }
    }
    return sums;
  }

  void swap(Written& written) {
    const auto place_of = [&](int input) -> std::optional<Tensor>* {
      for (std::size_t i = 0; i < targets_.size(); ++i)
        if (targets_[i].input == input && written[i]) return &written[i];
      return nullptr;
    };
    auto *one = place_of(options_.input), *other = place_of(options_.swapped_with);
    if (!one || !other || (*one)->count() != (*other)->count()) return;
    const Tensor before = (*one)->clone();
    kernels::copy((*one)->view(), (*other)->view().reshape(before.shape()));
    kernels::copy((*other)->view(), before.view().reshape((*other)->shape()));
  }

  void add(std::size_t i, const Tensor& written) {
    const std::uint32_t root = targets_[i].root;
    Out place = add_to(VarAccess::make(root, workspace().node(root).generation));
    if (is_meant(i) && options_.assigns) place.accumulate = false;
    kernels::copy(place, written);
  }

  const MutantOptions& options_;
  View stale_;
  Node& y_;
  Node original_;
  std::vector<Target> targets_;
  Tensor upstream_;
  const Tensor* given_ = nullptr;  // what the rule reads in its place
};

void run_wrapped(const void* kept) { WrongRule(*static_cast<const Wrapper*>(kept)).run(); }

// Counts the ops of one name on a tape.
class Counter {
 public:
  int operator()(const Node& node) {
    if (generation_ != node.generation) seen_.clear();
    generation_ = node.generation;
    return seen_[node.name]++;
  }

 private:
  std::uint32_t generation_ = 0;
  std::map<std::string, int> seen_;
};

}  // namespace

Mutant::Mutant(MutantOptions options) : state_(new State{.options = std::move(options), .saved = {}, .hook = {}}) {
  state_->hook = [state = state_](std::uint32_t index) {
    auto& w = workspace();
    if (state->before) (*state->before)(index);
    const std::vector<SavedNumbers> saved = std::exchange(state->saved, {});
    Node& node = w.node(index);
    if (state->generation != node.generation) state->seen = 0;
    state->generation = node.generation;
    const MutantOptions& wanted = state->options;
    if (wanted.op != node.name) return;
    if (const int number = state->seen++; wanted.which >= 0 && wanted.which != number) return;
    View stale;
    if (wanted.stale) {
      const std::vector<Memory> memories = memories_of(node, saved);
      if (wanted.saved < 0 || wanted.saved >= static_cast<int>(memories.size())) return;
      stale = memories[static_cast<std::size_t>(wanted.saved)].numbers;
    }
    ++state->made;
    void* memory = detail::scope_memory(sizeof(Wrapper), alignof(Wrapper));
    node.captures = new (memory) Wrapper{node.rule, node.captures, index, &wanted, stale};
    node.rule = run_wrapped;
  };
  state_->before = std::exchange(workspace().mutate, &state_->hook);
  state_->saved_before =
      std::exchange(workspace().saved_log, state_->options.stale ? &state_->saved : workspace().saved_log);
}

Mutant::~Mutant() {
  workspace().mutate = state_->before;
  workspace().saved_log = state_->saved_before;
  delete state_;
}

int Mutant::count() const { return state_->made; }

std::vector<MutantTarget> mutant_targets(const std::function<Var()>& f, Rng* random) {
  auto& w = workspace();
  std::vector<MutantTarget> result;
  std::vector<SavedNumbers> saved;
  Counter count;
  std::function<void(std::uint32_t)> hook = [&](std::uint32_t index) {
    const Node& node = w.node(index);
    const std::vector<Target> targets = targets_of(node);
    MutantTarget common{node.name, count(node), 0, node.value.shape(), {}};
    for (const Target& target : targets) common.inputs.push_back(target.input);
    for (const Memory& memory : memories_of(node, std::exchange(saved, {}))) common.saved.push_back(memory.name);
    for (const Target& target : targets) {
      MutantTarget one = common;
      one.input = target.input;
      one.shape = w.node(w.node(node.root).inputs[target.input]).value.shape();
      result.push_back(std::move(one));
    }
  };
  struct Hooked {
    std::function<void(std::uint32_t)>* mutate;
    std::vector<SavedNumbers>* saved_log;
    ~Hooked() { workspace().mutate = mutate, workspace().saved_log = saved_log; }
  } const hooked{std::exchange(w.mutate, &hook), std::exchange(w.saved_log, &saved)};
  const Tape tape({.random = random});
  f();
  return result;
}

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
    if (written.rank() < 2) return;
    const Tensor turned = Tensor::copy_of(Tensor::copy_of(written).view().t());
    kernels::copy(written, turned.view().reshape(written.shape()));
  };
}

std::function<void(const View&)> moved_on() {
  return [](const View& written) {
    const Index count = written.count();
    const Tensor before = Tensor::copy_of(written);
    Tensor after = before.clone();
    const auto all = [=](const auto& view) { return view.reshape({count}); };
    if (count < 2) return;
    kernels::copy(all(after.view()).slice(0, 0, count - 1), all(before.view()).slice(0, 1, count));
    kernels::copy(all(after.view()).slice(0, count - 1, count), all(before.view()).slice(0, 0, 1));
    kernels::copy(written, after);
  };
}

}  // namespace attune
