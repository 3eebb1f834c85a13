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

}  // namespace

namespace math {

double exp(double x) { return registers::exp(F64{x}).r; }
double log(double x) { return registers::log(F64{x}).r; }
double erf(double x) { return registers::erf(F64{x}).r; }
double sin(double x) { return registers::sin(F64{x}).r; }
double cos(double x) { return registers::cos(F64{x}).r; }
double tanh(double x) { return registers::tanh(F64{x}).r; }

float exp(float x) { return registers::exp(F32{x}).r; }
float log(float x) { return registers::log(F32{x}).r; }
float erf(float x) { return registers::erf(F32{x}).r; }
float sin(float x) { return registers::sin(F32{x}).r; }
float cos(float x) { return registers::cos(F32{x}).r; }
float tanh(float x) { return registers::tanh(F32{x}).r; }

}  // namespace math
}  // namespace attune
