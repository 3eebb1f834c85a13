#include "attune/lib/utf8.h"

#include <fmt/format.h>

namespace attune {
namespace {

// The length of the character that `text` starts with, or 0 where it starts with none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return text.empty() ? 0 : 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && second < 0xa0, surrogate = first == 0xed && second > 0x9f;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool overlong = first == 0xf0 && second < 0x90, too_large = first == 0xf4 && second > 0x8f;
    return follows(1) && follows(2) && follows(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::size_t valid_utf8(std::string_view text) {
  std::size_t valid = 0;
  while (const std::size_t length = character_length(text.substr(valid))) valid += length;
  return valid;
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto append = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  const auto six_bits = [&](int from) { append(0x80 | (code >> from & 0x3f)); };
  if (code < 0x80) {
    append(code);
  } else if (code < 0x800) {
    append(0xc0 | code >> 6);
    six_bits(0);
  } else if (code < 0x10000) {
    append(0xe0 | code >> 12);
    six_bits(6);
    six_bits(0);
  } else {
    append(0xf0 | code >> 18);
    six_bits(12);
    six_bits(6);
    six_bits(0);
  }
}

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (char letter : text) {
    if (letter == '"' || letter == '\\') {
      result += '\\';
      result += letter;
    } else if (static_cast<unsigned char>(letter) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
    } else {
      result += letter;
    }
  }
  return result + '"';
}

}  // namespace attune
