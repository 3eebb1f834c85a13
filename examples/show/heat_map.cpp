#include "attune/examples/show/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "attune/lib/error.h"

namespace attune::show {
namespace {

// ---- What is drawn: numbers, some of them masked

struct Grid {
  Index rows, columns;
  std::vector<double> values;
  std::vector<char> shown;

  std::size_t at(Index row, Index column) const { return static_cast<std::size_t>(row * columns + column); }
};

Grid grid_of(const ConstView& values, const HeatMapOptions& options) {
  check(values.rank() == 2, "heat_map: {} is no matrix of [rows, columns]", values.shape());
  Grid grid{values.size(0), values.size(1), {}, {}};
  for (Index row = 0; row < grid.rows; ++row)
    for (Index column = 0; column < grid.columns; ++column) {
      grid.values.push_back(values.at({row, column}));
      grid.shown.push_back(!options.shown || options.shown(row, column));
    }
  return grid;
}

// Each cell the mean of factor x factor, of those that are shown.
Grid pooled(const Grid& grid, Index factor) {
  Grid small{(grid.rows + factor - 1) / factor, (grid.columns + factor - 1) / factor, {}, {}};
  for (Index row = 0; row < small.rows; ++row)
    for (Index column = 0; column < small.columns; ++column) {
      double sum = 0;
      Index count = 0;
      for (Index i = row * factor; i < std::min(grid.rows, (row + 1) * factor); ++i)
        for (Index j = column * factor; j < std::min(grid.columns, (column + 1) * factor); ++j)
          if (grid.shown[grid.at(i, j)]) sum += grid.values[grid.at(i, j)], ++count;
      small.values.push_back(count > 0 ? sum / static_cast<double>(count) : 0);
      small.shown.push_back(count > 0);
    }
  return small;
}

struct Range {
  double low, high, power;

  // 0 ... 1, or NaN.
  double share(double value) const {
    if (!std::isfinite(value)) return std::numeric_limits<double>::quiet_NaN();
    return high > low ? std::pow(std::clamp((value - low) / (high - low), 0.0, 1.0), power) : 0;
  }
  double value(double share) const { return low + (high - low) * std::pow(share, 1 / power); }
};

Range range_of(const Grid& grid, const HeatMapOptions& options) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (std::size_t i = 0; i < grid.values.size(); ++i) {
    if (!grid.shown[i] || !std::isfinite(grid.values[i])) continue;
    low = std::min(low, grid.values[i]);
    high = std::max(high, grid.values[i]);
  }
  if (low > high) low = 0, high = 1;
  return {std::isnan(options.low) ? low : options.low, std::isnan(options.high) ? high : options.high,
          options.power};
}

std::string label(const std::vector<std::string>& labels, Index i) {
  return static_cast<std::size_t>(i) < labels.size() ? labels[static_cast<std::size_t>(i)] : std::string();
}

int widest(const std::vector<std::string>& labels) {
  int width = 0;
  for (const std::string& text : labels) width = std::max(width, columns(text));
  return width;
}

// ---- In the terminal

constexpr const char* kShades[] = {"·", "░", "▒", "▓", "█"};
// From dark violet to yellow, as near to "viridis" as 256 colours come.
constexpr int kColors[] = {53, 54, 55, 61, 25, 31, 30, 36, 35, 71, 113, 149, 190, 226};

std::string repeated(const char* sign, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += sign;
  return text;
}

std::string cell_text(double share, int width, bool colors) {
  if (std::isnan(share)) return repeated("?", width);
  if (!colors) return repeated(kShades[std::lround(4 * share)], width);
  constexpr double last = std::size(kColors) - 1;
  return fmt::format("\033[48;5;{}m{}\033[0m", kColors[std::lround(last * share)], repeated(" ", width));
}

std::string legend_text(const Range& range, bool has_masked, bool colors) {
  std::string text;
  if (colors) {
    text = fmt::format("{:.3g} ", range.low);
    for (int i = 0; i < 14; ++i) text += cell_text(i / 13.0, 1, true);
    text += fmt::format(" {:.3g}", range.high);
  } else {
    for (int i = 0; i < 5; ++i)
      text += fmt::format("{}{} {:.2g}", i > 0 ? "  " : "", repeated(kShades[i], 2), range.value(i / 4.0));
  }
  return text + (has_masked ? "  blank: masked" : "");
}

// How wide a cell is: as its labels want it, if there is room; at least 1.
int cell_width(const HeatMapOptions& options, Index columns, int room) {
  const int wanted = std::clamp(widest(options.columns) + 1, 2, 6);
  if (columns * wanted <= room) return wanted;
  return columns * 2 <= room ? 2 : 1;
}

}  // namespace

