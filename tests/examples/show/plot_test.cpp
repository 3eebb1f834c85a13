// Curves, dot by dot.
#include "attune/examples/show/plot.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

using namespace attune::show;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

std::string plot(const std::vector<Series>& series, const PlotOptions& options = {},
                 const Terminal& terminal = {.width = 20}) {
  return line_plot(series, options, terminal);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("ticks: round numbers from low to high") {
  CHECK(ticks(0, 1, 5) == std::vector<double>{0, 0.2, 2 * 0.2, 3 * 0.2, 0.8, 1});
  CHECK(ticks(-3, 3, 3) == std::vector<double>{-2, 0, 2});
  CHECK(ticks(0, 499, 5) == std::vector<double>{0, 100, 200, 300, 400});
  CHECK(ticks(1, 1, 5).empty());
  CHECK(ticks(0, 1, 0).empty());
}

TEST_CASE("ticks: powers of ten on a logarithmic axis, as many as there is room for") {
  CHECK(ticks(0.5, 2000, 8, true) == std::vector<double>{1, 10, 100, 1000});
  CHECK(ticks(1e-12, 1, 4, true).size() <= 5);
  const std::vector<double> few = ticks(0.03, 4, 4, true);  // two powers of ten would say little
  REQUIRE(few.size() == 6);
  for (std::size_t i = 0; i < few.size(); ++i)
    CHECK(few[i] == doctest::Approx(std::vector<double>{0.05, 0.1, 0.2, 0.5, 1, 2}[i]));
  CHECK(ticks(2.5, 9, 4, true) == std::vector<double>{4, 6, 8});  // nor three of 1, 2 and 5 times one
}

TEST_CASE("line_plot: a straight line, its axes and their numbers") {
  CHECK(plot({{.y = {0, 1, 2, 3}}}, {.height = 4}) ==
        "  │            ⣀⠤⠒⠉\n"
        "2 ┤        ⣀⠤⠒⠊\n"
        "  │    ⡠⠤⠒⠉\n"
        "0 ┤⣀⠤⠒⠉\n"
        "  └────────────────\n"
        "   0         2\n");
}

TEST_CASE("line_plot: title, labels and names") {
  const std::string text =
      plot({{.name = "float", .y = {1, 2}}}, {.title = "Loss", .x_label = "step", .y_label = "nats"});
  CHECK(contains(text, "Loss\n── float\n"));
  CHECK(contains(text, " nats\n"));
  CHECK(contains(text, " step\n"));
}

TEST_CASE("line_plot: several curves without colours have signs, and with colours colours") {
  const std::vector<Series> two = {{.name = "a", .y = {0, 0}}, {.name = "b", .y = {1, 1}}};
  const std::string plain = plot(two), colored = plot(two, {}, {.colors = true, .width = 20});
  CHECK(contains(plain, "● a   ▲ b"));
  CHECK(contains(plain, "●●●●●"));
  CHECK(contains(plain, "▲▲▲▲▲"));
  CHECK_FALSE(contains(plain, "\033"));
  CHECK(contains(colored, "\033[34m"));
  CHECK(contains(colored, "\033[33m"));
  CHECK_FALSE(contains(colored, "●"));
}

TEST_CASE("line_plot: no line is wider than the terminal") {
  for (const int width : {20, 40, 80}) {
    const std::string text =
        plot({{.name = "x", .y = {1e-9, 5e7}}}, {.x_label = "step", .log_y = true}, {.width = width});
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK(columns(line) <= width);
  }
}

TEST_CASE("line_plot: what cannot be drawn is left out, and nothing at all is an empty frame") {
  const std::string gap = plot({{.y = {0, 0, kNan, kInf, 0, 0}}}, {.height = 2});
  CHECK(contains(gap, " ⠤") == false);
  CHECK(contains(gap, "    "));
  CHECK(contains(plot({}), "└───"));
  CHECK(contains(plot({{.y = {}}}), "└───"));
  CHECK(contains(plot({{.y = {kNan}}}), "└───"));
  CHECK(contains(plot({{.y = {5}}}), "5"));
  CHECK(contains(plot({{.y = {0, -1, 100, 1000}, .x = {0, 1, 2, 3}}}, {.log_y = true}), "100"));
}

TEST_CASE("line_plot: a band lies around its line") {
  CHECK(contains(plot({{.y = {1, 1, 1}, .low = {0, 0, 0}, .high = {2, 2, 2}}}), "░░░"));
}

TEST_CASE("plots: series whose lengths do not agree are refused") {
  const char* message = "plot: 'a' has 2 numbers y, 1 x, 0 low and 0 high";
  const std::vector<Series> wrong = {{.name = "a", .y = {1, 2}, .x = {1}}};
  CHECK_THROWS_WITH_AS(line_plot(wrong), message, std::invalid_argument);
  CHECK_THROWS_WITH_AS(svg_line_plot(wrong), message, std::invalid_argument);
  const std::vector<Series> half = {{.y = {1, 2}, .low = {1, 2}}};
  CHECK_THROWS_AS(line_plot(half), std::invalid_argument);
}

TEST_CASE("svg_line_plot: a path for each curve, and a polygon for each band") {
  const std::vector<Series> series = {{.name = "a<b", .y = {1, kNan, 3, 4}},
                                      {.y = {1, 2}, .low = {0, 1}, .high = {2, 3}}};
  const std::string text = svg_line_plot(series, {.title = "T & C"}).text("title");
  CHECK(contains(text, "a&lt;b"));
  CHECK(contains(text, "T &amp; C"));
  CHECK(contains(text, "class=\"line s0\""));
  CHECK(contains(text, "class=\"band s1\""));
  CHECK_FALSE(contains(text, "nan"));
}

TEST_CASE("svg_line_plot: dashes, dots, names at the ends of lines, guides and ticks of one's own") {
  const std::vector<Series> series = {
      {.name = "one", .y = {1, 2}, .x = {1, 4}, .mark = Mark::dashes, .color = 3},
      {.name = "two", .y = {1, 2}, .x = {1, 4}, .mark = Mark::thin},
      {.y = {1, NAN, 2}, .x = {1, 2, 4}, .mark = Mark::dots, .color = 6}};
  const Svg svg = svg_line_plot(series, {.log_x = true,
                                         .svg_width = 100,
                                         .svg_height = 80,
                                         .end_labels = true,
                                         .x_range = {1, 8},
                                         .guides = {{2, "here"}, {9, "beyond"}},
                                         .x_ticks = {1, 4, 16}});
  CHECK(contains(svg.body, "class=\"line s3 dashes\""));
  CHECK(contains(svg.body, "class=\"line s1 thin\""));
  CHECK(svg.body.find("<circle class=\"dot s6\"") != svg.body.rfind("<circle class=\"dot s6\""));
  CHECK(contains(svg.body, "class=\"name s3\" text-anchor=\"start\">one<"));
  CHECK(contains(svg.body, ">here<"));
  CHECK_FALSE(contains(svg.body, ">beyond<"));
  CHECK(contains(svg.body, ">4<"));
  CHECK_FALSE(contains(svg.body, ">16<"));  // outside of the axis
  CHECK(svg.width > 100);
}
