// Pictures as SVG: one file, no script, nothing from elsewhere; light or dark as the reader's page is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attune::show {

// A picture: what is drawn in a rectangle of so many pixels.
struct Svg {
  double width = 0, height = 0;
  std::string body;  // elements

  // As a file. Colours follow the reader's preference (prefers-color-scheme); `title` is for those who
  // listen.
  std::string text(std::string_view title = "") const;
  // As part of an HTML page that has svg_style() once: as wide as drawn, or as its place, if that is
  // narrower; but never so small that its text could not be read: a narrow place has to scroll.
  std::string inline_text(std::string_view title = "") const;
};

// The style sheet of all pictures, as an element.
std::string_view svg_style();

// Pictures in rows of `across`, under a title.
Svg svg_grid(const std::vector<Svg>& pictures, int across, std::string_view title = "");

// Text as XML has it: markup escaped, and what no XML may hold, as control characters and bytes that are not
// UTF-8, as U+FFFD.
std::string svg_escape(std::string_view text);

// A text of class "label", "small" or "title", anchored at "start", "middle" or "end".
std::string svg_text(double x, double y, std::string_view text, std::string_view style = "label",
                     std::string_view anchor = "start");

}  // namespace attune::show
