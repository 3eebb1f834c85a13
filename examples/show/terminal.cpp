#include "attune/examples/show/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "attune/lib/utf8.h"

namespace attune::show {
namespace {

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

// How many bytes of an escape sequence stand at the front of the text: ESC [ ... letter. 0: none.
std::size_t escape_length(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  std::size_t end = 2;
  while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
  return end < text.size() ? end + 1 : end;
}

// Whether a byte goes on with a character that has begun.
bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

std::string spaces(int count) { return std::string(static_cast<std::size_t>(count > 0 ? count : 0), ' '); }

const char* code_of(Style style) {
  switch (style) {
    case Style::bold:
      return "1";
    case Style::dim:
      return "2";
    case Style::red:
      return "31";
    case Style::green:
      return "32";
    case Style::yellow:
      return "33";
    case Style::blue:
      return "34";
    case Style::magenta:
      return "35";
    case Style::cyan:
      return "36";
  }
  return "0";
}

}  // namespace

Terminal terminal(int descriptor, bool plain) {
  Terminal result;
  if (isatty(descriptor) == 0) return result;
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) result.width = size.ws_col;
  const std::string kind = variable("TERM");
  result.redraws = !plain && !kind.empty() && kind != "dumb";
  result.colors = result.redraws && variable("NO_COLOR").empty();
  return result;
}

std::string paint(const Terminal& terminal, Style style, std::string_view text) {
  return terminal.colors ? fmt::format("\033[{}m{}\033[0m", code_of(style), text) : std::string(text);
}

int columns(std::string_view text) {
  int count = 0;
  while (!text.empty()) {
    if (const std::size_t escape = escape_length(text)) {
      text.remove_prefix(escape);
      continue;
    }
    count += !continues(text.front());
    text.remove_prefix(1);
  }
  return count;
}

std::string pad(std::string_view text, int width) { return std::string(text) + spaces(width - columns(text)); }
std::string pad_left(std::string_view text, int width) { return spaces(width - columns(text)) + std::string(text); }

std::string shorten(std::string_view text, int width) {
  const bool fits = columns(text) <= width;
  std::string line;
  int taken = 0;
  while (!text.empty()) {
    if (const std::size_t escape = escape_length(text)) {
      text.remove_prefix(escape);
      continue;
    }
    if (!continues(text.front()) && ++taken > (fits ? width : width - 1)) break;
    line += text.front();
    text.remove_prefix(1);
  }
  return fits || width < 1 ? line : line + "…";
}

std::size_t character_length(std::string_view text) {
  for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(4, text.size()); ++bytes)
    if (valid_utf8(text.substr(0, bytes)) == bytes) return bytes;
  return 0;
}

namespace {

// `hidden` stands for a byte that does not show.
template <class Hidden>
std::string in_a_line(std::string_view token, Hidden&& hidden) {
  std::string text;
  while (!token.empty()) {
    const char c = token.front();
    const std::size_t length = character_length(token);
    if (c == '\n')
      text += "↵";
    else if (c == ' ')
      text += "␣";
    else if (c == '\t')
      text += "⇥";
    else if (length == 0 || (length == 1 && (c < ' ' || c == 127)))
      text += hidden(static_cast<unsigned char>(c));
    else
      text += token.substr(0, length);
    token.remove_prefix(std::max<std::size_t>(1, length));
  }
  return text;
}

}  // namespace

std::string visible(std::string_view token) {
  return in_a_line(token, [](unsigned char) { return "�"; });
}

std::string spelled(std::string_view text) {
  return in_a_line(text, [](unsigned char byte) { return fmt::format("\\x{:02x}", byte); });
}

}  // namespace attune::show
