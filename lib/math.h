// Elementary functions of one number: the same code as the kernels', so the same bits on every machine and in
// every build, which std::exp and its like do not promise. Of a dual, the derivative comes along.
//
// Worst errors in units in the last place, over all floats (in the second line, one in 61) / over random doubles
// (bench/ulp.cpp):
//            exp    log    erf    sin      cos       tanh
//   float    0.9    0.8    1.0    0.8      0.8       1.6
//   double   0.9    0.8    1.0    0.8      0.8       1.5
//            expm1  log1p  pow    sigmoid  softplus
//   float    1.5    0.8    0.5    1.5      1.6
//   double   1.6    0.8    1.5    1.4      1.4
//
// Arguments of any size are right (sin and cos reduce them exactly), as are infinities and NaN; doubles go
// through their subnormal numbers, floats below 1.2e-38 count as 0.
#pragma once

#include "attune/lib/dual.h"

namespace attune::math {

double exp(double x);
double expm1(double x);  // exp(x) - 1, with all digits where x is small
double log(double x);    // -inf at 0, NaN below
double log1p(double x);  // log(1 + x), with all digits where x is small
double sqrt(double x);
double pow(double x, double y);  // with the special values of C's pow
double erf(double x);
double sin(double x);
double cos(double x);
double tanh(double x);
double sigmoid(double x);   // 1 / (1 + exp(-x))
double softplus(double x);  // log(1 + exp(x))

float exp(float x);
float expm1(float x);
float log(float x);
float log1p(float x);
float sqrt(float x);
float pow(float x, float y);
float erf(float x);
float sin(float x);
float cos(float x);
float tanh(float x);
float sigmoid(float x);
float softplus(float x);

dual exp(dual x);
dual expm1(dual x);
dual log(dual x);
dual log1p(dual x);
dual sqrt(dual x);
dual pow(dual x, dual y);
dual pow(dual x, double y);
dual erf(dual x);
dual sin(dual x);
dual cos(dual x);
dual tanh(dual x);
dual sigmoid(dual x);
dual softplus(dual x);

}  // namespace attune::math
