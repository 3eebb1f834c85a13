// Pictures for the terminal, character by character.
#include "attune/layers/draw.h"

#include "../lib/kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

TEST_CASE("draw: five shades, and what is no weight shows") {
  CHECK(draw_attention(tensor({{0, 0.01, 0.02, 0.1, 0.2, 0.25, 0.5, 0.6, 0.7, 0.8, 1}})) ==
        " ····░░░░▒▒▒▒▓▓▓▓▓▓████\n");
  CHECK(draw_attention(full({1, 1}, kNan)) == " ??\n");
  CHECK(draw_attention(full({1, 1}, -0.5)) == " ??\n");
  CHECK(draw_attention(full({1, 1}, 2)) == " ██\n");
}

TEST_CASE("draw: a map with labels, queries down the side, keys along the top") {
  const Tensor weights = tensor({{1, 0, 0}, {0.5, 0.5, 0}, {0, 0.25, 0.75}}, f64);
  const std::vector<std::string> names = {"a", "b", "|"};
  CHECK(draw_attention(weights, names, names) ==
        "  a b | \n"
        "a ██····\n"
        "b ▓▓▓▓··\n"
        "| ··▒▒▓▓\n");
}

TEST_CASE("draw: labels of several letters are aligned, and missing ones are blank") {
  const Tensor weights = tensor({{1, 0}, {0, 1}});
  const std::vector<std::string> queries = {"the", "a"}, keys = {"it"};
  CHECK(draw_attention(weights, queries, keys) ==
        "    it  \n"
        "the ██··\n"
        "  a ··██\n");
  CHECK(draw_attention(weights, std::vector<std::string>{"q"}) == "q ██··\n  ··██\n");
}

TEST_CASE("draw: any layout, any type, and a map of nothing") {
  const Tensor weights = tensor({{1, 0}, {0.25, 0.75}}, f64);
  CHECK(draw_attention(weights.view().t()) == " ██▒▒\n ··▓▓\n");
  CHECK(draw_attention(weights.to(f32)) == draw_attention(weights));
  CHECK(draw_attention(Tensor({0, 3})) == "");
  CHECK(draw_attention(Tensor({2, 0})) == " \n \n");
}

TEST_CASE("draw: what is no map is refused") {
  CHECK_THROWS_WITH_AS(draw_attention(Tensor({2, 3, 3})),
                       "draw_attention: [2, 3, 3] is no map of [queries, keys]", std::invalid_argument);
}

TEST_CASE("sparkline: from the least to the largest") {
  CHECK(sparkline(std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}) == "▁▂▃▄▅▆▇█");
  CHECK(sparkline(std::vector<double>{7, 0, 7}) == "█▁█");
  CHECK(sparkline(std::vector<double>{-3, -2, -1}) == "▁▅█");
}

TEST_CASE("sparkline: a constant lies at the bottom, and nothing is nothing") {
  CHECK(sparkline(std::vector<double>{5, 5, 5}) == "▁▁▁");
  CHECK(sparkline(std::vector<double>{5}) == "▁");
  CHECK(sparkline({}) == "");
}

TEST_CASE("sparkline: points beyond the width are averaged") {
  CHECK(sparkline(std::vector<double>{0, 2, 4, 4, 8, 8, 6, 8}, 4) == "▁▄█▇");  // 1, 4, 8, 7
  CHECK(sparkline(std::vector<double>{1, 2, 3}, 1) == "▁");
  CHECK(sparkline(std::vector<double>{1, 2, 3}, 0) == "▁");
}

TEST_CASE("sparkline: what is not finite is marked, and the rest is drawn as if it were not there") {
  CHECK(sparkline(std::vector<double>{0, kNan, 7}) == "▁?█");
  CHECK(sparkline(std::vector<double>{0, 7, kNan}) == "▁█?");
  CHECK(sparkline(std::vector<double>{kNan, 0, 7}) == "?▁█");
  CHECK(sparkline(std::vector<double>{0, kInf, 7, -kInf}) == "▁?█?");
  CHECK(sparkline(std::vector<double>{kNan, kNan}) == "??");
}
