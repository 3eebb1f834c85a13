// Mask: who may attend to whom.
#include "attune/layers/mask.h"

#include "../lib/kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

// A row for each query, an x for each key that it sees: "x../xx.".
std::string picture(const Mask& mask, Index queries, Index keys) {
  Tensor weights({queries, keys});
  kernels::softmax(weights, zeros({queries, keys}), mask.visible(queries, keys));
  std::string text;
  for (Index i = 0; i < queries; ++i) {
    if (i > 0) text += '/';
    for (Index j = 0; j < keys; ++j) text += weights.at({i, j}) > 0 ? 'x' : '.';
  }
  return text;
}

}  // namespace

TEST_CASE("mask: without one, every query sees every key") {
  CHECK(picture({}, 2, 3) == "xxx/xxx");
  CHECK(picture({}, 3, 2) == "xx/xx/xx");
}

TEST_CASE("mask: causal, a query sees its own place and what came before") {
  CHECK(picture(Mask::causal(), 4, 4) == "x.../xx../xxx./xxxx");
  CHECK(picture(Mask::causal(), 1, 1) == "x");
}

TEST_CASE("mask: with more keys than queries, the last query meets the last key") {
  CHECK(picture(Mask::causal(), 2, 4) == "xxx./xxxx");
  CHECK(picture(Mask::causal(), 1, 4) == "xxxx");
}

TEST_CASE("mask: with fewer keys than queries, the first queries see nothing") {
  CHECK(picture(Mask::causal(), 4, 2) == "../../x./xx");
}

TEST_CASE("mask: aligned at the top left by name only, the first query meets the first key") {
  CHECK(picture(Mask::causal(Align::top_left), 2, 4) == "x.../xx..");
  CHECK(picture(Mask::causal(Align::top_left), 1, 4) == "x...");
  CHECK(picture(Mask::causal(Align::top_left), 4, 2) == "x./xx/xx/xx");
  CHECK(picture(Mask::causal(Align::top_left), 3, 3) == picture(Mask::causal(), 3, 3));
}
