// Matrices as pictures, character by character.
#include "attune/examples/show/heat_map.h"

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

#include "attune/lib/tensor.h"

using namespace attune;
using namespace attune::show;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("heat_map: an attention map, whose masked cells are not those that are 0") {
  const Tensor weights = tensor({{1, 0, 0}, {0.5, 0.5, 0}, {0, 0.25, 0.75}});
  CHECK(heat_map(weights, attention_map({"a", "b", "|"})) ==
        "  a b |\n"
        "a ██\n"
        "b ▓▓▓▓\n"
        "| ··▒▒▓▓\n"
        "  ·· 0  ░░ 0.062  ▒▒ 0.25  ▓▓ 0.56  ██ 1  blank: masked\n");
  CHECK(contains(heat_map(weights, attention_map({"a", "b", "|"}, false)), "b ▓▓▓▓··\n"));
}

TEST_CASE("heat_map: the range is that of the numbers, unless given") {
  CHECK(heat_map(tensor({{-1, 0, 1}})) == " ··▒▒██\n ·· -1  ░░ -0.5  ▒▒ 0  ▓▓ 0.5  ██ 1\n");
  CHECK(heat_map(tensor({{-1, 0, 1}}), {.low = 0, .high = 2, .legend = false}) == " ····▒▒\n");
  CHECK(heat_map(tensor({{3, 3}}), {.legend = false}) == " ····\n");
  CHECK(heat_map(tensor({{0, NAN, 1, INFINITY}}), {.legend = false}) == " ··??██??\n");
}

TEST_CASE("heat_map: colours are of 256, and masked cells have none") {
  const std::string text =
      heat_map(tensor({{0, 1}, {0, 0}}),
               {.shown = [](Index, Index column) { return column == 1; }, .legend = false}, {.colors = true});
  CHECK(text == "\033[2m\033[0m   \033[48;5;226m  \033[0m\n\033[2m\033[0m   \033[48;5;53m  \033[0m\n");
}

TEST_CASE("heat_map: cells are as wide as their labels, where there is room") {
  const std::vector<std::string> keys = {"10", "20", "300"};
  const Tensor row = tensor({{0, 1, 0}});
  CHECK(heat_map(row, {.columns = keys, .legend = false}) == " 10  20  300\n ····████····\n");
  CHECK(heat_map(row, {.columns = keys, .legend = false}, {.width = 8}) == " 10  300\n ··██··\n");
}

TEST_CASE("heat_map: what is too wide is drawn in means") {
  const Tensor wide = full({4, 160}, 1);
  const std::string text = heat_map(wide, {.low = 0, .high = 1});
  CHECK(contains(text, "the mean of 3 x 3"));
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line); ++number) CHECK(columns(line) <= 80);
  CHECK(number == 3);  // two of cells, and the legend
}

TEST_CASE("heat_map: nothing, and what is no matrix") {
  CHECK(heat_map(Tensor({0, 3}), {.legend = false}) == "");
  CHECK_THROWS_WITH_AS(heat_map(Tensor({2})), "heat_map: [2] is no matrix of [rows, columns]",
                       std::invalid_argument);
  CHECK_THROWS_AS(svg_heat_map(Tensor({2})), std::invalid_argument);
}

TEST_CASE("svg_heat_map: a cell for each number, masked ones of a class of their own, tokens escaped") {
  HeatMapOptions options = attention_map({"<", "&"});
  options.title = "head 0";
  const std::string text = svg_heat_map(tensor({{1, 0}, {0.5, 0.5}}), options).text();
  CHECK(count(text, "class=\"masked\"") == 1);
  CHECK(count(text, "<rect") == 4 + 16);  // and the legend's
  CHECK(contains(text, "<title>&amp; &lt;: 0.5</title>"));
  CHECK(contains(text, "#fde725"));  // 1
}

TEST_CASE("svg_heat_map: cells with numbers, links and hatching") {
  HeatMapOptions options{.rows = {"a rule of some length"}, .columns = {"8", "32"}};
  options.text = [](Index, Index column) { return column == 0 ? std::string("<9") : std::string("82"); };
  options.link = [](Index, Index column) { return column == 0 ? std::string() : std::string("#a\"b"); };
  options.hatched = [](Index, Index column) { return column == 0; };
  const std::string body = svg_heat_map(tensor({{1, 2}}), options).body;
  const auto has = [&](const std::string& part) { return body.find(part) != body.npos; };
  CHECK(has("class=\"cell halo\" text-anchor=\"middle\">&lt;9</text>"));
  CHECK(has("<path class=\"hatch\""));
  CHECK(has("<a href=\"#a&quot;b\"><rect"));
  CHECK(has(">a rule of some length<"));  // not shortened, as it would be beside an attention map
  CHECK(svg_heat_map(tensor({{1, 2}}), {.cell = 5}).width < 200);
}
