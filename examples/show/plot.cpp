#include "attune/examples/show/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attune/lib/error.h"

namespace attune::show {
namespace {

// From numbers to 0 ... 1.
struct Axis {
  bool logarithmic;
  double low = HUGE_VAL, high = -HUGE_VAL;

  bool shows(double number) const { return std::isfinite(number) && (!logarithmic || number > 0); }
  void include(double number) {
    if (!shows(number)) return;
    low = std::min(low, number);
    high = std::max(high, number);
  }
  double scaled(double number) const { return logarithmic ? std::log10(number) : number; }
  double place(double number) const { return (scaled(number) - scaled(low)) / (scaled(high) - scaled(low)); }

  // A range of some width, where there was nothing, or one number; and no line lies on the frame's edge by
  // chance.
  void finish() {
    if (low > high) low = logarithmic ? 1 : 0, high = logarithmic ? 10 : 1;
    if (low < high) return;
    const double half = logarithmic ? 2 : std::max(0.5, 0.1 * std::abs(low));
    low = logarithmic ? low / half : low - half;
    high = logarithmic ? high * half : high + half;
  }
};

double x_of(const Series& series, std::size_t i) {
  return series.x.empty() ? static_cast<double>(i) : series.x[i];
}

struct Frame {
  Axis x, y;
};

Frame frame_of(std::span<const Series> all, const PlotOptions& options) {
  Frame frame{{options.log_x}, {options.log_y}};
  for (const double x : options.x_range) frame.x.include(x);
  for (const double y : options.y_range) frame.y.include(y);
  for (const Series& series : all) {
    const std::size_t count = series.y.size();
    const auto fits = [&](const std::vector<double>& numbers) {
      return numbers.empty() || numbers.size() == count;
    };
    check(
        fits(series.x) && fits(series.low) && fits(series.high) && series.low.empty() == series.high.empty(),
        "plot: '{}' has {} numbers y, {} x, {} low and {} high", series.name, count, series.x.size(),
        series.low.size(), series.high.size());
    for (std::size_t i = 0; i < count; ++i) {
      frame.x.include(x_of(series, i));
      frame.y.include(series.y[i]);
      if (!series.low.empty()) frame.y.include(series.low[i]), frame.y.include(series.high[i]);
    }
  }
  frame.x.finish();
  frame.y.finish();
  return frame;
}

std::string number(double value) {
  if (value != 0 && (std::abs(value) >= 1e5 || std::abs(value) < 1e-3)) {
    std::string text = fmt::format("{:.3g}", value);  // "1e-05" as "1e-5"
    for (const std::string_view padding : {"e-0", "e+0", "e+"})
      if (const auto at = text.find(padding); at != text.npos)
        text.replace(at, padding.size(), padding[1] == '-' ? "e-" : "e");
    return text;
  }
  return fmt::format("{:.4g}", value);
}

// ---- In the terminal: cells of 2 x 4 dots.

constexpr Style kColors[] = {Style::blue,    Style::yellow, Style::green,
                             Style::magenta, Style::cyan,   Style::red};
constexpr const char* kSigns[] = {"●", "▲", "■", "◆", "○", "△"};

class Canvas {
 public:
  Canvas(int width, int height)
      : width_(width), height_(height), cells_(static_cast<std::size_t>(width * height)) {}

  int dots_across() const { return 2 * width_; }
  int dots_down() const { return 4 * height_; }

