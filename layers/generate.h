// From logits to tokens: sampling, and going on from a prompt.
#pragma once

#include <functional>
#include <vector>

#include "attune/layers/gpt.h"

namespace attune {

struct SampleOptions {
  double temperature = 1;  // logits are divided by it; at 0 the largest wins, the first of equals
  Index top_k = 0;         // only the k largest logits can be drawn; 0: all
  double top_p = 1;        // only the most probable tokens that together reach this probability (Holtzman et al. 2020)
};

// A token number, drawn from softmax(logits / temperature), logits [V]. Computed in double; of equal logits the first
// count as larger. Takes one position of `rng`, and none at temperature 0. A NaN, or nothing but -inf, is an error.
std::int32_t sample(const ConstView& logits, const SampleOptions& options, Rng& rng);

struct GenerateOptions {
  Index tokens = 100;  // at most so many
  SampleOptions sampling = {};
  std::vector<std::int32_t> stop = {};                // generation ends before any of these
  std::function<void(std::int32_t)> each = nullptr;   // sees each token as it is drawn
};

// What the model says after the prompt, at least one token long. Every token is drawn from the logits of what came
// before, the last `context` tokens of it. A cache saves reading them again until they no longer fit. An empty prompt,
// and a token that the model does not know, are errors.
std::vector<std::int32_t> generate(const Gpt& model, std::span<const std::int32_t> prompt,
                                   const GenerateOptions& options, Rng& rng);

}  // namespace attune
