// The four element types, chosen at run time and fixed per tensor. Nothing converts silently.
#pragma once

#include <cstdint>
#include <string_view>

#include "attune/lib/error.h"

namespace attune {

// f32 trains, f64 verifies, dual differentiates forward through the same ops, i32 holds ids and targets.
enum class DType : std::uint8_t { f32, f64, dual, i32 };

inline constexpr DType f32 = DType::f32;
inline constexpr DType f64 = DType::f64;
inline constexpr DType i32 = DType::i32;

inline constexpr int kDTypes = 4;
inline constexpr int kFloatDTypes = 3;  // f32, f64 and dual: the first three, which can carry a gradient

constexpr Index size_of(DType type) {
  constexpr Index sizes[kDTypes] = {4, 8, 16, 4};
  return sizes[static_cast<int>(type)];
}

constexpr bool is_float(DType type) { return type != DType::i32; }

constexpr std::string_view name_of(DType type) {
  constexpr std::string_view names[kDTypes] = {"f32", "f64", "dual", "i32"};
  return names[static_cast<int>(type)];
}

template <class T>
inline constexpr DType dtype_of = DType::i32;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<dual> = DType::dual;

// visit(type, []<class T>() {...}) calls the lambda with the C++ type behind `type`.
template <class F>
decltype(auto) visit(DType type, F&& f) {
  switch (type) {
    case DType::f32: return f.template operator()<float>();
    case DType::f64: return f.template operator()<double>();
    case DType::dual: return f.template operator()<dual>();
    case DType::i32: break;
  }
  return f.template operator()<std::int32_t>();
}

}  // namespace attune

template <>
struct fmt::formatter<attune::DType> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(attune::DType type, Context& context) const {
    return fmt::format_to(context.out(), "{}", attune::name_of(type));
  }
};
