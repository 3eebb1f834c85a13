#include "attune/lib/error.h"

#include <fmt/format.h>

namespace attune::detail {

void throw_invalid(fmt::string_view format, fmt::format_args arguments) {
  throw std::invalid_argument(fmt::vformat(format, arguments));
}

void throw_environment(fmt::string_view format, fmt::format_args arguments) {
  throw std::runtime_error(fmt::vformat(format, arguments));
}

}  // namespace attune::detail
