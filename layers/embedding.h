// A vector for each of a number of tokens.
#pragma once

#include "attune/autograd/ops.h"
#include "attune/layers/initialize.h"

namespace attune {

struct EmbeddingOptions {
  Index tokens = 0, width = 0;
  Init init = Init::normal(1);
};

struct Embedding {
  Parameter weight;  // [tokens, width]

  // One that does not exist: it has no parameters, and cannot be called.
  Embedding() = default;
  Embedding(const EmbeddingOptions& options, Rng& rng) : weight(options.init(options.tokens, options.width, rng)) {}

  // ids i32 [...] -> [..., width]. An id outside of 0 ... tokens - 1 is an error that names it and its place.
  Var operator()(Var ids) const { return embedding(weight, ids); }

  void each(auto&& visit) { visit("weight", weight); }
};

}  // namespace attune
