#include "attune/layers/tap.h"

namespace attune {
namespace {
constinit thread_local Observer* innermost_observer = nullptr;
}  // namespace

Observer::Observer(Private, Replace replace) : replace_(std::move(replace)), outer_(innermost_observer) {
  innermost_observer = this;
}

Observer::~Observer() { innermost_observer = outer_; }

bool is_watched() { return innermost_observer != nullptr; }

Var tap(std::string_view name, Var x) {
  if (!innermost_observer) return x;
  Observer* const all = innermost_observer;
  for (Observer* observer = all; observer; observer = observer->outer_) {
    // What an observer itself computes is not observed by it.
    innermost_observer = observer->outer_;
    struct Restore {
      Observer* before;
      ~Restore() { innermost_observer = before; }
    } restore{all};
    const Var instead = observer->replace_(TapPoint{current_path(), name, x});
    check(instead.shape() == x.shape() && instead.dtype() == x.dtype(),
          "tap: {} of {} {} cannot be replaced by {} {}", name, x.dtype(), x.shape(), instead.dtype(), instead.shape());
    x = instead;
  }
  return x;
}

}  // namespace attune
