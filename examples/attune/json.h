// Values as JSON writes them.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>

namespace attune::program {

// Not a number becomes null, which is what JSON has for it.
inline std::string json_number(double number) { return std::isfinite(number) ? fmt::format("{:.2f}", number) : "null"; }

inline std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20)
      quoted += fmt::format("\\u{:04x}", static_cast<int>(c));
    else if (c == '"' || c == '\\')
      quoted += {'\\', c};
    else
      quoted += c;
  }
  return quoted + '"';
}

}  // namespace attune::program
