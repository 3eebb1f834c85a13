#include "attune/lib/wrap.h"

#include <algorithm>

namespace attune {
namespace {

// The bytes that continue a character of UTF-8 are 10xxxxxx.
std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Where to break a line: at the last space up to which it fits, or the first at all. Not in what indents it.
std::size_t last_space(std::string_view line, std::size_t width) {
  const std::size_t start = line.find_first_not_of(' ');
  std::size_t found = line.npos;
  for (std::size_t at = line.find(' ', std::min(start, line.size())); at != line.npos; at = line.find(' ', at + 1)) {
    if (found != line.npos && characters(line.substr(0, at)) > width) break;
    found = at;
  }
  return found;
}

void append_line(std::string& page, std::string line, std::size_t indent, std::size_t width) {
  const std::string margin(std::max(indent, std::min(line.find_first_not_of(' '), line.size())), ' ');
  while (characters(line) > width) {
    const std::size_t space = last_space(line, width);
    const std::size_t rest = line.find_first_not_of(' ', space);
    if (space == line.npos || rest == line.npos) break;
    page.append(line, 0, line.find_last_not_of(' ', space) + 1).append("\n");
    line.replace(0, rest, margin);
  }
  page += line;
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string page;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (at > 0) page += '\n';
    append_line(page, std::string(text.substr(at, end - at)), indent, width);
    at = end + 1;
  }
  return page;
}

}  // namespace attune
