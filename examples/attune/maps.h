// Where a model looks: its attention maps on one text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "attune/layers/gpt.h"

namespace attune::program {

struct HeadMap {
  int layer = 0;
  Index head = 0;
  Tensor weights;  // [queries, keys]

  std::string name() const;  // "layer 1, head 3"
};

// Of every head, for these tokens.
std::vector<HeadMap> attention_maps(const Gpt& model, std::span<const std::int32_t> tokens);

// The head that looks most at single tokens, other than its own, the one before it and the first. There is at least
// one.
std::size_t most_telling(const std::vector<HeadMap>& maps, Index first_query);

// The tokens as labels of a map.
std::vector<std::string> labels_of(const std::string& vocabulary, std::span<const std::int32_t> tokens);

}  // namespace attune::program
