// Arithmetic of dual numbers, one at a time: what a plain function needs to be differentiated forward (Wengert 1964).
// math.h has the elementary functions. Comparisons look at the values alone.
#pragma once

#include "attune/lib/number.h"

namespace attune {

constexpr dual operator-(dual a) { return {-a.value, -a.tangent}; }

constexpr dual operator+(dual a, dual b) { return {a.value + b.value, a.tangent + b.tangent}; }
constexpr dual operator-(dual a, dual b) { return {a.value - b.value, a.tangent - b.tangent}; }
constexpr dual operator*(dual a, dual b) { return {a.value * b.value, a.value * b.tangent + a.tangent * b.value}; }
constexpr dual operator/(dual a, dual b) {
  const double quotient = a.value / b.value;
  return {quotient, (a.tangent - quotient * b.tangent) / b.value};
}

constexpr dual operator+(dual a, double b) { return {a.value + b, a.tangent}; }
constexpr dual operator-(dual a, double b) { return {a.value - b, a.tangent}; }
constexpr dual operator*(dual a, double b) { return {a.value * b, a.tangent * b}; }
constexpr dual operator/(dual a, double b) { return {a.value / b, a.tangent / b}; }
constexpr dual operator+(double a, dual b) { return b + a; }
constexpr dual operator-(double a, dual b) { return {a - b.value, -b.tangent}; }
constexpr dual operator*(double a, dual b) { return b * a; }
constexpr dual operator/(double a, dual b) { return dual{a, 0} / b; }

constexpr dual& operator+=(dual& a, dual b) { return a = a + b; }
constexpr dual& operator-=(dual& a, dual b) { return a = a - b; }
constexpr dual& operator*=(dual& a, dual b) { return a = a * b; }
constexpr dual& operator/=(dual& a, dual b) { return a = a / b; }

constexpr bool operator==(dual a, dual b) { return a.value == b.value; }
constexpr bool operator<(dual a, dual b) { return a.value < b.value; }
constexpr bool operator>(dual a, dual b) { return a.value > b.value; }
constexpr bool operator<=(dual a, dual b) { return a.value <= b.value; }
constexpr bool operator>=(dual a, dual b) { return a.value >= b.value; }

constexpr bool operator==(dual a, double b) { return a.value == b; }
constexpr bool operator<(dual a, double b) { return a.value < b; }
constexpr bool operator>(dual a, double b) { return a.value > b; }
constexpr bool operator<=(dual a, double b) { return a.value <= b; }
constexpr bool operator>=(dual a, double b) { return a.value >= b; }
constexpr bool operator<(double a, dual b) { return a < b.value; }
constexpr bool operator>(double a, dual b) { return a > b.value; }
constexpr bool operator<=(double a, dual b) { return a <= b.value; }
constexpr bool operator>=(double a, dual b) { return a >= b.value; }

}  // namespace attune
