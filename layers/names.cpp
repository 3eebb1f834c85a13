#include "attune/layers/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace attune {
namespace {

// How many letters must be added, removed or replaced to make one of the other (Levenshtein 1966); a "*" in `a` adds
// letters for nothing.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool star = a[i] == '*';
    std::size_t diagonal = row[0];
    row[0] += !star;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t above = row[j + 1];
      row[j + 1] = star ? std::min(above, row[j])
                        : std::min({above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

bool matches_pattern(std::string_view name, std::string_view pattern) {
  std::size_t at = 0, in = 0, star = pattern.npos, star_at = 0;
  while (at < name.size()) {
    if (in < pattern.size() && pattern[in] == '*') {
      star = in++;  // tries to stand for nothing first
      star_at = at;
    } else if (in < pattern.size() && pattern[in] == name[at]) {
      ++in, ++at;
    } else if (star != pattern.npos) {
      in = star + 1;  // the last star takes one letter more
      at = ++star_at;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in) == pattern.npos;
}

std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> names, std::size_t count) {
  std::vector<std::pair<std::size_t, std::string>> sorted;
  for (const std::string& other : names) sorted.emplace_back(distance(name, other), other);
  std::ranges::stable_sort(sorted, {}, [](const auto& pair) { return pair.first; });
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < std::min(count, sorted.size()); ++i) nearest.push_back(sorted[i].second);
  return nearest;
}

std::string no_such(std::string_view kind, std::string_view name, std::span<const std::string> names,
                    std::size_t most) {
  std::string text = fmt::format("no such {}", kind);
  if (names.empty()) return text;
  text += fmt::format("; did you mean {}?", nearest_names(name, names, 1).front());
  return names.size() > most ? text : text + fmt::format(" There are {}", fmt::join(names, ", "));
}

}  // namespace attune