  // The dot at x from the left and y from the bottom.
  void dot(int x, int y, int series) {
    if (x < 0 || y < 0 || x >= dots_across() || y >= dots_down()) return;
    const int down = dots_down() - 1 - y;
    Cell& cell = at(x / 2, down / 4);
    // How Unicode numbers the dots: 1 to 3 and 7 on the left, 4 to 6 and 8 on the right.
    static constexpr int bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    cell.dots |= bits[down % 4][x % 2];
    cell.series = series;
  }
  void line(double x0, double y0, double x1, double y1, int series) {
    const int steps =
        std::max(1, static_cast<int>(std::ceil(std::max(std::abs(x1 - x0), std::abs(y1 - y0)))));
    for (int i = 0; i <= steps; ++i) {
      const double share = static_cast<double>(i) / steps;
      dot(static_cast<int>(std::lround(x0 + share * (x1 - x0))),
          static_cast<int>(std::lround(y0 + share * (y1 - y0))), series);
    }
  }
  // The cells between y0 and y1 in the column of that dot.
  void band(int x, double y0, double y1, int series) {
    const int low = std::max(0, static_cast<int>(std::lround(y0)));
    const int high = std::min(dots_down() - 1, static_cast<int>(std::lround(y1)));
    for (int y = low; y <= high && x >= 0 && x < dots_across(); ++y)
      at(x / 2, (dots_down() - 1 - y) / 4).band = series;
  }

  std::string row(int down, bool signs, const Terminal& terminal) {
    std::string text;
    for (int across = 0; across < width_; ++across) {
      const Cell& cell = at(across, down);
      const int series = cell.dots ? cell.series : cell.band;
      if (series < 0)
        text += ' ';
      else if (!cell.dots)
        text += paint(terminal, kColors[series % 6], "░");
      else
        text += paint(terminal, kColors[series % 6], signs ? kSigns[series % 6] : braille(cell.dots));
    }
    return text;
  }

 private:
  struct Cell {
    int dots = 0, series = -1, band = -1;
  };
  Cell& at(int across, int down) { return cells_[static_cast<std::size_t>(down * width_ + across)]; }

  // U+2800 and the dots, as UTF-8.
  static std::string braille(int dots) {
    return {'\xe2', static_cast<char>(0xa0 + (dots >> 6)), static_cast<char>(0x80 + (dots & 0x3f))};
  }

  int width_, height_;
  std::vector<Cell> cells_;
};

// Calls use(x, y, i) for what is drawn, in dots, and gap() where the line breaks.
template <class Use, class Gap>
void for_each_point(const Series& series, const Frame& frame, double width, double height, Use&& use,
                    Gap&& gap) {
  for (std::size_t i = 0; i < series.y.size(); ++i) {
    const double x = x_of(series, i), y = series.y[i];
    if (frame.x.shows(x) && frame.y.shows(y))
      use(frame.x.place(x) * width, frame.y.place(y) * height, i);
    else
      gap();
  }
}

// Where a line was last, in dots, and its band's ends there.
struct Pen {
  double x, y, low, high;
};

void draw_to(Canvas& canvas, const Pen& from, const Pen& to, int series) {
  const int first = static_cast<int>(std::lround(from.x)), last = static_cast<int>(std::lround(to.x));
  for (int x = std::min(first, last); x <= std::max(first, last); ++x) {
    const double share = first == last ? 1 : static_cast<double>(x - first) / (last - first);
    const double low = from.low + share * (to.low - from.low),
                 high = from.high + share * (to.high - from.high);
    if (low <= high) canvas.band(x, low, high, series);  // not where there is none: NaN
  }
  canvas.line(from.x, from.y, to.x, to.y, series);
}

void draw(Canvas& canvas, const Series& series, int number_of_it, const Frame& frame) {
  const double width = canvas.dots_across() - 1, height = canvas.dots_down() - 1;
  const auto height_of = [&](const std::vector<double>& numbers, std::size_t i) {
    return numbers.empty() || !frame.y.shows(numbers[i]) ? NAN : frame.y.place(numbers[i]) * height;
  };
  Pen last{};
  bool has_last = false;
  const auto use = [&](double x, double y, std::size_t i) {
    const Pen pen{x, y, height_of(series.low, i), height_of(series.high, i)};
    draw_to(canvas, has_last ? last : pen, pen, number_of_it);
    last = pen, has_last = true;
  };
  for_each_point(series, frame, width, height, use, [&] { has_last = false; });
}

// The numbers below the axis, each under its place where there is room, and the label at the right.
std::string bottom_line(const Frame& frame, int width, int margin, const std::string& label) {
  std::string line(static_cast<std::size_t>(margin + width), ' ');
  std::size_t free = 0;
  for (const double tick : ticks(frame.x.low, frame.x.high, std::max(2, width / 12), frame.x.logarithmic)) {
    const std::string text = number(tick);
    const auto place = static_cast<long>(margin) + std::lround(frame.x.place(tick) * (width - 1));
    const long first = std::clamp(place - static_cast<long>(text.size()) / 2, 0L,
                                  static_cast<long>(line.size()) - static_cast<long>(text.size()));
    if (first < static_cast<long>(free)) continue;
    line.replace(static_cast<std::size_t>(first), text.size(), text);
    free = static_cast<std::size_t>(first) + text.size() + 1;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return label.empty() ? line : line + "\n" + pad_left(label, margin + width);
}

std::string legend(std::span<const Series> all, bool signs, const Terminal& terminal) {
  std::string line;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name.empty()) continue;
    line += (line.empty() ? "" : "   ") + paint(terminal, kColors[i % 6], signs ? kSigns[i % 6] : "──") +
            ' ' + all[i].name;
  }
  return line;
}

}  // namespace

