// Elementary functions: our own, so that no bit depends on the machine's libm. Each is written for one
// register of any width (namespace `registers`); at the end they are lifted to the sixteen lanes of a Vec and
// to Dual.
//
// bench/ulp.cpp measures their errors, lib/math.h states them; gelu's are 6 units in the last place, far out in
// the negative tail, and those of its derivative 4 in f32 and 9 in f64. An f32 result below the smallest normal
// number is 0, since f32 kernels flush; f64 keeps its subnormal numbers.

#include "attune/lib/kernels/body/math_terms.inl"

namespace registers {

template <class R> using Of = Terms<typename R::T>;
template <class R> inline constexpr bool kIsFloat = sizeof(typename R::T) == sizeof(float);

template <class R> INLINE R magnitude(R x) { return x & R::all(Of<R>::kMagnitude); }
template <class R> INLINE R sign(R x) { return x & R::all(Of<R>::kSign); }
template <class R> INLINE R negative(R x) { return x ^ R::all(Of<R>::kSign); }
// min(x, limit); a NaN stays.
template <class R> INLINE R at_most(R x, typename R::T limit) { return select(R::all(limit) < x, R::all(limit), x); }

// c[0] + c[1] x + c[2] x^2 + ..., by Horner's rule.
template <int i = 0, class R, int n>
INLINE R polynomial(R x, const typename R::T (&c)[n]) {
  if constexpr (i == n - 1) return R::all(c[i]);
  else return fma(polynomial<i + 1>(x, c), x, R::all(c[i]));
}

// The same, as two shorter chains of even and odd powers: where the highest powers weigh most, fewer
// roundings add up.
template <int i = 0, class R, int n>
INLINE R every_other(R square, const typename R::T (&c)[n]) {
  if constexpr (i + 2 >= n) return R::all(c[i]);
  else return fma(every_other<i + 2>(square, c), square, R::all(c[i]));
}
template <class R, int n>
INLINE R even_and_odd(R x, R square, const typename R::T (&c)[n]) {
  return fma(every_other<1>(square, c), x, every_other<0>(square, c));
}

// --- exp ---------------------------------------------------------------------------------------------------

// x = n ln2 + r with |r| <= ln2 / 2; n stands in the low bits of `shifted`, too.
template <class R>
struct Octaves {
  R n, r, shifted;
};

// r still lacks n times the second part of ln2. It is exact: no bit of it lies below those of x and of the
// first part.
template <class R>
INLINE Octaves<R> octaves(R x) {
  const R magic = R::all(Of<R>::kOneAndHalf);
  const R shifted = fma(x, constant<R>(1.4426950408889634), magic), n = shifted - magic;
  return {n, fma(n, R::all(-Of<R>::kLn2[0]), x), shifted};
}
template <class R>
INLINE Octaves<R> reduce(R x) {
  Octaves<R> o = octaves(x);
  o.r = fma(o.n, R::all(-Of<R>::kLn2[1]), o.r);
  return o;
}
// Of x + low, where |low| is less than a digit of x.
template <class R>
INLINE Octaves<R> reduce(R x, R low) {
  Octaves<R> o = octaves(x);
  o.r = o.r + fma(o.n, R::all(-Of<R>::kLn2[1]), low);
  return o;
}

// exp(r) 2^n, for x = n ln2 + r that does not overflow. The exponent is added as an integer: cheaper than a
// product, and 2^128 comes up on the way to the largest floats. f64 goes through 2^128 times a subnormal
// result.
template <class R>
INLINE R exp_of(R x, Octaves<R> o) {
  const R one = constant<R>(1), none = zero<R>();
  const R p = fma(o.r, fma(o.r, polynomial(o.r, Of<R>::kExp), one), one);
  R y = add_bits(p, shift_left<Of<R>::kMantissa>(o.shifted));
  if constexpr (!kIsFloat<R>) {
    const auto deep = x < constant<R>(-708);
    y = add_bits(y, select(deep, R::all(from_bits<double>(0x80ull << 52)), none)) *
        select(deep, constant<R>(0x1p-128), one);
  }
  return select(x < R::all(Of<R>::kExpLow), none, y);
}

template <class R>
INLINE R exp(R x) {
  const R y = exp_of(x, reduce(x));
  return select(x <= R::all(Of<R>::kExpHigh), y, x + R::all(Of<R>::kInfinity));  // +inf, or NaN
}

// exp(a b) for a b <= 0, with the rounding of the product made good: without that, exp(-x^2) loses a digit at
// x = 4. A NaN is the caller's matter.
template <class R>
INLINE R exp_of_product(R a, R b) {
  const R x = a * b;
  return exp_of(x, reduce(x, fma(a, b, negative(x))));
}

// --- log ---------------------------------------------------------------------------------------------------

// x = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2); log(1 + f) = 2 atanh(f / (2 + f)). The exponent k comes
// out of x's bits with `bias` added.
template <class R>
INLINE R log_of(R x, R bias) {
  const R shifted = add_bits(x, R::all(Of<R>::kOneOverRootHalf)), exponent = R::all(Of<R>::kExponent);
  const R k = (shift_right<Of<R>::kMantissa>(shifted) | exponent) - (exponent + bias);
  const R f = add_bits(shifted & R::all(Of<R>::kFraction), R::all(Of<R>::kRootHalf)) - constant<R>(1);
  const R s = f / (f + constant<R>(2)), z = s * s;
  const R half_square = constant<R>(0.5) * f * f;
  const R rest = fma(k, R::all(Of<R>::kLn2[1]), s * fma(z, polynomial(z, Of<R>::kLog), half_square));
  return fma(k, R::all(Of<R>::kLn2[0]), f - (half_square - rest));
}

template <class R>
INLINE R log(R x) {
  const R infinity = R::all(Of<R>::kInfinity), smallest = R::all(Of<R>::kSmallest), bias = R::all(Of<R>::kBias);
  const R nan = infinity - infinity;
  R y;
  if constexpr (kIsFloat<R>) {
    y = select(x < smallest, select(x <= negative(smallest), nan, negative(infinity)), log_of(x, bias));
  } else {
    const auto tiny = x < smallest;
    y = log_of(select(tiny, x * constant<R>(0x1p54), x), select(tiny, bias + constant<R>(54), bias));
    y = select(x < zero<R>(), nan, select(x == zero<R>(), negative(infinity), y));
  }
  return select(x < infinity, y, x);  // +inf and NaN are their own logarithms
}

// --- tanh --------------------------------------------------------------------------------------------------

template <class R>
INLINE R tanh(R x) {
  const R y = magnitude(x), z = y * y, one = constant<R>(1);
  const R inner = fma(y * z, polynomial(z, Of<R>::kTanh), y);
  const R outer = one - constant<R>(2) / (registers::exp(y + y) + one);
  return select(y < constant<R>(0.55), inner, outer) | sign(x);
}

// --- erf and gelu ------------------------------------------------------------------------------------------

// exp(u^2) erfc(u) / 2 for u >= 0: smooth and slowly varying, so that the tails keep their relative accuracy.
template <class R>
INLINE R scaled_tail(R u) {
  const R square = u * u;
  return even_and_odd(u, square, Of<R>::kTailOver) / even_and_odd(u, square, Of<R>::kTailUnder);
}

template <class R>
INLINE R erf(R x) {
  const R y = magnitude(x), far = at_most(y, Of<R>::kErfOne);
  const R inner = fma(y, polynomial(y * y, Of<R>::kErf), y);
  const R outer = fma(exp_of_product(far, negative(far)), constant<R>(-2) * scaled_tail(far), constant<R>(1));
  return select(y < constant<R>(1), inner, outer) | sign(x);
}

// What gelu and its derivatives share: y = |x|, exp(-x^2 / 2), and `tail` with Phi(-y) = gauss * tail.
template <class R>
struct Normal {
  R y, gauss, tail;
};
template <class R>
INLINE Normal<R> normal(R x) {
  const R y = at_most(magnitude(x), Of<R>::kGeluEnd);
  return {y, exp_of_product(y, constant<R>(-0.5) * y), scaled_tail(y * constant<R>(0.70710678118654752))};
}

// x Phi(x) = max(x, 0) - y Phi(-y): no cancellation on either side.
template <class R>
INLINE R gelu(R x) {
  const Normal<R> n = normal(x);
  return select(zero<R>() < x, x, zero<R>()) - n.gauss * (n.y * n.tail);
}

// Phi(x) + x phi(x): below 0 it is h = Phi(-y) - y phi(y), above 1 - h.
template <class R>
INLINE R gelu_derivative(R x) {
  const Normal<R> n = normal(x);
  const R h = n.gauss * fma(n.y, constant<R>(-0.39894228040143268), n.tail);
  return select(x < zero<R>(), h, constant<R>(1) - h);
}

// phi(x) (2 - x^2).
template <class R>
INLINE R gelu_curvature(R x) {
  const Normal<R> n = normal(x);
  return n.gauss * constant<R>(0.39894228040143268) * fma(n.y, negative(n.y), constant<R>(2));
}

// exp(-x^2).
template <class R>
INLINE R gaussian(R x) {
  const R y = at_most(magnitude(x), Of<R>::kGeluEnd);
  return select(x == x, exp_of_product(y, negative(y)), x);
}

// --- sin and cos -------------------------------------------------------------------------------------------

// An angle from |x|, to twice the digits: |x| = n pi / 2 + high + low; n stands in the low bits of `shifted`.
template <class R>
struct Angle {
  R high, low, shifted;
};

struct HugeAngle {
  double high, low;
  int quadrant;
};

// One x of at least 2^16, exactly: only 192 binary digits of 2 / pi, from where their product with x is below
// 4, matter (Payne and Hanek 1983).
__attribute__((noinline)) HugeAngle reduce_huge(double x) {
  using Word = unsigned long long;
  __extension__ typedef unsigned __int128 Wide;
  const Word bits = __builtin_bit_cast(Word, x);
  const Word m = (bits & 0xfffffffffffff) | 0x10000000000000;            // x = m 2^(exponent - 1075)
  const int first = static_cast<int>(bits >> 52) - 1075 + 62, offset = first % 64;
  const Word* digits = kTwoOverPi + first / 64;
  Word window[3];
  for (int i = 0; i < 3; ++i)
    window[i] = offset == 0 ? digits[i] : digits[i] << offset | digits[i + 1] >> (64 - offset);
  const Wide product = (Wide{m * window[0]} << 64) + Wide{m} * window[1] + (Wide{m} * window[2] >> 64);

  int quadrant = static_cast<int>(product >> 126);
  Wide fraction = product << 2;
  const bool above = fraction >> 127 != 0;  // more than half a quadrant: count from the next one
  if (above) {
    fraction = -fraction;
    ++quadrant;
  }
  const Word top = static_cast<Word>(fraction >> 64);
  const int zeros = top == 0 ? 63 : __builtin_clzll(top);
  fraction <<= zeros;
  const auto power = [](int n) { return __builtin_bit_cast(double, static_cast<Word>(1023 + n) << 52); };
  const double turn = static_cast<double>(static_cast<long long>(fraction >> 75)) * power(-53 - zeros);
  const double turn_low =
      static_cast<double>(static_cast<long long>(fraction >> 22 & 0x1fffffffffffff)) * power(-106 - zeros);

  constexpr const double(&half_pi)[3] = Terms<double>::kHalfPi;
  const double product_high = turn * half_pi[0];
  const double product_low =
      __builtin_fma(turn, half_pi[0], -product_high) + (turn * half_pi[1] + turn_low * half_pi[0]);
  const double high = product_high + product_low, low = (product_high - high) + product_low;
  return above ? HugeAngle{-high, -low, quadrant} : HugeAngle{high, low, quadrant};
}

template <class R>
__attribute__((noinline)) void replace_huge(const R& x, Angle<R>* angle) {
  using T = typename R::T;
  T xs[R::kLanes], high[R::kLanes], low[R::kLanes], shifted[R::kLanes];
  x.store(xs);
  angle->high.store(high);
  angle->low.store(low);
  angle->shifted.store(shifted);
  for (int i = 0; i < R::kLanes; ++i) {
    if (!(xs[i] >= Of<R>::kHuge && xs[i] < Of<R>::kInfinity)) continue;
    const HugeAngle h = reduce_huge(static_cast<double>(xs[i]));
    high[i] = static_cast<T>(h.high);
    low[i] = static_cast<T>((h.high - static_cast<double>(high[i])) + h.low);
    shifted[i] = Of<R>::kOneAndHalf + static_cast<T>(h.quadrant);
  }
  *angle = {R::load(high), R::load(low), R::load(shifted)};
}

// Three parts of pi / 2 (Cody and Waite 1980): the first difference is exact, and what the second loses is
// kept.
template <class R>
INLINE Angle<R> angle(R x) {
  const R magic = R::all(Of<R>::kOneAndHalf);
  const R shifted = fma(x, constant<R>(0.63661977236758134), magic);
  const R n = shifted - magic, second = R::all(Of<R>::kHalfPi[1]);
  const R first = fma(n, R::all(-Of<R>::kHalfPi[0]), x);
  const R product = n * second, product_low = fma(n, second, negative(product));
  const R difference = first - product, back = difference - first;
  const R lost = (first - (difference - back)) - (product + back);
  const R rest = fma(n, R::all(-Of<R>::kHalfPi[2]), lost - product_low);
  const R high = difference + rest;
  Angle<R> a{high, (difference - high) + rest, shifted};
  if (any(R::all(Of<R>::kHuge) <= x)) replace_huge(x, &a);
  return a;
}

// sin(high + low + n pi / 2).
template <class R>
INLINE R sine(Angle<R> a) {
  constexpr int last = 8 * sizeof(typename R::T) - 1;
  const R one = constant<R>(1), z = a.high * a.high, half = constant<R>(0.5) * z;
  const R odd_part = a.high + fma(z * a.high, polynomial(z, Of<R>::kSin), fma(negative(half), a.low, a.low));
  const R rough = one - half;
  const R even_part =
      rough + (((one - rough) - half) + fma(z * z, polynomial(z, Of<R>::kCos), negative(a.high * a.low)));
  const auto odd = (shift_left<last>(a.shifted) | one) < zero<R>();  // n's lowest bit, as a sign
  return select(odd, even_part, odd_part) ^ sign(shift_left<last - 1>(a.shifted));
}

template <class R>
INLINE R sin(R x) {
  return sine(angle(magnitude(x))) ^ sign(x);
}

template <class R>
INLINE R cos(R x) {
  Angle<R> a = angle(magnitude(x));
  a.shifted = a.shifted + constant<R>(1);
  return sine(a);
}

}  // namespace registers

