// A matrix as a picture: an attention map with its tokens, or any other.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "attune/examples/show/svg.h"
#include "attune/examples/show/terminal.h"
#include "attune/lib/view.h"

namespace attune::show {

struct HeatMapOptions {
  std::string title = {};
  std::vector<std::string> rows = {}, columns = {};  // a label for each; missing ones are blank
  std::string row_label = {}, column_label = {};     // what they are, such as "query" and "key"
  // The range that colours stretch over; NaN stands for the least and the largest number that is shown.
  double low = std::numeric_limits<double>::quiet_NaN(), high = std::numeric_limits<double>::quiet_NaN();
  // Colours go by share^power, the share being that of the range: 0.5 shows a tenth of the attention, too.
  double power = 1;
  // Where it says no, a cell is masked: left blank, which is not what 0 looks like. None: all are shown.
  std::function<bool(Index row, Index column)> shown = nullptr;
  bool legend = true;

  // Of an SVG: what stands in a cell, which is then wide enough for a number; where a click on it leads
  // ("#place"); whether it is hatched instead of coloured.
  std::function<std::string(Index row, Index column)> text = nullptr, link = nullptr;
  std::function<bool(Index row, Index column)> hatched = nullptr;
  double cell = 0;  // its side in pixels; 0: as there is room
};

// For an attention map: weights 0 ... 1, causal or not, its tokens as labels.
HeatMapOptions attention_map(const std::vector<std::string>& tokens, bool causal = true);

// values [rows, columns]. Where the terminal is too narrow, cells shrink, and then stand for means of
// several. A number that is not finite is "?".
std::string heat_map(const ConstView& values, const HeatMapOptions& options = {},
                     const Terminal& terminal = {});

Svg svg_heat_map(const ConstView& values, const HeatMapOptions& options = {});

}  // namespace attune::show
