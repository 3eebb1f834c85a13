// How attune refuses: one call that formats nothing until something is wrong.
//
// The caller's mistake is std::invalid_argument, the environment's (a file, an instruction set, memory)
// is std::runtime_error. A message names the operation first and shows the values involved.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>

#include "attune/lib/number.h"

namespace attune {

namespace detail {
[[noreturn]] void throw_invalid(fmt::string_view format, fmt::format_args arguments);
[[noreturn]] void throw_environment(fmt::string_view format, fmt::format_args arguments);
}  // namespace detail

// Throws std::invalid_argument unless `ok`. The arguments are evaluated either way: pass objects that are
// cheap to name, never the result of a formatting call.
template <class... Args>
inline void check(bool ok, fmt::format_string<const Args&...> format, const Args&... args) {
  if (!ok) [[unlikely]]
    detail::throw_invalid(format, fmt::make_format_args(args...));
}

// The same for what the caller cannot help: throws std::runtime_error.
template <class... Args>
inline void check_environment(bool ok, fmt::format_string<const Args&...> format,
                              const Args&... args) {
  if (!ok) [[unlikely]]
    detail::throw_environment(format, fmt::make_format_args(args...));
}

}  // namespace attune