// A Vec goes register by register; lanes do not meet, so the bits are the same. f32 is inlined. f64, and all
// of the scalar row, where speed matters less, loops in a function of its own: inlined they would take
// minutes to compile.
template <class F, class R>
INLINE R inlined(R x) {
  return F::of(x);
}
template <class F, class R>
INLINE Pair<R> inlined(Pair<R> x) {
  return {inlined<F>(x.low), inlined<F>(x.high)};
}

template <class F, class R, class V>
__attribute__((noinline)) V out_of_line(V x) {
  typename V::T lanes[V::kLanes];
  x.store(lanes);
  for (int i = 0; i < V::kLanes; i += R::kLanes) F::of(R::load(lanes + i)).store(lanes + i);
  return V::load(lanes);
}

template <class F, class V>
INLINE V each_register(V x) {
  if constexpr (sizeof(typename V::T) == sizeof(double)) return out_of_line<F, F64>(x);
  else if constexpr (F32::kLanes == 1) return out_of_line<F, F32>(x);
  else return inlined<F>(x);
}

struct ExpOf { template <class R> INLINE static R of(R x) { return registers::exp(x); } };
struct LogOf { template <class R> INLINE static R of(R x) { return registers::log(x); } };
struct ErfOf { template <class R> INLINE static R of(R x) { return registers::erf(x); } };
struct SinOf { template <class R> INLINE static R of(R x) { return registers::sin(x); } };
struct CosOf { template <class R> INLINE static R of(R x) { return registers::cos(x); } };
struct TanhOf { template <class R> INLINE static R of(R x) { return registers::tanh(x); } };
struct GaussianOf { template <class R> INLINE static R of(R x) { return registers::gaussian(x); } };
struct GeluOf { template <class R> INLINE static R of(R x) { return registers::gelu(x); } };
struct GeluDerivativeOf { template <class R> INLINE static R of(R x) { return registers::gelu_derivative(x); } };
struct GeluCurvatureOf { template <class R> INLINE static R of(R x) { return registers::gelu_curvature(x); } };

