// Every kind of mask as a picture, what it does to the weights, and what each meaning says at its edge.
//
//   mask_gallery
//
// A row is a query, two columns are a key, and a block stands where the query may attend to the key.
#include "attune/attune.h"

using namespace attune;

namespace {

void show(const char* what, const Mask& mask, Index queries = 6, Index keys = 6) {
  fmt::print("{}\n{}\n", what, draw_mask(mask, queries, keys));
}

// The weights of one head over keys and queries that are all alike: each row divides itself among what it sees.
Tensor weights_of(const Mask& mask, Index queries, Index keys) {
  const NoGrad scope;
  const Tensor q = ones({queries, 4}), k = ones({keys, 4}), v = ones({keys, 4});
  return Tensor::copy_of(attention_with_weights(q, k, v, {.mask = mask}).weights.value());
}

}  // namespace

int main() {
  show("Mask::causal(): no one sees what comes later", Mask::causal());
  show("Mask::window(3): the last three, oneself included", Mask::window(3));
  show("Mask::padding({4}): a sequence of four in a batch of six", Mask::padding({4}));
  show("Mask::causal() & Mask::padding({4}): what both allow", Mask::causal() & Mask::padding({4}));

  const Tensor blocks = tensor({{1, 1, 0, 0, 0, 0},
                                {1, 1, 0, 0, 0, 0},
                                {0, 0, 1, 1, 0, 0},
                                {0, 0, 1, 1, 0, 0},
                                {0, 0, 0, 0, 1, 1},
                                {0, 0, 0, 0, 1, 1}}, i32);
  show("Mask::allow(tensor): three documents that do not see one another", Mask::allow(blocks));

  show("Three queries behind three cached keys: the last query meets the last key", Mask::causal(), 3, 6);
  show("The same aligned at the top left, Mask::causal(Align::top_left)", Mask::causal(Align::top_left), 3, 6);

  fmt::print("What a mask makes of equal scores, {}:\n{:.2f}\n\n", Mask::causal(), weights_of(Mask::causal(), 4, 4));
  const Mask nothing = Mask::causal() & Mask::padding({0});
  fmt::print("A query that sees no key has weights, output and gradients of zero, {}:\n{:.2f}\n", nothing,
             weights_of(nothing, 2, 2));
}
