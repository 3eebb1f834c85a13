// The two number types that are not C++'s own. Nothing else is included here, so that kernel files can.
#pragma once

#include <cstdint>

namespace attune {

using Index = std::int64_t;

// A number and its derivative along one direction (forward-mode differentiation; Wengert 1964).
struct dual {
  double value = 0;
  double tangent = 0;
};

inline constexpr int kMaxRank = 6;

}  // namespace attune
