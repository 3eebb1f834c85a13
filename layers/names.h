// Names of parameters: patterns that match them, and those that a misspelt one may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

// Whether the whole name is what the pattern describes, in which each "*" stands for any characters, or none.
bool matches_pattern(std::string_view name, std::string_view pattern);

// The names nearest to one that was not found, by the fewest letters to change, the nearest first; at most `count`.
std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> names,
                                       std::size_t count = 5);

}  // namespace attune
