// A kernel from a lambda: y = f(a), f(a, b) or f(a, b, c), element by element, for an op of one's own or a rare one.
//
//   kernels::map_each(y, x, [](auto x) { return x * math::sigmoid(x); });
//
// f is called with floats, doubles or duals, whichever y holds: `auto` parameters, the operators of dual.h and the
// functions of math.h serve all three, so that one lambda is also its own forward derivative. It is a plain loop on one
// thread: the same bits everywhere, but none of the speed of the kernels in body/.
#pragma once

#include <array>

#include "attune/lib/dual.h"
#include "attune/lib/kernels/run.h"
#include "attune/lib/math.h"
#include "attune/lib/view.h"

namespace attune::kernels {

// Inputs stretch to the shape of y, have its element type, and any strides; y += f(...) where y accumulates.
template <class F>
void map_each(const Out& y, const ConstView& a, const F& f);
template <class F>
void map_each(const Out& y, const ConstView& a, const ConstView& b, const F& f);
template <class F>
void map_each(const Out& y, const ConstView& a, const ConstView& b, const ConstView& c, const F& f);

// -- Below: how they do it.

namespace walking {

// Steps through all elements of a shape, and at each knows the offset of every operand.
template <std::size_t n>
class Walk {
 public:
  Walk(const Shape& shape, const std::array<Strides, n>& strides) : shape_(shape), strides_(strides) {}

  Index operator[](std::size_t operand) const { return offsets_[operand]; }
  void step() {
    for (int axis = shape_.rank() - 1; axis >= 0; --axis) {
      const bool inside = ++position_[place(axis)] < shape_[axis];
      for (std::size_t o = 0; o < n; ++o)
        offsets_[o] += strides_[o][place(axis)] * (inside ? 1 : 1 - shape_[axis]);
      if (inside) return;
      position_[place(axis)] = 0;
    }
  }

 private:
  static std::size_t place(int axis) { return static_cast<std::size_t>(axis); }

  Shape shape_;
  std::array<Strides, n> strides_;
  std::array<Index, kMaxRank> position_{};
  std::array<Index, n> offsets_{};
};

// The same where the element types are known, and may differ: y holds To, each input From. `Mode` is the type whose
// denormals decide (run.h).
template <class To, class From, class Mode, class F, class... Inputs>
void map_typed(const char* op, const Out& y, const F& f, const Inputs&... inputs) {
  constexpr std::size_t count = sizeof...(Inputs);
  const Shape& shape = y.view.shape();
  (check(broadcasts_to(inputs.shape(), shape), "{}: {} does not stretch to {}", op, inputs.shape(), shape), ...);
  To* to = y.view.as<To>();
  const std::array<const From*, count> from = {inputs.template as<From>()...};
  Walk<count + 1> at(shape, {y.view.strides(), inputs.expand(shape).strides()...});
  const DenormalMode mode(dtype_of<Mode>);
  const auto compute = [&]<std::size_t... i>(std::index_sequence<i...>) {
    return static_cast<To>(f(from[i][at[i + 1]]...));
  };
  for (Index left = shape.count(); left > 0; --left, at.step()) {
    const To result = compute(std::index_sequence_for<Inputs...>());
    to[at[0]] = y.accumulate ? static_cast<To>(to[at[0]] + result) : result;
  }
}

template <class F, class... Inputs>
void map_floats(const Out& y, const F& f, const Inputs&... inputs) {
  if (!y) return;
  const DType type = y.view.dtype();
  check(is_float(type), "map_each: {} has no arithmetic", type);
  (check(inputs.dtype() == type, "map_each: element types {} and {} differ", type, inputs.dtype()), ...);
  visit(type, [&]<class T>() {
    if constexpr (!std::is_same_v<T, std::int32_t>) map_typed<T, T, T>("map_each", y, f, inputs...);
  });
}

}  // namespace walking

template <class F>
void map_each(const Out& y, const ConstView& a, const F& f) {
  walking::map_floats(y, f, a);
}
template <class F>
void map_each(const Out& y, const ConstView& a, const ConstView& b, const F& f) {
  walking::map_floats(y, f, a, b);
}
template <class F>
void map_each(const Out& y, const ConstView& a, const ConstView& b, const ConstView& c, const F& f) {
  walking::map_floats(y, f, a, b, c);
}

}  // namespace attune::kernels
