// Kernels that go element by element: y = f(a, b), or y += f(a, b) where y accumulates.
//
// Inputs stretch to the shape of y (sizes of 1 and missing leading axes repeat); all have y's element type, and any
// strides. y must not overlap an input unless both show the same elements in the same order.
#pragma once

#include "attune/lib/view.h"

namespace attune::kernels {

void copy(const Out& y, const ConstView& x);  // also i32, which cannot accumulate
void fill(const Out& y, double value);
void scale(const Out& y, const ConstView& x, double factor);  // y = factor * x

void add(const Out& y, const ConstView& a, const ConstView& b);
void subtract(const Out& y, const ConstView& a, const ConstView& b);
void multiply(const Out& y, const ConstView& a, const ConstView& b);
void divide(const Out& y, const ConstView& a, const ConstView& b);
// The gradient of y = a / b with respect to b: db = -dy * y / b.
void divide_backward(const Out& db, const ConstView& dy, const ConstView& y, const ConstView& b);

void exp(const Out& y, const ConstView& x);
void log(const Out& y, const ConstView& x);
void erf(const Out& y, const ConstView& x);
void sin(const Out& y, const ConstView& x);
void cos(const Out& y, const ConstView& x);
void tanh(const Out& y, const ConstView& x);
void sqrt(const Out& y, const ConstView& x);

// Gaussian error linear unit, exact: y = x * Phi(x) (Hendrycks & Gimpel 2016), Phi the normal distribution function.
void gelu(const Out& y, const ConstView& x);
void gelu_backward(const Out& dx, const ConstView& dy, const ConstView& x);

}  // namespace attune::kernels
