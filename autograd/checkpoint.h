// checkpoint(f, x...): f(x...), computed again in backward instead of being remembered (Griewank & Walther 2000;
// Chen et al. 2016). A tape then holds f's inputs and its result, and none of what lies between.
//
//   for (const TransformerBlock& block : model.blocks)
//     x = checkpoint([&block](Var x) { return block(x); }, x);
//
// The bits are those of f(x...), of the result and of every gradient: dropout drops the same the second time. Only of an x
// that is a view, as a slice, or a parameter, the parts of a gradient are summed in another order, where f reads it more
// than once. (Files of weights are layers/checkpoint.h's matter.)
#pragma once

#include <new>

#include "attune/autograd/op.h"

namespace attune {

namespace detail {
using Recomputed = Var (*)(const void* f, std::span<const Var> inputs);
Var checkpoint(Recomputed call, const void* f, std::span<const Var> inputs, std::source_location where);
}  // namespace detail

// f takes as many Vars as are given, and returns one. It is kept until the tape ends, so it is trivially copyable: a
// lambda that captures models by reference (they must live until backward) and numbers by value. Vars that f needs come
// in as arguments: one that it captured from the tape around it would lose its gradient, and is an error.
template <class F, class... Inputs>
  requires(sizeof...(Inputs) > 0 && (std::is_convertible_v<Inputs, Var> && ...))
Var checkpoint(const F& f, Inputs... inputs) {
  static_assert(std::is_trivially_copyable_v<F>, "f captures references and numbers");
  const auto call = [](const void* kept, std::span<const Var> vars) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) { return (*static_cast<const F*>(kept))(vars[i]...); }
    (std::index_sequence_for<Inputs...>{});
  };
  const Var list[] = {inputs...};
  const void* kept = new (detail::scope_memory(sizeof(F), alignof(F))) F(f);
  return detail::checkpoint(call, kept, list, std::source_location::current());
}

// Whether what is computed here was computed before, by the forward of a checkpoint.
bool is_recomputing();

}  // namespace attune
