// Does a model look where it must not? A mask is only as good as everything around it: an off-by-one in a slice, a mean
// over all positions, a shift in the wrong direction leak the future as well as a wrong mask does.
//
//   assert_no_leak(model);                                     // a Gpt, on random tokens: nothing comes from the future
//   assert_no_leak(layer, x, Mask::causal());                  // a layer on x [B, T, C]
//   const LeakReport report = find_leaks([&](Var memory) { return decoder(x, memory, mask); }, memory, mask);
//
// The gradient of the output at place t with respect to the input at place s is taken for every t, through the whole
// model. It must be exactly 0 where the mask hides s from t, and for every other sequence of the batch; and it must not be
// where s is visible, or else the test would pass a model that looks at nothing. Parameters keep the gradients they have.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <vector>

#include "attune/layers/gpt.h"
#include "attune/layers/mask.h"

namespace attune {

struct LeakOptions {
  // How many attentions stand one behind the other: t sees in `layers` steps what each sees in one. It matters for
  // windows and allow(), not for causal masks.
  int layers = 1;
  bool own = true;  // whether a token sees itself whatever the mask says, as through a residual stream
  bool training = false;
  std::uint64_t seed = 0;  // of what is differentiated, and of dropout
};

// One pair of places, and the largest |gradient| between them.
struct LeakPair {
  Index of = 0, output = 0;  // the sequence and the place t
  Index in = 0, input = 0;   // the sequence and the place s
  double gradient = 0;
};

struct LeakReport {
  Index hidden = 0, visible = 0;  // pairs that were looked at
  std::vector<LeakPair> leaks;    // hidden, with a gradient
  std::vector<LeakPair> blind;    // visible, without
  std::string mask;

  bool passed() const { return leaks.empty() && blind.empty(); }
  explicit operator bool() const { return passed(); }
  std::string text() const;
};

// f of x [B, S, ...] -> [B, L, ...]. Where x holds token ids, what is differentiated is what the model makes of them
// first: its first tap named "residual", as that of a Gpt behind its embeddings.
LeakReport find_leaks(const std::function<Var(Var)>& f, const Tensor& x, const Mask& mask,
                      const LeakOptions& options = {});

// The same; throws std::logic_error with the report's text where it does not pass.
void assert_no_leak(const std::function<Var(Var)>& f, const Tensor& x, const Mask& mask, const LeakOptions& options = {});
// A Gpt of whatever options, on two random sequences as long as its context. More pairs may be hidden than the future.
void assert_no_leak(const Gpt& model, const Mask& mask = Mask::causal(), const LeakOptions& options = {});

}  // namespace attune
