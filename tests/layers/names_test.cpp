#include "attune/layers/names.h"

#include <doctest/doctest.h>

using namespace attune;

TEST_CASE("a pattern describes whole names, with stars for any characters") {
  CHECK(matches_pattern("token.weight", "token.weight"));
  CHECK(matches_pattern("token.weight", "token.*"));
  CHECK(matches_pattern("token.weight", "*.weight"));
  CHECK(matches_pattern("token.weight", "*"));
  CHECK(matches_pattern("blocks.0.mlp.up.weight", "blocks.*.up.*"));
  CHECK(matches_pattern("token.weight", "token.weight*"));
  CHECK(matches_pattern("aab", "*ab"));
  CHECK(matches_pattern("abab", "a*b*b"));
  CHECK(matches_pattern("", "*"));
  CHECK(matches_pattern("", ""));
  CHECK_FALSE(matches_pattern("token.weight", "token"));
  CHECK_FALSE(matches_pattern("token.weight", "weight"));
  CHECK_FALSE(matches_pattern("token.weight", ""));
  CHECK_FALSE(matches_pattern("", "a"));
  CHECK_FALSE(matches_pattern("abc", "a*bc*d"));
  CHECK_FALSE(matches_pattern("token.weight", "tokens.*"));
}

TEST_CASE("the names nearest to a misspelt one come first") {
  const std::string names[] = {"token.weight", "position.weight", "norm.weight", "norm.bias"};
  using Names = std::vector<std::string>;
  CHECK(nearest_names("tokn.weight", names, 1) == Names{"token.weight"});
  CHECK(nearest_names("tokens.*", names, 1) == Names{"token.weight"});
  CHECK(nearest_names("norm.bais", names, 2) == Names{"norm.bias", "norm.weight"});
  CHECK(nearest_names("*.bia", names, 1) == Names{"norm.bias"});
  CHECK(nearest_names("x", names).size() == 4);
  CHECK(nearest_names("x", {}).empty());
}

TEST_CASE("no_such: what is said of a name that there is not") {
  const std::vector<std::string> names = {"copy", "reverse", "sort"};
  CHECK(no_such("task", "cpoy", names) == "no such task; did you mean copy? There are copy, reverse, sort");
  CHECK(no_such("task", "", names, 3) == "no such task; did you mean copy? There are copy, reverse, sort");
  CHECK(no_such("task", "sotr", names, 2) == "no such task; did you mean sort?");
  CHECK(no_such("task", "cpoy", {}) == "no such task");
}
