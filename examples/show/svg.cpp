#include "attune/examples/show/svg.h"

#include <fmt/format.h>

#include <algorithm>

#include "attune/examples/show/terminal.h"

namespace attune::show {
namespace {

// The colours of series are those of Okabe & Ito, which most colour-blind readers can tell apart; the dark
// ones are lighter. Text wants more contrast than lines: on white a series' name is darker than it (--name). On paper
// nothing is dark. Widths of text are of the font's, which the file does not bring along.
constexpr std::string_view kStyle = R"(<style>
  svg { background: #ffffff; font-family: ui-sans-serif, system-ui, "DejaVu Sans", sans-serif; }
  text { fill: #24292f; font-size: 12px; }
  rect { shape-rendering: crispEdges; }
  .small { font-size: 10px; fill: #57606a; }
  .title { font-size: 14px; font-weight: 600; }
  .axis { stroke: #57606a; fill: none; }
  .grid { stroke: #d8dee4; fill: none; }
  .masked { fill: #eef1f4; }
  .line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
  .band { stroke: none; opacity: 0.18; }
  .dot.dot { stroke: none; }
  .thin { stroke-width: 0.9; opacity: 0.45; }
  .dashes { stroke-dasharray: 5 4; }
  .guide { stroke: #57606a; stroke-dasharray: 2 3; fill: none; }
  .name { stroke: none; }
  .cell { font-size: 11px; } .cell.dark { fill: #0b0f14; } .cell.light { fill: #ffffff; }
  .cell.halo { paint-order: stroke; stroke: #eef1f4; stroke-width: 5px; stroke-linejoin: round; }
  .hatch { stroke: #8c959f; fill: none; stroke-width: 1.2; }
  .s0 { stroke: #0072b2; fill: #0072b2; --name: #0072b2; } .s1 { stroke: #d55e00; fill: #d55e00; --name: #b84a00; }
  .s2 { stroke: #009e73; fill: #009e73; --name: #007a57; } .s3 { stroke: #cc79a7; fill: #cc79a7; --name: #a3457a; }
  .s4 { stroke: #a07800; fill: #a07800; --name: #806000; } .s5 { stroke: #56b4e9; fill: #56b4e9; --name: #1b78b0; }
  .s6 { stroke: #cf222e; fill: #cf222e; --name: #cf222e; } .s7 { stroke: #6e7781; fill: #6e7781; --name: #57606a; }
  .line.line { fill: none; } .name.name { stroke: none; fill: var(--name); } .band.band { stroke: none; }
  @media screen and (prefers-color-scheme: dark) {
    svg { background: #0d1117; }
    text { fill: #e6edf3; }
    .small { fill: #9198a1; }
    .axis { stroke: #9198a1; }
    .grid { stroke: #2a313c; }
    .masked { fill: #1c2129; } .cell.halo { stroke: #1c2129; }
    .guide { stroke: #9198a1; } .hatch { stroke: #6e7781; }
    .s0 { stroke: #58a6ff; fill: #58a6ff; --name: #58a6ff; } .s1 { stroke: #ff9b57; fill: #ff9b57; --name: #ff9b57; }
    .s2 { stroke: #3fd0a4; fill: #3fd0a4; --name: #3fd0a4; } .s3 { stroke: #f0a6cf; fill: #f0a6cf; --name: #f0a6cf; }
    .s4 { stroke: #e3b341; fill: #e3b341; --name: #e3b341; } .s5 { stroke: #9bd8ff; fill: #9bd8ff; --name: #9bd8ff; }
    .s6 { stroke: #ff7b72; fill: #ff7b72; --name: #ff7b72; } .s7 { stroke: #8b949e; fill: #8b949e; --name: #8b949e; }
  }
</style>
)";

// Narrower its text could not be read: 10 px would be less than 7.
constexpr double kLeastScale = 0.7;

}  // namespace

std::string Svg::text(std::string_view title) const {
  std::string page = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" "
      "role=\"img\">\n",
      width, height);
  if (!title.empty()) page += fmt::format("<title>{}</title>\n", svg_escape(title));
  return page + std::string(kStyle) + body + "</svg>\n";
}

std::string Svg::inline_text(std::string_view title) const {
  std::string page = fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" style=\"min-width: {2:.0f}px\" role=\"img\">\n", width,
      height, kLeastScale * width);
  if (!title.empty()) page += fmt::format("<title>{}</title>\n", svg_escape(title));
  return page + body + "</svg>\n";
}

std::string_view svg_style() { return kStyle; }

Svg svg_grid(const std::vector<Svg>& pictures, int across, std::string_view title) {
  Svg page;
  double top = 0;
  if (!title.empty()) {
    page.body += svg_text(16, 24, title, "title");
    top = 36;
  }
  const auto in_row = static_cast<std::size_t>(std::max(1, across));
  for (std::size_t first = 0; first < pictures.size(); first += in_row) {
    double left = 0, height = 0;
    for (std::size_t i = first; i < std::min(first + in_row, pictures.size()); ++i) {
      page.body +=
          fmt::format("<g transform=\"translate({:.1f} {:.1f})\">\n{}</g>\n", left, top, pictures[i].body);
      left += pictures[i].width;
      height = std::max(height, pictures[i].height);
    }
    page.width = std::max(page.width, left);
    top += height;
  }
  page.height = top;
  return page;
}

std::string svg_escape(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = character_length(text);
    if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '&')
      safe += "&amp;";
    else if (c == '"')
      safe += "&quot;";
    else if (length == 0 || (length == 1 && c < ' ' && c != '\n' && c != '\t'))
      safe += "�";
    else
      safe += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return safe;
}

std::string svg_text(double x, double y, std::string_view text, std::string_view style,
                     std::string_view anchor) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y,
                     style, anchor, svg_escape(text));
}

}  // namespace attune::show