template <class V> INLINE V exp(V x) { return each_register<ExpOf>(x); }
template <class V> INLINE V log(V x) { return each_register<LogOf>(x); }
template <class V> INLINE V erf(V x) { return each_register<ErfOf>(x); }
template <class V> INLINE V sin(V x) { return each_register<SinOf>(x); }
template <class V> INLINE V cos(V x) { return each_register<CosOf>(x); }
template <class V> INLINE V tanh(V x) { return each_register<TanhOf>(x); }
template <class V> INLINE V gaussian(V x) { return each_register<GaussianOf>(x); }
template <class V> INLINE V gelu(V x) { return each_register<GeluOf>(x); }
template <class V> INLINE V gelu_derivative(V x) { return each_register<GeluDerivativeOf>(x); }
template <class V> INLINE V gelu_curvature(V x) { return each_register<GeluCurvatureOf>(x); }

// (f(v), t f'(v)).
template <class V>
INLINE Dual<V> exp(Dual<V> x) {
  const V y = exp(x.value);
  return {y, x.tangent * y};
}
template <class V> INLINE Dual<V> log(Dual<V> x) { return {log(x.value), x.tangent / x.value}; }
template <class V>
INLINE Dual<V> erf(Dual<V> x) {
  return {erf(x.value), x.tangent * constant<V>(1.1283791670955126) * gaussian(x.value)};
}
template <class V> INLINE Dual<V> sin(Dual<V> x) { return {sin(x.value), x.tangent * cos(x.value)}; }
template <class V> INLINE Dual<V> cos(Dual<V> x) { return {cos(x.value), zero<V>() - x.tangent * sin(x.value)}; }
template <class V>
INLINE Dual<V> tanh(Dual<V> x) {
  const V y = tanh(x.value);
  return {y, x.tangent * fma(zero<V>() - y, y, constant<V>(1))};
}
template <class V> INLINE Dual<V> gelu(Dual<V> x) { return {gelu(x.value), x.tangent * gelu_derivative(x.value)}; }
template <class V>
INLINE Dual<V> gelu_derivative(Dual<V> x) {
  return {gelu_derivative(x.value), x.tangent * gelu_curvature(x.value)};
}