HeatMapOptions attention_map(const std::vector<std::string>& tokens, bool causal) {
  HeatMapOptions options{.rows = tokens, .columns = tokens, .low = 0, .high = 1, .power = 0.5};
  if (causal) options.shown = [](Index query, Index key) { return key <= query; };
  return options;
}

std::string heat_map(const ConstView& values, const HeatMapOptions& options, const Terminal& terminal) {
  Grid grid = grid_of(values, options);
  const int margin = std::min(widest(options.rows), 16), room = std::max(8, terminal.width - margin - 2);
  const Index factor = (grid.columns + room - 1) / room;
  if (factor > 1) grid = pooled(grid, factor);
  const Range range = range_of(grid, options);
  const int width = factor > 1 ? 1 : cell_width(options, grid.columns, room);

  std::string text;
  if (!options.title.empty()) text += paint(terminal, Style::bold, options.title) + '\n';
  if (!options.columns.empty()) {
    // Where cells are narrower than labels, every second one has its label, or every third.
    const int longest = std::min(widest(options.columns), 8),
              every = longest < 2 ? 1 : (longest + width) / width;
    std::string line = pad("", margin + 1);
    for (Index column = 0; column < grid.columns; column += every)
      line +=
          pad(shorten(label(options.columns, column * std::max<Index>(1, factor)), longest), width * every);
    line.erase(line.find_last_not_of(' ') + 1);
    text += paint(terminal, Style::dim, line) + '\n';
  }
  for (Index row = 0; row < grid.rows; ++row) {
    const std::string name = shorten(label(options.rows, row * std::max<Index>(1, factor)), margin);
    std::string line = paint(terminal, Style::dim, pad_left(name, margin)) + ' ';
    for (Index column = 0; column < grid.columns; ++column) {
      const std::size_t i = grid.at(row, column);
      line += grid.shown[i] ? cell_text(range.share(grid.values[i]), width, terminal.colors)
                            : repeated(" ", width);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  if (!options.legend) return text;
  const bool has_masked = std::count(grid.shown.begin(), grid.shown.end(), 0) > 0;
  text += pad("", margin + 1) + legend_text(range, has_masked, terminal.colors);
  if (factor > 1) text += fmt::format("  a cell: the mean of {0} x {0}", factor);
  return text + '\n';
}

// ---- As SVG

namespace {

// Viridis (van der Walt & Smith), in eighths.
std::string color_of(double share) {
  static constexpr std::array<std::array<int, 3>, 9> stops = {{{68, 1, 84},
                                                               {71, 44, 122},
                                                               {59, 81, 139},
                                                               {44, 113, 142},
                                                               {33, 144, 141},
                                                               {39, 173, 129},
                                                               {92, 200, 99},
                                                               {170, 220, 50},
                                                               {253, 231, 37}}};
  const double place = share * 8;
  const auto below = static_cast<std::size_t>(std::min(7.0, std::floor(place)));
  const double rest = place - static_cast<double>(below);
  int rgb[3];
  for (std::size_t i = 0; i < 3; ++i)
    rgb[i] = static_cast<int>(std::lround(stops[below][i] + rest * (stops[below + 1][i] - stops[below][i])));
  return fmt::format("#{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2]);
}

// Whether black has more contrast with that colour than white.
bool is_light(double share) { return share > 0.45; }

// Where the cells of an SVG stand.
struct Cells {
  double left, top, width, height;

  double x(Index column) const { return left + width * static_cast<double>(column); }
  double y(Index row) const { return top + height * static_cast<double>(row); }
};

std::string hatching(double x, double y, double width, double height) {
  std::string path;
  for (double sum = 6; sum < width + height; sum += 8) {  // lines on which x + y is that sum
    const double from = std::max(0.0, sum - height), to = std::min(width, sum);
    path += fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", x + from, y + sum - from, x + to, y + sum - to);
  }
  return fmt::format("<path class=\"hatch\" d=\"{}\"/>\n", path);
}

std::string cell_of(const Grid& grid, const Range& range, const HeatMapOptions& options, const Cells& cells,
                    Index row, Index column, bool tip) {
  const std::size_t i = grid.at(row, column);
  const double share = range.share(grid.values[i]), x = cells.x(column), y = cells.y(row);
  const bool hatched = options.hatched && options.hatched(row, column);
  const std::string fill = !grid.shown[i] || hatched ? "class=\"masked\""
                           : std::isnan(share)       ? "fill=\"#d1242f\""
                                                     : "fill=\"" + color_of(share) + "\"";
  std::string drawn = fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {}", x,
                                  y, cells.width, cells.height, fill);
  if (tip && grid.shown[i]) {
    const std::string row_name = label(options.rows, row), column_name = label(options.columns, column);
    drawn += fmt::format("><title>{} {}: {:.4g}</title></rect>\n",
                         svg_escape(row_name.empty() ? fmt::format("{}", row) : row_name),
                         svg_escape(column_name.empty() ? fmt::format("{}", column) : column_name),
                         grid.values[i]);
  } else {
    drawn += "/>\n";
  }
  if (hatched) drawn += hatching(x, y, cells.width, cells.height);
  if (options.text) {
    const std::string_view style = hatched || !grid.shown[i] ? "cell halo"
                                   : is_light(share)         ? "cell dark"
                                                             : "cell light";
    drawn +=
        svg_text(x + cells.width / 2, y + cells.height / 2 + 4, options.text(row, column), style, "middle");
  }
  const std::string link = options.link ? options.link(row, column) : std::string();
  return link.empty() ? drawn : fmt::format("<a href=\"{}\">{}</a>\n", svg_escape(link), drawn);
}

}  // namespace

Svg svg_heat_map(const ConstView& values, const HeatMapOptions& options) {
  const Grid grid = grid_of(values, options);
  const Range range = range_of(grid, options);
  const double fitting = std::clamp(
      320.0 / static_cast<double>(std::max<Index>(1, std::max(grid.rows, grid.columns))), 3.0, 24.0);
  const double side = options.cell > 0 ? options.cell : fitting;
  const bool small = !options.text && side < 9;  // no room for labels
  const int row_columns =
      options.text ? std::min(widest(options.rows), 30) : std::min(widest(options.rows), 16);
  Cells cells{};
  cells.width = options.text ? 46 : side, cells.height = options.text ? 26 : side;
  cells.left =
      16 + (options.row_label.empty() ? 0 : 16) + (small ? 0 : (options.text ? 6.0 : 7.0) * row_columns);
  cells.top = 12 + (options.title.empty() ? 0 : 22) + (options.columns.empty() || small ? 0 : 16) +
              (options.column_label.empty() ? 0 : 16);
  const double width = cells.width * static_cast<double>(grid.columns),
               height = cells.height * static_cast<double>(grid.rows);
  // Text of 10 px, in the middle of the columns; where these are few, as far to the left as it must not go.
  const double half_label = 3.2 * columns(options.column_label),
               middle = std::max(cells.left + width / 2, half_label + 4);
  Svg svg{std::max(cells.left + std::max(width, 120.0) + 16, middle + half_label + 4),
          cells.top + height + (options.legend ? 36 : 12),
          {}};
  if (!options.title.empty()) svg.body += svg_text(options.text ? 4 : cells.left, 22, options.title, "title");
  if (!options.column_label.empty())
    svg.body += svg_text(middle, cells.top - (options.columns.empty() || small ? 6 : 20), options.column_label, "small",
                         "middle");
  if (!options.row_label.empty())
    svg.body += fmt::format(
        "<text transform=\"translate(14 {:.1f}) rotate(-90)\" class=\"small\" "
        "text-anchor=\"middle\">{}</text>\n",
        cells.top + height / 2, svg_escape(options.row_label));
  for (Index column = 0; !small && column < grid.columns; ++column)
    if (const std::string name = label(options.columns, column); !name.empty())
      svg.body += svg_text(cells.x(column) + cells.width / 2, cells.top - 5,
                           shorten(name, std::max(1, static_cast<int>(cells.width / 7))), "small", "middle");
  const bool tips = grid.values.size() <= 1024;
  for (Index row = 0; row < grid.rows; ++row) {
    if (const std::string name = label(options.rows, row); !small && !name.empty())
      svg.body += svg_text(cells.left - 5, cells.y(row) + cells.height / 2 + 4, shorten(name, row_columns),
                           "small", "end");
    for (Index column = 0; column < grid.columns; ++column)
      svg.body += cell_of(grid, range, options, cells, row, column, tips);
  }
  if (!options.legend) return svg;
  const double y = cells.top + height + 12;
  svg.body += svg_text(cells.left, y + 10, fmt::format("{:.3g}", range.low), "small");
  for (int i = 0; i < 16; ++i)
    svg.body += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"4.5\" height=\"10\" fill=\"{}\"/>\n",
                            cells.left + 28 + 4.5 * i, y + 1, color_of(i / 15.0));
  svg.body += svg_text(cells.left + 106, y + 10, fmt::format("{:.3g}", range.high), "small");
  return svg;
}

}  // namespace attune::show
