// The loop of backward, for those that run rules. Internal.
#pragma once

#include "attune/autograd/op.h"
#include "attune/autograd/workspace.h"

namespace attune::detail {

// Every version is checked before the first rule runs, so that nothing is half done.
void check_unchanged(const ScopeState& scope);

// Adds what a rule caught because its place was not distinct.
void add_delayed(std::size_t first);

// One rule, and what it left to do.
inline void run_rule(const Node& node) {
  Workspace& w = workspace();
  const Arena::Mark scratch = w.arena.mark();
  const std::size_t delayed = w.delayed.size();
  node.rule(node.captures);
  if (w.delayed.size() > delayed) add_delayed(delayed);
  w.arena.rewind(scratch);
}

inline void seed_gradient(Var y, const ConstView* seed) {
  Out place = add_to(y);
  if (seed) kernels::copy(place, *seed);
  else kernels::fill(place, 1);
}

// Runs every rule from node `last` down to the first of the scope. before(index, node) sees each node as it is passed,
// when all that used it has been differentiated; after(index, node) when its rule has run.
template <class Before, class After>
void reverse(const ScopeState& scope, std::uint32_t last, Before&& before, After&& after) {
  Workspace& w = workspace();
  for (std::uint32_t index = last + 1; index-- > scope.first_node;) {
    Node& node = w.node(index);
    if (!node.needs_grad) continue;
    const Node& root = w.node(node.root);
    before(index, node);
    if (!root.gradient) continue;
    if (node.rule) {
      run_rule(node);
      after(index, node);
    }
    if (node.root != index || belongs_to_parameter(node, scope)) continue;
    if (node.keep && !scope.probing) w.kept.push_back(index);
    else free_gradient(node, scope);
  }
}

template <class Before>
void reverse(const ScopeState& scope, std::uint32_t last, Before&& before) {
  reverse(scope, last, before, [](std::uint32_t, const Node&) {});
}

}  // namespace attune::detail
