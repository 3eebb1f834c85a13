// Elementary functions of one number: the same code as the kernels', so the same bits on every machine and in
// every build, which std::exp and its like do not promise.
//
// Worst errors in units in the last place, over all floats / over random doubles (bench/ulp.cpp):
//            exp    log    erf    sin    cos    tanh
//   float    0.9    0.8    1.0    0.8    0.8    1.6
//   double   0.9    0.8    1.0    0.8    0.8    1.5
//
// Arguments of any size are right (sin and cos reduce them exactly), as are infinities and NaN; doubles go
// through their subnormal numbers, floats below 1.2e-38 count as 0.
#pragma once

namespace attune::math {

double exp(double x);
double log(double x);  // -inf at 0, NaN below
double erf(double x);
double sin(double x);
double cos(double x);
double tanh(double x);

float exp(float x);
float log(float x);
float erf(float x);
float sin(float x);
float cos(float x);
float tanh(float x);

}  // namespace attune::math
