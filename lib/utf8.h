// Text as UTF-8, no more than files with names in them need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace attune {

// How many bytes from the start of `text` are UTF-8: all of them, or those before the first that is not.
// Overlong forms, surrogates and numbers above U+10FFFF are not.
std::size_t valid_utf8(std::string_view text);

// Appends the character U+`code`, which must be one.
void append_utf8(std::string& text, std::uint32_t code);

// `text` as JSON writes it: in quotation marks, with what must not stand there escaped.
std::string json_string(std::string_view text);

}  // namespace attune
