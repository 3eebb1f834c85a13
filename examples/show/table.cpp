#include "attune/examples/show/table.h"

#include <algorithm>
#include <numeric>

#include "attune/lib/error.h"

namespace attune::show {
namespace {

constexpr int kGap = 2, kLeast = 8;  // columns between two cells; what a shortened first column keeps

}  // namespace

void Table::row(std::vector<std::string> cells) {
  check(cells.size() <= columns_.size(), "table: {} cells do not fit into {} columns", cells.size(), columns_.size());
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<int> Table::widths(int room) const {
  std::vector<int> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths.push_back(columns(columns_[i].name));
    for (const auto& row : rows_)
      if (!row.empty()) widths[i] = std::max(widths[i], columns(row[i]));
  }
  const int all = std::accumulate(widths.begin(), widths.end(), kGap * (static_cast<int>(widths.size()) - 1));
  if (!widths.empty() && all > room) widths[0] = std::max(std::min(widths[0], kLeast), widths[0] - (all - room));
  return widths;
}

std::string Table::text(const Terminal& terminal) const {
  const std::vector<int> width = widths(terminal.width);
  const auto line_of = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      std::string cell = cell_of(i);
      if (columns(cell) > width[i]) cell = shorten(cell, width[i]);
      line += std::string(i > 0 ? kGap : 0, ' ');
      line += columns_[i].align == Align::right ? pad_left(cell, width[i]) : pad(cell, width[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + '\n';
  };
  std::string rule;
  const int all = std::accumulate(width.begin(), width.end(), kGap * (static_cast<int>(width.size()) - 1));
  for (int i = 0; i < all; ++i) rule += "─";
  rule = paint(terminal, Style::dim, rule) + '\n';

  std::string text = line_of([&](std::size_t i) { return paint(terminal, Style::bold, columns_[i].name); }) + rule;
  for (const auto& row : rows_) text += row.empty() ? rule : line_of([&](std::size_t i) { return row[i]; });
  return text;
}

}  // namespace attune::show
