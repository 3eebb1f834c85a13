// a == b, a < b, a <= b, a > b, a >= b, element by element, with broadcasting: a constant, i32 of 1 (true) and 0, as
// where() takes it. Operands are of one type, i32 among them; a number may stand on the right. Nothing compares with
// NaN: that is 0.
#pragma once

#include <functional>

#include "attune/autograd/op.h"

namespace attune {

namespace detail {

// i32, whose elements are compare(a, b).
template <class Compare>
Var comparison(const char* name, Var a, Var b, Compare compare, std::source_location where) {
  const ConstView &left = a.value(where), &right = b.value(where);
  check(left.dtype() == right.dtype(), "{}: element types {} and {} differ", name, left.dtype(), right.dtype());
  const View y = saved(broadcast(left.shape(), right.shape(), name), i32);
  visit(left.dtype(), [&]<class T>() {
    kernels::walking::map_typed<std::int32_t, T, T>(name, Out(y), compare, left, right);
  });
  return constant_of(name, y, {a, b}, where);
}

// A number beside i32 may be a fraction or out of its range; beside others it is rounded to their type, as in a + 0.1.
template <class Compare>
Var comparison(const char* name, Var a, double number, Compare compare, std::source_location where) {
  const ConstView& left = a.value(where);
  const View y = saved(left.shape(), i32);
  visit(left.dtype(), [&]<class T>() {
    const auto against = [&] {
      if constexpr (std::is_same_v<T, float>) return static_cast<float>(number);
      else return number;
    }();
    kernels::walking::map_typed<std::int32_t, T, T>(
        name, Out(y), [&](T x) { return compare(x, against); }, left);
  });
  return constant_of(name, y, {a}, where);
}

}  // namespace detail

inline Var equal(Var a, Var b) {
  return detail::comparison("equal", a, b, std::equal_to<>(), std::source_location::current());
}
inline Var equal(Var a, double number) {
  return detail::comparison("equal", a, number, std::equal_to<>(), std::source_location::current());
}
inline Var less(Var a, Var b) {
  return detail::comparison("less", a, b, std::less<>(), std::source_location::current());
}
inline Var less(Var a, double number) {
  return detail::comparison("less", a, number, std::less<>(), std::source_location::current());
}
inline Var less_equal(Var a, Var b) {
  return detail::comparison("less_equal", a, b, std::less_equal<>(), std::source_location::current());
}
inline Var less_equal(Var a, double number) {
  return detail::comparison("less_equal", a, number, std::less_equal<>(), std::source_location::current());
}
inline Var greater(Var a, Var b) {
  return detail::comparison("greater", a, b, std::greater<>(), std::source_location::current());
}
inline Var greater(Var a, double number) {
  return detail::comparison("greater", a, number, std::greater<>(), std::source_location::current());
}
inline Var greater_equal(Var a, Var b) {
  return detail::comparison("greater_equal", a, b, std::greater_equal<>(), std::source_location::current());
}
inline Var greater_equal(Var a, double number) {
  return detail::comparison("greater_equal", a, number, std::greater_equal<>(), std::source_location::current());
}

}  // namespace attune
