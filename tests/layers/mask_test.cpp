// Mask: who may attend to whom.
#include "attune/layers/mask.h"

#include "../lib/kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

// A row for each query, an x for each key that it sees: "x../xx.".
std::string picture(const Mask& mask, Index queries, Index keys, Index entry = 0, Index head = 0) {
  const std::string drawn = draw_mask(mask, queries, keys, entry, head);
  std::string text;
  for (std::size_t at = 0; at < drawn.size();) {
    const bool line_ends = drawn[at] == '\n';
    if (line_ends)
      text += '/';
    else
      text += drawn.compare(at, 6, "██") == 0 ? 'x' : '.';
    at += line_ends ? 1 : text.back() == 'x' ? 6 : 4;
  }
  if (!text.empty()) text.pop_back();
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

TEST_CASE("B07: mask: with more keys than queries, the last query meets the last key") {
  CHECK(picture(Mask::causal(), 2, 4) == "xxx./xxxx");
  CHECK(picture(Mask::causal(), 1, 4) == "xxxx");
}

TEST_CASE("B07: mask: with fewer keys than queries, the first queries see nothing") {
  CHECK(picture(Mask::causal(), 4, 2) == "../../x./xx");
}

TEST_CASE("B07: mask: aligned at the top left by name only, the first query meets the first key") {
  CHECK(picture(Mask::causal(Align::top_left), 2, 4) == "x.../xx..");
  CHECK(picture(Mask::causal(Align::top_left), 1, 4) == "x...");
  CHECK(picture(Mask::causal(Align::top_left), 4, 2) == "x./xx/xx/xx");
  CHECK(picture(Mask::causal(Align::top_left), 3, 3) == picture(Mask::causal(), 3, 3));
}

TEST_CASE("B13: mask: a window is the n keys up to and including the query's own") {
  CHECK(picture(Mask::window(1), 4, 4) == "x.../.x../..x./...x");
  CHECK(picture(Mask::window(2), 4, 4) == "x.../xx../.xx./..xx");
  CHECK(picture(Mask::window(4), 4, 4) == picture(Mask::causal(), 4, 4));
  CHECK(picture(Mask::window(9), 4, 4) == picture(Mask::causal(), 4, 4));
  CHECK(picture(Mask::window(2), 1, 4) == "..xx");
  CHECK(picture(Mask::window(2), 2, 4) == ".xx./..xx");
  CHECK(picture(Mask::window(2), 4, 2) == "../../x./xx");
  CHECK(picture(Mask::window(2, Align::top_left), 2, 4) == "x.../xx..");
  CHECK(picture(Mask::window(2, Align::top_left), 4, 2) == "x./xx/.x/..");
}

TEST_CASE("B13: mask: a window without a key is refused") {
  CHECK_THROWS_WITH_AS(Mask::window(0), "mask: a window of 0 keys: a query sees at least the key at its own place",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(Mask::window(-1), "mask: a window of -1 keys: a query sees at least the key at its own place",
                       std::invalid_argument);
}

TEST_CASE("mask: padding, the first keys of each batch entry") {
  const Mask mask = Mask::padding({2, 0, 3});
  CHECK(picture(mask, 2, 3, 0) == "xx./xx.");
  CHECK(picture(mask, 2, 3, 1) == ".../...");
  CHECK(picture(mask, 2, 3, 2) == "xxx/xxx");
  CHECK_THROWS_WITH_AS(Mask::padding({2, -1}), "mask: batch entry 1 has a length of -1", std::invalid_argument);
  CHECK_THROWS_WITH_AS(Mask::padding(tensor({2, 5})), "mask: padding takes lengths in i32, not f32",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(Mask::padding(std::span<const Index>()), "mask: padding needs a length for each batch entry",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(draw_mask(mask, 2, 3, 3), "draw_mask: there is no batch entry 3 of 3", std::invalid_argument);
}

TEST_CASE("B04: mask: allow says who may, in i32 of 1 and 0") {
  const Tensor allowed = tensor({{1, 0, 1}, {0, 0, 0}}, i32);
  CHECK(picture(Mask::allow(allowed), 2, 3) == "x.x/...");
  CHECK(picture(Mask::allow(tensor({0, 1, 1}, i32)), 2, 3) == ".xx/.xx");
  CHECK_THROWS_WITH_AS(
      Mask::allow(tensor({{0, 1}, {1, 0}})),
      "mask: allow takes i32 of 1 (may attend) and 0, not f32: numbers to add to the scores are a bias",
      std::invalid_argument);
  CHECK_THROWS_WITH_AS(Mask::allow(tensor({{0, 1}, {2, 0}}, i32)), "mask: allow takes 1 (may attend) and 0, not 2",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(draw_mask(Mask::allow(allowed), 2, 4),
                       "draw_mask: allow [2, 3] does not stretch to 2 queries and 4 keys", std::invalid_argument);
}

TEST_CASE("mask: allow by batch entry and head") {
  const Tensor allowed = tensor({{{{1, 0}}, {{0, 1}}}, {{{1, 1}}, {{0, 0}}}}, i32);  // [2, 2, 1, 2]
  const Mask mask = Mask::allow(allowed);
  CHECK(picture(mask, 1, 2, 0, 0) == "x.");
  CHECK(picture(mask, 1, 2, 0, 1) == ".x");
  CHECK(picture(mask, 1, 2, 1, 0) == "xx");
  CHECK(picture(mask, 1, 2, 1, 1) == "..");
}

TEST_CASE("mask: combined, what all of them allow") {
  CHECK(picture(Mask::causal() & Mask::padding({2}), 3, 3) == "x../xx./xx.");
  CHECK(fmt::format("{}", Mask::padding(tensor({2, 5}, i32))) == "padding(2, 5)");
  CHECK(picture(Mask::causal() & Mask::allow(tensor({1, 0, 1}, i32)), 3, 3) == "x../x../x.x");
  CHECK(picture(Mask::window(3) & Mask::window(2), 3, 3) == picture(Mask::window(2), 3, 3));
  CHECK(picture(Mask::window(2) & Mask(), 3, 3) == picture(Mask::window(2), 3, 3));
  CHECK(picture(Mask::causal() & Mask::causal(Align::top_left), 2, 4) == "x.../xx..");
  CHECK(picture(Mask::causal() & Mask::causal(Align::top_left), 4, 2) == "../../x./xx");
  CHECK(picture(Mask::padding({3, 1}) & Mask::padding({2, 2}), 1, 3, 0) == "xx.");
  CHECK(picture(Mask::padding({3, 1}) & Mask::padding({2, 2}), 1, 3, 1) == "x..");
  const Mask both = Mask::allow(tensor({{1}, {0}}, i32)) & Mask::allow(tensor({{1, 0, 1}}, i32));
  CHECK(picture(both, 2, 3) == "x.x/...");
  CHECK_THROWS_WITH_AS(Mask::padding({1}) & Mask::padding({1, 2}),
                       "mask: paddings of 1 and of 2 lengths cannot be combined", std::invalid_argument);
}

TEST_CASE("mask: it shares what it holds with its copies, and keeps it from changes of the tensor") {
  Tensor allowed = tensor({{1, 0}}, i32);
  const Mask mask = Mask::allow(allowed);
  const Mask copy = mask;
  CHECK(copy.allowed() == mask.allowed());
  allowed.set({0, 0}, 0);
  CHECK(picture(copy, 1, 2) == "x.");
}

TEST_CASE("mask: as text and as a picture") {
  CHECK(fmt::format("{}", Mask()) == "all");
  CHECK(fmt::format("{}", Mask::causal()) == "causal");
  CHECK(fmt::format("{}", Mask::causal(Align::top_left)) == "causal(top left)");
  CHECK(fmt::format("{}", Mask::window(3) & Mask::padding({2, 5})) == "window(3) & padding(2, 5)");
  CHECK(fmt::format("{}", Mask::window(3, Align::top_left)) == "window(3, top left)");
  CHECK(fmt::format("{}", Mask::causal() & Mask::allow(tensor({{1, 0}}, i32))) == "causal & allow([1, 2])");
  CHECK(fmt::format("{:2x3}", Mask::causal()) == "████··\n██████\n");
  CHECK(fmt::format("{:2x3}", Mask::causal()) == draw_mask(Mask::causal(), 2, 3));
}
