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
void expm1(const Out& y, const ConstView& x);  // exp(x) - 1, with all digits where x is small
void log(const Out& y, const ConstView& x);
void log1p(const Out& y, const ConstView& x);  // log(1 + x), likewise
void erf(const Out& y, const ConstView& x);
void sin(const Out& y, const ConstView& x);
void cos(const Out& y, const ConstView& x);
void sqrt(const Out& y, const ConstView& x);

// y = a^b, with the special values of C's pow. For z = a^b: da = dz * b a^(b-1), 0 where b is 0; and
// db = dz * z log a, its limit 0 where a is 0 and b is not below.
void pow(const Out& y, const ConstView& a, const ConstView& b);
void pow_backward(const Out& da, const ConstView& dz, const ConstView& a, const ConstView& b);
void pow_exponent_backward(const Out& db, const ConstView& dz, const ConstView& z, const ConstView& a);

// Each with all digits in both tails, and its derivative too: sigmoid(x) = 1 / (1 + exp(-x)), softplus(x) =
// log(1 + exp(x)), whose derivative is sigmoid.
void tanh(const Out& y, const ConstView& x);
void tanh_backward(const Out& dx, const ConstView& dy, const ConstView& x);
void sigmoid(const Out& y, const ConstView& x);
void sigmoid_backward(const Out& dx, const ConstView& dy, const ConstView& x);
void softplus(const Out& y, const ConstView& x);

// Functions with a kink: max(x, 0); x > 0 ? x : slope * x; |x|; -1, 0 or 1; min(max(x, low), high). NaN stays NaN.
// dx = dy where x is above 0, else 0 or slope * dy. clamp passes dy inside and on the bounds.
void relu(const Out& y, const ConstView& x);
void relu_backward(const Out& dx, const ConstView& dy, const ConstView& x);
void leaky_relu(const Out& y, const ConstView& x, double slope);
void leaky_relu_backward(const Out& dx, const ConstView& dy, const ConstView& x, double slope);
void abs(const Out& y, const ConstView& x);
void sign(const Out& y, const ConstView& x);
void clamp(const Out& y, const ConstView& x, double low, double high);
void clamp_backward(const Out& dx, const ConstView& dy, const ConstView& x, double low, double high);

// NaN where either is NaN. da = dy where a wins, dy / 2 at a tie, else 0.
void maximum(const Out& y, const ConstView& a, const ConstView& b);
void maximum_backward(const Out& da, const ConstView& dy, const ConstView& a, const ConstView& b);
void minimum(const Out& y, const ConstView& a, const ConstView& b);
void minimum_backward(const Out& da, const ConstView& dy, const ConstView& a, const ConstView& b);

// y = condition ? a : b, where condition is i32, and anything but 0 is true.
void where(const Out& y, const ConstView& condition, const ConstView& a, const ConstView& b);

// Gaussian error linear unit, exact: y = x * Phi(x) (Hendrycks & Gimpel 2016), Phi the normal distribution function.
void gelu(const Out& y, const ConstView& x);
void gelu_backward(const Out& dx, const ConstView& dy, const ConstView& x);
// Its approximation x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))) (the same paper).
void gelu_tanh(const Out& y, const ConstView& x);
void gelu_tanh_backward(const Out& dx, const ConstView& dy, const ConstView& x);
// Sigmoid linear unit, x * sigmoid(x) (the same paper; as swish in Ramachandran, Zoph & Le 2017).
void silu(const Out& y, const ConstView& x);
void silu_backward(const Out& dx, const ConstView& dy, const ConstView& x);

// A number where a kernel wants an operand: a view of one element, as long as this object lives.
class Number {
 public:
  Number(double number, DType dtype);
  Number(const Number&) = delete;
  const ConstView& view() const { return view_; }
  operator const ConstView&() const { return view_; }

 private:
  alignas(16) unsigned char bits_[16];
  ConstView view_;
};

// y = t * (log(t) - x), 0 where t is 0: a term of the divergence of the distribution t from the one whose logarithm is x.
void divergence(const Out& y, const ConstView& t, const ConstView& x);
// dt = dy * (log(t) + 1 - x), 0 where t is 0.
void divergence_backward(const Out& dt, const ConstView& dy, const ConstView& t, const ConstView& x);

// y = -t log s(x) - (1 - t) log(1 - s(x)) with the logistic function s(x) = 1 / (1 + exp(-x)); for any x that is finite.
void binary_entropy(const Out& y, const ConstView& x, const ConstView& t);
// dx = dy * (s(x) - t).
void binary_entropy_backward(const Out& dx, const ConstView& dy, const ConstView& x, const ConstView& t);

}  // namespace attune::kernels
