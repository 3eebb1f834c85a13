// The same value, as a constant: no gradient (and, in dual, no tangent) passes.
#pragma once

#include "attune/autograd/op.h"

namespace attune {

inline Var detach(Var x) {
  return alias_of("detach", x, detail::views(x, std::source_location::current()).value, Flow::cut);
}

}  // namespace attune
