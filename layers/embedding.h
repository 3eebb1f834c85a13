// A vector for each of a number of tokens.
#pragma once

#include "attune/layers/linear.h"

namespace attune {

struct EmbeddingOptions {
  Index tokens = 0, width = 0;
  double deviation = 1;  // of the initial vectors
};

struct Embedding {
  Parameter weight;  // [tokens, width]

  Embedding(const EmbeddingOptions& options, Rng& rng)
      : weight(normal_parameter({options.tokens, options.width}, options.deviation, rng)) {}

  // ids i32 [...] -> [..., width]
  Var operator()(Var ids) const { return embedding(weight, ids); }

  void each(auto&& visit) { visit("weight", weight); }
  void each(auto&& visit) const { visit("weight", weight); }
};

}  // namespace attune
