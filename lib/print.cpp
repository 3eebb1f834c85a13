#include "attune/lib/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace attune {
namespace {

constexpr Index kMostElements = 1000;  // above, the middle of long axes is left out
constexpr Index kEdge = 3;             // what is left at either end of one
constexpr std::size_t kLineWidth = 100;

// ---- Numbers ------------------------------------------------------------------------------------

std::string write(double number, char kind, int decimals) {
  return kind == 'e' ? fmt::format("{:.{}e}", number, decimals) : fmt::format("{:.{}f}", number, decimals);
}

// The format of that kind with the fewest decimals which shows all numbers as `most` decimals do.
std::string shortest(const std::vector<double>& numbers, char kind, int least, int most) {
  const auto read = [&](double number, int decimals) {
    return std::strtod(write(number, kind, decimals).c_str(), nullptr);
  };
  int decimals = least;
  while (decimals < most && !std::ranges::all_of(numbers, [&](double number) {
           return !std::isfinite(number) || read(number, decimals) == read(number, most);
         }))
    ++decimals;
  return fmt::format(".{}{}", decimals, kind);
}

// One format for all numbers of a tensor.
std::string choose_format(const std::vector<double>& numbers) {
  double smallest = INFINITY, largest = 0;
  bool integral = true;
  for (double number : numbers) {
    if (!std::isfinite(number) || number == 0) continue;
    smallest = std::min(smallest, std::abs(number));
    largest = std::max(largest, std::abs(number));
    integral = integral && number == std::trunc(number);
  }
  if (integral && largest < 1e10) return ".0f";
  // Four decimals of numbers about 1, more where all are small, fewer where they are large.
  const int exponent = static_cast<int>(std::floor(std::log10(largest)));
  const int decimals = exponent < 0 ? 3 - exponent : std::min(4, 6 - exponent);
  const bool would_vanish = smallest < 0.5 * std::pow(10.0, -decimals);
  if (exponent < -3 || exponent > 5 || would_vanish) return shortest(numbers, 'e', 0, 3);
  return shortest(numbers, 'f', 1, decimals);
}

void write_column(const std::vector<double>& numbers, std::string_view format,
                  std::vector<std::string>& texts) {
  const std::string whole = fmt::format("{{:{}}}", format.empty() ? choose_format(numbers) : format);
  std::size_t width = 0;
  std::vector<std::string> column;
  for (double number : numbers) {
    column.push_back(fmt::format(fmt::runtime(whole), number));
    width = std::max(width, column.back().size());
  }
  for (std::size_t i = 0; i < column.size(); ++i) texts[i] += fmt::format("{:>{}}", column[i], width);
}

// ---- Brackets -----------------------------------------------------------------------------------

class Printer {
 public:
  Printer(const ConstView& view, std::string_view format) : view_(view) {
    std::vector<double> values, tangents;
    collect(view, values, tangents);
    texts_.resize(values.size());
    write_column(values, format, texts_);
    if (view.dtype() != DType::dual) return;
    for (std::size_t i = 0; i < texts_.size(); ++i) texts_[i] += std::signbit(tangents[i]) ? " - " : " + ";
    for (double& tangent : tangents) tangent = std::abs(tangent);
    // Its sign is there already.
    write_column(tangents, format.starts_with('+') ? format.substr(1) : format, texts_);
    for (std::string& text : texts_) text += "ε";
  }

  std::string print() {
    next_ = 0;
    if (view_.count() == 0) return "[]";
    print(0);
    return std::move(result_);
  }

 private:
  // Calls one(i) for each index of an axis that is shown, and gap() where some are not.
  template <class One, class Gap>
  void along(int axis, One&& one, Gap&& gap) const {
    const Index size = view_.shape()[axis];
    const bool shortens = view_.count() > kMostElements && size > 2 * kEdge;
    for (Index i = 0; i < size; ++i) {
      if (shortens && i == kEdge) {
        gap();
        i = size - kEdge;
      }
      one(i);
    }
  }

  void collect(const ConstView& part, std::vector<double>& values, std::vector<double>& tangents) const {
    if (part.rank() == 0) {
      values.push_back(part.item());
      if (part.dtype() == DType::dual) tangents.push_back(part.as<dual>()->tangent);
      return;
    }
    if (part.count() == 0) return;
    along(
        view_.rank() - part.rank(), [&](Index i) { collect(part.select(0, i), values, tangents); }, [] {});
  }

  void print(int axis) {
    if (axis == view_.rank()) {
      result_ += texts_[next_++];
      return;
    }
    const bool is_row = axis == view_.rank() - 1;
    const auto separate = [&] {
      if (result_.back() == '[') return;
      result_ += ',';
      if (is_row) return continue_row();
      // A blank line more between matrices than between rows, and so on.
      result_.append(static_cast<std::size_t>(view_.rank() - 1 - axis), '\n');
      start_line(axis + 1);
    };
    result_ += '[';
    along(
        axis,
        [&](Index) {
          separate();
          print(axis + 1);
        },
        [&] {
          separate();
          result_ += "...";
        });
    result_ += ']';
  }

  // The space before the next element, or a new line where it would become too long.
  void continue_row() {
    const std::size_t line = result_.rfind('\n') + 1;  // npos + 1 is 0
    const std::size_t after = next_ < texts_.size() ? texts_[next_].size() + 2 : 0;
    if (result_.size() - line + after <= kLineWidth) {
      result_ += ' ';
    } else {
      result_ += '\n';
      start_line(view_.rank());
    }
  }

  void start_line(int indent) { result_.append(static_cast<std::size_t>(indent), ' '); }

  ConstView view_;
  std::vector<std::string> texts_;  // of the elements that are shown, in order
  std::size_t next_ = 0;
  std::string result_;
};

}  // namespace

std::string describe(const ConstView& view) { return fmt::format("{} {}", view.dtype(), view.shape()); }

std::string to_text(const ConstView& view, std::string_view format) { return Printer(view, format).print(); }

}  // namespace attune
