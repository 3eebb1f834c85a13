// A table whose columns stand in line.
#pragma once

#include <string>
#include <vector>

#include "attune/examples/show/terminal.h"

namespace attune::show {

enum class Align { left, right };

struct Column {
  std::string name;
  Align align = Align::left;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as there are columns; missing ones are empty, and more are an error. Cells may have colours.
  void row(std::vector<std::string> cells);
  // A line between rows.
  void rule() { rows_.emplace_back(); }

  // Its lines. The first column gives way, and is shortened, where the terminal is too narrow.
  std::string text(const Terminal& terminal = {}) const;

 private:
  std::vector<int> widths(int room) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty one is a rule
};

}  // namespace attune::show
