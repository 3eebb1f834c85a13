// Plain text in lines that fit a terminal or a page.
#pragma once

#include <string>
#include <string_view>

namespace attune {

// The text with each of its lines broken at spaces, so that none has more than `width` characters (of UTF-8, each as
// wide as the next); only a word that is longer has more, such as the path of a file. What is broken off stands behind
// `indent` spaces, or as many as its line starts with, if these are more.
std::string wrapped(std::string_view text, std::size_t indent = 0, std::size_t width = 80);

}  // namespace attune
