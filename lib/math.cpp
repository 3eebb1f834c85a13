#include "attune/lib/math.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "attune/lib/kernels/row.h"

namespace attune {
namespace {

// Each needs the one before it.
// clang-format off
#include "attune/lib/kernels/body/one.inl"
#include "attune/lib/kernels/body/vec.inl"
#include "attune/lib/kernels/body/math.inl"
// clang-format on

Dual<F64> vector(dual x) { return {{x.value}, {x.tangent}}; }
dual number(Dual<F64> x) { return {x.value.r, x.tangent.r}; }

}  // namespace

namespace math {

double exp(double x) { return registers::exp(F64{x}).r; }
double expm1(double x) { return registers::expm1(F64{x}).r; }
double log(double x) { return registers::log(F64{x}).r; }
double log1p(double x) { return registers::log1p(F64{x}).r; }
double sqrt(double x) { return sqrt(F64{x}).r; }
double pow(double x, double y) { return registers::pow(F64{x}, F64{y}).r; }
double erf(double x) { return registers::erf(F64{x}).r; }
double sin(double x) { return registers::sin(F64{x}).r; }
double cos(double x) { return registers::cos(F64{x}).r; }
double tanh(double x) { return registers::tanh(F64{x}).r; }
double sigmoid(double x) { return registers::sigmoid(F64{x}).r; }
double softplus(double x) { return registers::softplus(F64{x}).r; }

float exp(float x) { return registers::exp(F32{x}).r; }
float expm1(float x) { return registers::expm1(F32{x}).r; }
float log(float x) { return registers::log(F32{x}).r; }
float log1p(float x) { return registers::log1p(F32{x}).r; }
float sqrt(float x) { return sqrt(F32{x}).r; }
float pow(float x, float y) {  // through f64, as the kernels go
  const auto z = static_cast<float>(pow(static_cast<double>(x), static_cast<double>(y)));
  return std::abs(z) < Terms<float>::kSmallest ? std::copysign(0.0f, z) : z;
}
float erf(float x) { return registers::erf(F32{x}).r; }
float sin(float x) { return registers::sin(F32{x}).r; }
float cos(float x) { return registers::cos(F32{x}).r; }
float tanh(float x) { return registers::tanh(F32{x}).r; }
float sigmoid(float x) { return registers::sigmoid(F32{x}).r; }
float softplus(float x) { return registers::softplus(F32{x}).r; }

dual exp(dual x) { return number(attune::exp(vector(x))); }
dual expm1(dual x) { return number(attune::expm1(vector(x))); }
dual log(dual x) { return number(attune::log(vector(x))); }
dual log1p(dual x) { return number(attune::log1p(vector(x))); }
dual sqrt(dual x) { return number(attune::sqrt(vector(x))); }
dual pow(dual x, dual y) { return number(attune::pow(vector(x), vector(y))); }
dual pow(dual x, double y) { return pow(x, dual{y, 0}); }
dual erf(dual x) { return number(attune::erf(vector(x))); }
dual sin(dual x) { return number(attune::sin(vector(x))); }
dual cos(dual x) { return number(attune::cos(vector(x))); }
dual tanh(dual x) { return number(attune::tanh(vector(x))); }
dual sigmoid(dual x) { return number(attune::sigmoid(vector(x))); }
dual softplus(dual x) { return number(attune::softplus(vector(x))); }

}  // namespace math
}  // namespace attune
