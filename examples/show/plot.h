// Curves: in the terminal, in dots of Braille, and as SVG.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "attune/examples/show/svg.h"
#include "attune/examples/show/terminal.h"

namespace attune::show {

// How a series is drawn in an SVG: terminals always draw lines.
enum class Mark { line, thin, dashes, dots };

// A curve. What is not finite, or not above 0 on a logarithmic axis, is not drawn, and the line breaks there.
struct Series {
  std::string name = {};
  std::vector<double> y = {};
  std::vector<double> x = {};               // as many as y; none: 0, 1, 2, ...
  std::vector<double> low = {}, high = {};  // as many as y: a band around the line, as between two quantiles
  Mark mark = Mark::line;
  int color = -1;  // 0 ... 5, or 6: red, for what is wrong, or 7: grey; -1: by its place in the list
};

// A line across an SVG at x, and what it says.
struct Guide {
  double x = 0;
  std::string text = {};
};

struct PlotOptions {
  std::string title = {}, x_label = {}, y_label = {};
  bool log_x = false, log_y = false;
  int height = 12;  // lines of the terminal that the curves have

  // Of an SVG. Names stand where their lines end instead of above them; what the axes show at least; guides.
  double svg_width = 560, svg_height = 260;  // of the frame
  bool end_labels = false;
  std::vector<double> x_range = {}, y_range = {};  // {low, high}, or empty
  std::vector<Guide> guides = {};
  std::vector<double> x_ticks = {};  // instead of round numbers
};

// As wide as the terminal, up to 100 columns. Where there are no colours, each of several curves has a sign
// of its own. Series whose lengths do not agree are a std::invalid_argument.
std::string line_plot(std::span<const Series> series, const PlotOptions& options = {},
                      const Terminal& terminal = {});

Svg svg_line_plot(std::span<const Series> series, const PlotOptions& options = {});

// "⁻¹¹"
std::string superscript(int power);

// Where an axis has its ticks: about `count` round numbers (1, 2 or 5 times a power of ten) from low to high,
// or, of a logarithmic one, powers of ten; where it has few of these, 1, 2 and 5 times each.
std::vector<double> ticks(double low, double high, int count, bool logarithmic = false);

}  // namespace attune::show
