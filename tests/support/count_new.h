// How often memory is asked for, for tests that say that it is not.
#pragma once

#include <cstdint>

#include "sanitized.h"

namespace attune {

// How often this thread has called operator new. Sanitizers have an operator of their own: under them it stays 0.
std::uint64_t calls_of_new();
inline constexpr bool kCountsNew = !kSanitized;

}  // namespace attune
