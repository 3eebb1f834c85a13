// What may be written where: whether a stream is a terminal, how wide it is, and whether it wants colours.
#pragma once

#include <string>
#include <string_view>

namespace attune::show {

// Colours only where somebody looks, and did not refuse them. A default Terminal is a file: 80 columns, plain.
struct Terminal {
  bool redraws = false;  // a line can be drawn over
  bool colors = false;
  int width = 80;  // columns
};

// Of an open file descriptor, such as STDOUT_FILENO. `plain` refuses everything but text, as do a TERM that is "dumb"
// or not set; NO_COLOR, where set and not empty, refuses colours (https://no-color.org).
Terminal terminal(int descriptor, bool plain = false);

// Those of the terminal's own palette, which is readable on its background, whether dark or light.
enum class Style { bold, dim, red, green, yellow, blue, magenta, cyan };
// `text` in that style, or as it is where there are no colours.
std::string paint(const Terminal& terminal, Style style, std::string_view text);

// How many columns a text of one line takes: its characters, escape sequences not counted.
int columns(std::string_view text);
// The text with spaces behind it, or before it, so that it takes at least so many columns.
std::string pad(std::string_view text, int width);
std::string pad_left(std::string_view text, int width);
// The text without escape sequences, cut to so many columns, the last of them "…" where something is missing.
std::string shorten(std::string_view text, int width);
// How many bytes the character at the front of the text has, as UTF-8; 0 where it is none.
std::size_t character_length(std::string_view text);
// A token as one to show in a line: a newline is "↵", a space "␣", and other bytes that do not show are "�".
std::string visible(std::string_view token);
// The same with each of those other bytes told apart, as "\xc3".
std::string spelled(std::string_view text);

}  // namespace attune::show
