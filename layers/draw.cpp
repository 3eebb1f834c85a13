#include "attune/layers/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace attune {
namespace {

constexpr const char* kShades[] = {"··", "░░", "▒▒", "▓▓", "██"};

// Shades by the square root, which is how a fifth of the attention comes to be seen at all.
const char* shade(double weight) {
  if (!(weight >= 0)) return "??";
  const int step = static_cast<int>(std::lround(4 * std::sqrt(std::min(weight, 1.0))));
  return kShades[step];
}

std::string label(std::span<const std::string> labels, Index i) {
  return static_cast<std::size_t>(i) < labels.size() ? labels[static_cast<std::size_t>(i)] : std::string();
}

}  // namespace

std::string draw_attention(const ConstView& weights, std::span<const std::string> queries,
                           std::span<const std::string> keys) {
  check(weights.rank() == 2, "draw_attention: {} is no map of [queries, keys]", weights.shape());
  std::size_t margin = 0;
  for (const std::string& query : queries) margin = std::max(margin, query.size());
  std::string picture;
  if (!keys.empty()) {
    picture += std::string(margin + 1, ' ');
    for (Index key = 0; key < weights.size(1); ++key) picture += fmt::format("{:<2}", label(keys, key));
    picture += '\n';
  }
  for (Index query = 0; query < weights.size(0); ++query) {
    picture += fmt::format("{:>{}} ", label(queries, query), margin);
    for (Index key = 0; key < weights.size(1); ++key) picture += shade(weights.at({query, key}));
    picture += '\n';
  }
  return picture;
}

std::string sparkline(std::span<const double> series, int width) {
  static constexpr const char* blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (series.empty()) return "";
  const std::size_t columns = std::min(series.size(), static_cast<std::size_t>(std::max(1, width)));
  std::vector<double> heights;
  for (std::size_t column = 0; column < columns; ++column) {
    const std::size_t begin = column * series.size() / columns, end = (column + 1) * series.size() / columns;
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += series[i];
    heights.push_back(sum / static_cast<double>(end - begin));
  }
  double least = HUGE_VAL, most = -HUGE_VAL;
  for (const double height : heights) {
    if (!std::isfinite(height)) continue;
    least = std::min(least, height);
    most = std::max(most, height);
  }
  std::string line;
  for (const double height : heights) {
    const double share = most > least ? (height - least) / (most - least) : 0;
    line += std::isfinite(height) ? blocks[static_cast<int>(std::lround(7 * share))] : "?";
  }
  return line;
}

}  // namespace attune
