// Plain lists of doubles where a kernel wants a view.
#pragma once

#include <span>

#include "attune/lib/view.h"

namespace attune::detail {

inline View as_view(std::span<double> x) {
  return View(x.data(), {static_cast<Index>(x.size())}, DType::f64);
}

}  // namespace attune::detail
