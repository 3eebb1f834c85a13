// Taps: where a layer shows what it computes. Without an observer a tap is the identity and costs nothing; a scoped
// Observer reads what passes, or puts something else in its place.
//
//   Observer watch([&](const TapPoint& at) {
//     if (at.name == "weights") maps.push_back(Tensor::copy_of(at.value.value()));
//   });
//   model(tokens);
//
// Reading never changes what is computed.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "attune/autograd/place.h"
#include "attune/autograd/var.h"

namespace attune {

// What passes at one place: "weights" of "blocks.1.attention".
struct TapPoint {
  std::string path;
  std::string_view name;
  Var value;
};

// On this thread, from here to the end of its scope. The innermost observer sees a tap first.
class Observer {
 public:
  using Read = std::function<void(const TapPoint&)>;
  using Replace = std::function<Var(const TapPoint&)>;  // returns what goes on instead: of the same shape and type

  template <class F>
  explicit Observer(F f) : Observer(Private{}, as_replacement(std::move(f))) {}
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

 private:
  friend Var tap(std::string_view, Var);
  struct Private {};
  Observer(Private, Replace replace);

  template <class F>
  static Replace as_replacement(F f) {
    if constexpr (std::is_void_v<std::invoke_result_t<F&, const TapPoint&>>)
      return [f = std::move(f)](const TapPoint& at) mutable {
        f(at);
        return at.value;
      };
    else
      return f;
  }

  Replace replace_;
  Observer* outer_;
};

// The identity, unless an Observer is there.
Var tap(std::string_view name, Var x);
// Whether one is there: what only a tap shows need not be computed otherwise.
bool is_watched();

}  // namespace attune
