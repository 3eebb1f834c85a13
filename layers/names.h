// Names, of parameters and of what one can choose: patterns that match them, and those that a misspelt one may have
// meant.
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

// What an error says of a name that is none of `names`: "no such task; did you mean copy? There are copy, sort". Where
// there are more names than `most`, which are more than one wants to read, they are not listed.
std::string no_such(std::string_view kind, std::string_view name, std::span<const std::string> names,
                    std::size_t most = 20);

}  // namespace attune