std::vector<double> ticks(double low, double high, int count, bool logarithmic) {
  std::vector<double> list;
  if (!(low < high) || count < 1) return list;
  if (logarithmic) {
    const int first = static_cast<int>(std::ceil(std::log10(low) - 1e-9)),
              last = static_cast<int>(std::floor(std::log10(high) + 1e-9));
    const int step = std::max(1, (last - first + count) / count);
    for (int power = first; power <= last; power += step) list.push_back(std::pow(10, power));
    if (list.size() >= 3) return list;
    list.clear();  // few powers of ten: 1, 2 and 5 times each
    for (int power = first - 1; power <= last; ++power)
      for (const double factor : {1.0, 2.0, 5.0})
        if (const double tick = factor * std::pow(10, power); tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9))
          list.push_back(tick);
    if (list.size() >= 3) return list;
    list.clear();  // not even these: as on any axis
  }
  const double rough = (high - low) / count, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= rough * (1 - 1e-9)) step = factor * power;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k)
    list.push_back(k == 0 ? 0 : k * step);
  return list;
}

std::string line_plot(std::span<const Series> all, const PlotOptions& options, const Terminal& terminal) {
  const Frame frame = frame_of(all, options);
  const int height = std::clamp(options.height, 2, 100);
  const std::vector<double> marks =
      ticks(frame.y.low, frame.y.high, std::max(2, height / 3), frame.y.logarithmic);
  int margin = 0;
  for (const double mark : marks) margin = std::max(margin, columns(number(mark)));
  const int width = std::clamp(std::min(terminal.width, 100) - margin - 3, 10, 100);

  Canvas canvas(width, height);
  for (std::size_t i = 0; i < all.size(); ++i) draw(canvas, all[i], static_cast<int>(i), frame);
  std::vector<std::string> labels(static_cast<std::size_t>(height));
  for (const double mark : marks)
    labels[static_cast<std::size_t>(std::lround((1 - frame.y.place(mark)) * (height - 1)))] = number(mark);

  const bool signs = !terminal.colors && all.size() > 1;
  std::string text;
  if (!options.title.empty()) text += paint(terminal, Style::bold, options.title) + '\n';
  if (const std::string line = legend(all, signs, terminal); !line.empty()) text += line + '\n';
  if (!options.y_label.empty()) text += pad("", margin + 2) + options.y_label + '\n';
  for (int down = 0; down < height; ++down) {
    const std::string& label = labels[static_cast<std::size_t>(down)];
    std::string line =
        pad_left(label, margin) + (label.empty() ? " │" : " ┤") + canvas.row(down, signs, terminal);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  text += pad("", margin) + " └";
  for (int i = 0; i < width; ++i) text += "─";
  return text + '\n' + bottom_line(frame, width, margin + 2, options.x_label) + '\n';
}

// ---- As SVG

std::string superscript(int power) {
  static constexpr const char* digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text;
  for (const char c : std::to_string(power)) text += c == '-' ? "⁻" : digits[c - '0'];
  return text;
}

namespace {

// A tick's number; far powers of ten as such.
std::string tick_text(double value, bool logarithmic) {
  const double power = logarithmic ? std::round(std::log10(value)) : 0;
  if (!logarithmic || (power < 5 && power > -3) || std::abs(value / std::pow(10, power) - 1) > 1e-9)
    return number(value);
  return "10" + superscript(static_cast<int>(power));
}

// One SVG plot while it is drawn.
class SvgPlot {
 public:
  SvgPlot(std::span<const Series> all, const PlotOptions& options)
      : all_(all),
        options_(options),
        frame_(frame_of(all, options)),
        width_(options.svg_width),
        height_(options.svg_height) {
    bool named = false;
    for (const Series& series : all) {
      named |= !series.name.empty();
      widest_ = std::max(widest_, columns(series.name));
    }
    if (!options.end_labels) widest_ = 0;
    top_ = (options.title.empty() ? 16 : 36) + (named && !options.end_labels ? 20 : 0) +
           (options.guides.empty() ? 0 : 12);
    if (options.end_labels) left_ = options.y_label.empty() ? 40 : 56;
  }

  Svg drawn() {
    svg_ = {std::max(left_ + width_ + (widest_ > 0 ? 10 + 7.8 * widest_ : 16), 8 + 8.8 * columns(options_.title)),
            top_ + height_ + (options_.x_label.empty() ? 24 : 44),
            {}};
    axes();
    double legend = left_;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const std::string color =
          fmt::format("s{}", all_[i].color < 0 ? static_cast<int>(i % 6) : all_[i].color);
      band(all_[i], color);
      line(all_[i], color);
      if (!all_[i].name.empty() && !options_.end_labels) legend = name_above(all_[i], color, legend);
    }
    if (options_.end_labels) names_at_ends();
    return svg_;
  }

 private:
  struct End {
    double y;
    std::string name, color;
  };

  double x_at(double share) const { return left_ + share * width_; }
  double y_at(double share) const { return top_ + (1 - share) * height_; }

  void axes() {
    if (!options_.title.empty())
      svg_.body += svg_text(options_.end_labels ? 4 : left_, 22, options_.title, "title");
    for (const double tick : ticks(frame_.y.low, frame_.y.high, std::max(2, static_cast<int>(height_ / 42)),
                                   frame_.y.logarithmic)) {
      const double y = y_at(frame_.y.place(tick));
      svg_.body += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}h{:.1f}\"/>\n", left_, y, width_);
      svg_.body += svg_text(left_ - 8, y + 4, tick_text(tick, frame_.y.logarithmic), "small", "end");
    }
    for (const double tick : x_ticks()) {
      const double x = x_at(frame_.x.place(tick));
      svg_.body += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}v{:.1f}\"/>\n", x, top_, height_);
      svg_.body += svg_text(x, top_ + height_ + 16, tick_text(tick, frame_.x.logarithmic), "small", "middle");
    }
    for (const Guide& guide : options_.guides) {
      if (!frame_.x.shows(guide.x) || guide.x < frame_.x.low || guide.x > frame_.x.high) continue;
      const double share = frame_.x.place(guide.x), x = x_at(share);
      svg_.body +=
          fmt::format("<path class=\"guide\" d=\"M{:.1f} {:.1f}v{:.1f}\"/>\n", x, top_ - 4, height_ + 4);
      svg_.body += svg_text(x, top_ - 7, guide.text, "small",
                            share < 0.15   ? "start"
                            : share > 0.85 ? "end"
                                           : "middle");
    }
    svg_.body += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}v{:.1f}h{:.1f}\"/>\n", left_, top_,
                             height_, width_);
    if (!options_.x_label.empty())
      svg_.body += svg_text(left_ + width_ / 2, top_ + height_ + 36, options_.x_label, "label", "middle");
    if (!options_.y_label.empty())
      svg_.body += fmt::format(
          "<text transform=\"translate(16 {:.1f}) rotate(-90)\" class=\"label\" "
          "text-anchor=\"middle\">{}</text>\n",
          top_ + height_ / 2, svg_escape(options_.y_label));
  }

  std::vector<double> x_ticks() const {
    std::vector<double> list = options_.x_ticks;
    if (list.empty())
      list = ticks(frame_.x.low, frame_.x.high, std::max(2, static_cast<int>(width_ / 66)),
                   frame_.x.logarithmic);
    std::erase_if(list,
                  [&](double x) { return !frame_.x.shows(x) || x < frame_.x.low || x > frame_.x.high; });
    return list;
  }

  void band(const Series& series, const std::string& color) {
    if (series.low.empty()) return;
    std::string there, back;
    for_each_point(
        series, frame_, 1, 1,
        [&](double x, double, std::size_t k) {
          if (!frame_.y.shows(series.low[k]) || !frame_.y.shows(series.high[k])) return;
          there += fmt::format("{}{:.1f} {:.1f}", there.empty() ? "M" : "L", x_at(x),
                               y_at(frame_.y.place(series.high[k])));
          back = fmt::format("L{:.1f} {:.1f}", x_at(x), y_at(frame_.y.place(series.low[k]))) + back;
        },
        [] {});
    if (!there.empty())
      svg_.body += fmt::format("<path class=\"band {}\" d=\"{}{}Z\"/>\n", color, there, back);
  }

  void line(const Series& series, const std::string& color) {
    std::string path;
    bool starts = true;
    double last = NAN;
    const auto use = [&](double x, double y, std::size_t) {
      last = y_at(y);
      if (series.mark == Mark::dots)
        svg_.body += fmt::format("<circle class=\"dot {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n", color,
                                 x_at(x), last);
      else
        path += fmt::format("{}{:.1f} {:.1f}", starts ? "M" : "L", x_at(x), last);
      starts = false;
    };
    for_each_point(series, frame_, 1, 1, use, [&] { starts = true; });
    const std::string_view more = series.mark == Mark::thin     ? " thin"
                                  : series.mark == Mark::dashes ? " dashes"
                                                                : "";
    if (!path.empty()) svg_.body += fmt::format("<path class=\"line {}{}\" d=\"{}\"/>\n", color, more, path);
    if (!series.name.empty() && std::isfinite(last)) ends_.push_back({last, series.name, color});
  }

  double name_above(const Series& series, const std::string& color, double x) {
    svg_.body += fmt::format("<path class=\"line {}\" d=\"M{:.1f} {:.1f}h18\"/>\n", color, x, top_ - 16);
    svg_.body += svg_text(x + 24, top_ - 12, series.name);
    return x + 44 + 7 * columns(series.name);
  }

  // Each at the height where its line ends, moved apart where they would touch.
  void names_at_ends() {
    std::stable_sort(ends_.begin(), ends_.end(), [](const End& a, const End& b) { return a.y < b.y; });
    constexpr double line_height = 13;
    for (std::size_t i = 1; i < ends_.size(); ++i)
      ends_[i].y = std::max(ends_[i].y, ends_[i - 1].y + line_height);
    double limit = top_ + height_;
    for (std::size_t i = ends_.size(); i-- > 0; limit = ends_[i].y - line_height)
      ends_[i].y = std::min(ends_[i].y, limit);
    for (const End& end : ends_)
      svg_.body += svg_text(left_ + width_ + 8, end.y + 4, end.name, "name " + end.color);
  }

  std::span<const Series> all_;
  const PlotOptions& options_;
  Frame frame_;
  double width_, height_, left_ = 64, top_ = 0;
  int widest_ = 0;
  std::vector<End> ends_;
  Svg svg_;
};

}  // namespace

Svg svg_line_plot(std::span<const Series> all, const PlotOptions& options) {
  return SvgPlot(all, options).drawn();
}

}  // namespace attune::show
