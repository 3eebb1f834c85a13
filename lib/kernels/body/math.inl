// Elementary functions: our own, so that no bit depends on the machine's libm. Each is written for one
// register of any width (namespace `registers`); at the end they are lifted to the sixteen lanes of a Vec and
// to Dual.
//
// bench/ulp.cpp measures their errors, lib/math.h states them; gelu's are 6 units in the last place, far out in
// the negative tail, and those of its derivative 4 in f32 and 9 in f64. silu and gelu's tanh form have 1.6, their
// derivatives 3 and 4; results below 1e-304 have fewer digits. An f32 result below the smallest normal
// number is 0, since f32 kernels flush; f64 keeps its subnormal numbers.

#include "attune/lib/kernels/body/math_terms.inl"

namespace registers {

template <class R> using Of = Terms<typename R::T>;
template <class R> inline constexpr bool kIsFloat = sizeof(typename R::T) == sizeof(float);

template <class R> INLINE R magnitude(R x) { return x & R::all(Of<R>::kMagnitude); }
template <class R> INLINE R sign(R x) { return x & R::all(Of<R>::kSign); }
template <class R> INLINE R negative(R x) { return x ^ R::all(Of<R>::kSign); }
// min(x, limit) and max(x, limit); a NaN stays.
template <class R> INLINE R at_most(R x, typename R::T limit) { return select(R::all(limit) < x, R::all(limit), x); }
template <class R> INLINE R at_least(R x, typename R::T limit) { return select(x < R::all(limit), R::all(limit), x); }

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

// exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1): nothing cancels. Halved on the way, so that 2^128 does not come up.
template <class R>
INLINE R expm1(R x) {
  const R half = constant<R>(0.5);
  const Octaves<R> o = reduce(at_least(x, Of<R>::kMinusOne));
  const R p = fma(o.r * o.r, polynomial(o.r, Of<R>::kExp), o.r);
  const R power = add_bits(half, shift_left<Of<R>::kMantissa>(o.shifted));
  const R y = fma(power, p, power - half);
  const R whole = select(o.n == zero<R>(), p, y + y) | sign(x);
  return select(x <= R::all(Of<R>::kExpHigh), whole, x + R::all(Of<R>::kInfinity));
}

// --- log ---------------------------------------------------------------------------------------------------

// x = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2). The exponent k comes out of x's bits with `bias` added.
template <class R>
struct Binade {
  R k, f;
};
template <class R>
INLINE Binade<R> binade(R x, R bias) {
  const R shifted = add_bits(x, R::all(Of<R>::kOneOverRootHalf)), exponent = R::all(Of<R>::kExponent);
  const R k = (shift_right<Of<R>::kMantissa>(shifted) | exponent) - (exponent + bias);
  const R f = add_bits(shifted & R::all(Of<R>::kFraction), R::all(Of<R>::kRootHalf)) - constant<R>(1);
  return {k, f};
}

// log(1 + f) = 2 atanh(f / (2 + f)). `low`, where given, is added: what x lacks, as a share of x.
template <class R, class... Low>
INLINE R log_of(R x, R bias, Low... low) {
  const auto [k, f] = binade(x, bias);
  const R s = f / (f + constant<R>(2)), z = s * s;
  const R half_square = constant<R>(0.5) * f * f;
  const R rest = fma(k, R::all(Of<R>::kLn2[1]), s * fma(z, polynomial(z, Of<R>::kLog), half_square));
  return fma(k, R::all(Of<R>::kLn2[0]), f - (half_square - (rest + ... + low)));
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

// log(u + low), u + low being exactly 1 + x.
template <class R>
INLINE R log1p(R x) {
  const R one = constant<R>(1), infinity = R::all(Of<R>::kInfinity);
  const R u = x + one, back = u - x;
  const R low = (x - (u - back)) + (one - back);
  const R y = select(x == zero<R>(), x, log_of(u, R::all(Of<R>::kBias), low / u));
  const R edge = select(x == negative(one), negative(infinity), infinity - infinity);
  return select(x < infinity, select(negative(one) < x, y, edge), x);
}

// --- pow ---------------------------------------------------------------------------------------------------

// A number to twice the digits.
template <class R>
struct TwoParts {
  R high, low;
};
template <class R>
INLINE TwoParts<R> exact_product(R a, R b) {
  const R high = a * b;
  return {high, fma(a, b, negative(high))};
}

// log(x), for a finite x > 0, to 2^-64: 2 atanh(s) = 2 s + 2/3 s^3 + ..., the first two terms in two parts.
// Only f64 needs it.
template <class R>
INLINE TwoParts<R> long_log(R x, R bias) {
  const auto [k, f] = binade(x, bias);
  const R two = constant<R>(2), d = f + two, d_low = f - (d - two);
  const R s = f / d, s_low = (fma(negative(s), d, f) - s * d_low) / d;
  TwoParts<R> z = exact_product(s, s);
  z.low = fma(s + s, s_low, z.low);
  TwoParts<R> cube = exact_product(s, z.high);
  cube.low = cube.low + fma(s, z.low, s_low * z.high);
  const R third = R::all(Of<R>::kTwoThirds[0]);
  TwoParts<R> second = exact_product(cube.high, third);
  second.low = second.low + fma(cube.low, third, cube.high * R::all(Of<R>::kTwoThirds[1]));
  const R first = s + s, sum = first + second.high;
  const R rest = fma(cube.high * z.high, polynomial(z.high, Of<R>::kLogRest), second.low);
  const R sum_low = ((first - sum) + second.high) + (s_low + s_low + rest);

  const R ln2 = R::all(Of<R>::kLn2[0]);
  const TwoParts<R> octave = exact_product(k, ln2);
  const R high = octave.high + sum;
  const R low = ((octave.high - high) + sum) + (fma(k, R::all(Of<R>::kLn2[1]), octave.low) + sum_low);
  const R rounded = high + low;
  return {rounded, (high - rounded) + low};
}

// |x|^y = exp(y log|x|), where x and y are such that the product says it all.
template <class R>
INLINE R power_of_magnitude(R x, R y) {
  const R infinity = R::all(Of<R>::kInfinity), none = zero<R>(), bias = R::all(Of<R>::kBias);
  const auto tiny = x < R::all(Of<R>::kSmallest);
  const R scaled = select(tiny, x * constant<R>(0x1p54), x);
  TwoParts<R> log = long_log(scaled, select(tiny, bias + constant<R>(54), bias));
  const auto finite = (none < x) & (x < infinity);
  log.high = select(finite, log.high, select(x == none, negative(infinity), x));  // log(0), log(inf), NaN
  const R w = y * log.high;
  const R lost = fma(y, log.high, negative(w)) + y * log.low;
  const R w_low = select(finite & (magnitude(w) < constant<R>(1000)), lost, none);
  const R result = exp_of(w, reduce(w, w_low));
  return select(w <= R::all(Of<R>::kExpHigh), result, w + infinity);
}

// x^y with the special values of C's pow.
template <class R>
INLINE R pow(R x, R y) {
  const R none = zero<R>(), one = constant<R>(1), infinity = R::all(Of<R>::kInfinity);
  const R half = constant<R>(0.5) * y;
  const auto whole = round(y) == y, odd = whole & !(round(half) == half);
  R result = power_of_magnitude(magnitude(x), y);
  result = select(magnitude(x) == one, select(y == y, one, y), result);  // 1^inf
  result = result | select(odd, sign(x), none);
  const auto imaginary = (x < none) & (negative(infinity) < x) & !whole;
  result = select(imaginary, infinity - infinity, result);
  return select((y == none) | (x == one), one, result);  // even where the other is NaN
}

// --- tanh, sigmoid and their like ----------------------------------------------------------------------------

template <class R>
INLINE R tanh(R x) {
  const R y = magnitude(x), z = y * y, one = constant<R>(1);
  const R inner = fma(y * z, polynomial(z, Of<R>::kTanh), y);
  const R outer = one - constant<R>(2) / (registers::exp(y + y) + one);
  return select(y < constant<R>(0.55), inner, outer) | sign(x);
}

// 1 + e, for e in [0, 1], exactly; and a rough 1 / (1 + e), within 5 %.
template <class R>
struct OnePlus {
  R high, low, inverse;
};
template <class R>
INLINE OnePlus<R> one_plus(R e) {
  const R one = constant<R>(1), high = one + e;
  return {high, e - (high - one), fma(constant<R>(-0.5), high, constant<R>(1.457))};
}

// n / d, corrected by what remains: only the last rounding is left.
template <class R>
INLINE R quotient(TwoParts<R> n, OnePlus<R> d) {
  const R q = n.high / d.high;
  return fma(fma(negative(q), d.high, n.high) + fma(negative(q), d.low, n.low), d.inverse, q);
}

// 1 / (1 + exp(-x)): with e = exp(-|x|) it is e / (1 + e) below 0 and 1 / (1 + e) above, so that neither tail cancels.
template <class R>
INLINE R sigmoid(R x) {
  const R e = registers::exp(negative(magnitude(x)));
  return quotient<R>({select(x < zero<R>(), e, constant<R>(1)), zero<R>()}, one_plus(e));
}

// The derivative of sigmoid, e / (1 + e)^2.
template <class R>
INLINE R sigmoid_slope(R x) {
  const R e = registers::exp(negative(magnitude(x)));
  const OnePlus<R> d = one_plus(e);
  const TwoParts<R> square = exact_product(d.high, d.high);
  return quotient<R>({e, zero<R>()}, {square.high, fma(d.high + d.high, d.low, square.low), d.inverse * d.inverse});
}

// log(1 + exp(x)) = max(x, 0) + log(1 + e).
template <class R>
INLINE R softplus(R x) {
  return select(zero<R>() < x, x, zero<R>()) + registers::log1p(registers::exp(negative(magnitude(x))));
}

// --- swish -------------------------------------------------------------------------------------------------

// y = x sigmoid(t), t = a x + b x^3, and its derivatives: silu, and gelu's tanh form, x/2 (1 + tanh(t / 2)).
// What they share: x, kept where x^3 is finite; e = exp(-|t|), where t has twice the digits, since exp magnifies its
// rounding; t's sign; and the numbers a and b.
template <class R>
struct Swish {
  R x, e;
  typename R::Mask below;
  R a, b;
  INLINE R near() const { return share(select(below, e, constant<R>(1))); }  // sigmoid(t)
  INLINE R far() const { return share(select(below, constant<R>(1), e)); }   // sigmoid(-t)
  INLINE R share(R part) const { return quotient<R>({part, zero<R>()}, one_plus(e)); }
};
template <class R>
INLINE Swish<R> swish_parts(R unlimited, double a, double b) {
  using T = typename R::T;
  const R x = at_least(at_most(unlimited, T{1000}), T{-1000});
  const R a_high = constant<R>(a), a_low = constant<R>(a - static_cast<double>(static_cast<T>(a)));
  const R b_high = constant<R>(b), b_low = constant<R>(b - static_cast<double>(static_cast<T>(b)));
  const TwoParts<R> square = exact_product(x, x);
  TwoParts<R> cubic = exact_product(square.high, b_high);
  cubic.low = cubic.low + fma(square.high, b_low, square.low * b_high);
  const R factor = a_high + cubic.high, back = factor - a_high;
  const R factor_low = ((a_high - (factor - back)) + (cubic.high - back)) + (cubic.low + a_low);
  TwoParts<R> t = exact_product(x, factor);
  t.low = fma(x, factor_low, t.low);
  const auto below = t.high < zero<R>();
  const R far = select(below, t.high, negative(t.high)), far_low = select(below, t.low, negative(t.low));
  return {x, exp_of(far, reduce(far, far_low)), below, a_high, b_high};
}

template <class R>
INLINE R swish(R x, double a, double b) {
  const Swish<R> s = swish_parts(x, a, b);
  const R y = quotient(exact_product(s.x, select(s.below, s.e, constant<R>(1))), one_plus(s.e));
  return select(x <= constant<R>(1000), y, x);  // beyond, sigmoid is 1
}

// y' = sigmoid(t) (1 + x t' sigmoid(-t)).
template <class R>
INLINE R swish_slope(R x, double a, double b) {
  const Swish<R> s = swish_parts(x, a, b);
  const R x_dt = s.x * fma(constant<R>(3) * s.b, s.x * s.x, s.a), near = s.near();
  return select(x == x, fma(near * s.far(), x_dt, near), x);
}

// y'' = sigmoid(t) sigmoid(-t) (2 t' + x t'' + x t'^2 (1 - 2 sigmoid(t))).
template <class R>
INLINE R swish_curvature(R x, double a, double b) {
  const Swish<R> s = swish_parts(x, a, b);
  const R dt = fma(constant<R>(3) * s.b, s.x * s.x, s.a), x_ddt = constant<R>(6) * s.b * s.x * s.x;
  const R near = s.near(), far = s.far();
  const R y = near * far * (fma(constant<R>(2), dt, x_ddt) + s.x * dt * dt * (far - near));
  return select(x == x, y, x);
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
template <class F, class R, class... Number>
INLINE R inlined(R x, Number... numbers) {
  return F::of(x, numbers...);
}
template <class F, class R, class... Number>
INLINE Pair<R> inlined(Pair<R> x, Number... numbers) {
  return {inlined<F>(x.low, numbers...), inlined<F>(x.high, numbers...)};
}

template <class F, class R, class V, class... Number>
__attribute__((noinline)) V out_of_line(V x, Number... numbers) {
  typename V::T lanes[V::kLanes];
  x.store(lanes);
  for (int i = 0; i < V::kLanes; i += R::kLanes) F::of(R::load(lanes + i), numbers...).store(lanes + i);
  return V::load(lanes);
}

template <class F, class V, class... Number>
INLINE V each_register(V x, Number... numbers) {
  if constexpr (sizeof(typename V::T) == sizeof(double)) return out_of_line<F, F64>(x, numbers...);
  else if constexpr (F32::kLanes == 1) return out_of_line<F, F32>(x, numbers...);
  else return inlined<F>(x, numbers...);
}

struct ExpOf { template <class R> INLINE static R of(R x) { return registers::exp(x); } };
struct LogOf { template <class R> INLINE static R of(R x) { return registers::log(x); } };
struct ErfOf { template <class R> INLINE static R of(R x) { return registers::erf(x); } };
struct SinOf { template <class R> INLINE static R of(R x) { return registers::sin(x); } };
struct CosOf { template <class R> INLINE static R of(R x) { return registers::cos(x); } };
struct TanhOf { template <class R> INLINE static R of(R x) { return registers::tanh(x); } };
struct GaussianOf { template <class R> INLINE static R of(R x) { return registers::gaussian(x); } };
struct Expm1Of { template <class R> INLINE static R of(R x) { return registers::expm1(x); } };
struct Log1pOf { template <class R> INLINE static R of(R x) { return registers::log1p(x); } };
struct SigmoidOf { template <class R> INLINE static R of(R x) { return registers::sigmoid(x); } };
struct SigmoidSlopeOf { template <class R> INLINE static R of(R x) { return registers::sigmoid_slope(x); } };
struct SoftplusOf { template <class R> INLINE static R of(R x) { return registers::softplus(x); } };
struct SwishOf { template <class R> INLINE static R of(R x, double a, double b) { return registers::swish(x, a, b); } };
struct SwishSlopeOf {
  template <class R> INLINE static R of(R x, double a, double b) { return registers::swish_slope(x, a, b); }
};
struct SwishCurvatureOf {
  template <class R> INLINE static R of(R x, double a, double b) { return registers::swish_curvature(x, a, b); }
};
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
template <class V> INLINE V expm1(V x) { return each_register<Expm1Of>(x); }
template <class V> INLINE V log1p(V x) { return each_register<Log1pOf>(x); }
template <class V> INLINE V sigmoid(V x) { return each_register<SigmoidOf>(x); }
template <class V> INLINE V sigmoid_slope(V x) { return each_register<SigmoidSlopeOf>(x); }
template <class V> INLINE V softplus(V x) { return each_register<SoftplusOf>(x); }
template <class V> INLINE V swish(V x, double a, double b) { return each_register<SwishOf>(x, a, b); }
template <class V> INLINE V swish_slope(V x, double a, double b) { return each_register<SwishSlopeOf>(x, a, b); }
template <class V>
INLINE V swish_curvature(V x, double a, double b) {
  return each_register<SwishCurvatureOf>(x, a, b);
}
template <class V> INLINE V gelu(V x) { return each_register<GeluOf>(x); }
template <class V> INLINE V gelu_derivative(V x) { return each_register<GeluDerivativeOf>(x); }
template <class V> INLINE V gelu_curvature(V x) { return each_register<GeluCurvatureOf>(x); }

// x^y. f32 goes through f64, whose rounding it does not notice.
template <class V>
__attribute__((noinline)) V pow_out_of_line(V x, V y) {
  double base[V::kLanes], exponent[V::kLanes];
  x.store(base);
  y.store(exponent);
  for (int i = 0; i < V::kLanes; i += F64::kLanes)
    registers::pow(F64::load(base + i), F64::load(exponent + i)).store(base + i);
  return V::load(base);
}
template <class V>
INLINE V pow(V x, V y) {
  if constexpr (sizeof(typename V::T) == sizeof(double)) return pow_out_of_line(x, y);
  else return narrow(pow_out_of_line(widen(x), widen(y)));
}

// dx^y/dx = y x^(y-1), and 0 where y is 0, whatever x is.
template <class V>
INLINE V pow_base_slope(V x, V y) {
  const V none = zero<V>(), one = constant<V>(1);
  return select((y == none) & !(none < x * x), none, y * pow(x, y - one));
}
// dx^y/dy = x^y log x, of p = x^y; its limit 0 where x is 0 and y is not below.
template <class V>
INLINE V pow_exponent_slope(V p, V x) {
  return select((x == zero<V>()) & (p <= constant<V>(1)), zero<V>(), p * log(x));
}

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
  return {tanh(x.value), x.tangent * constant<V>(4) * sigmoid_slope(x.value + x.value)};
}
template <class V> INLINE Dual<V> expm1(Dual<V> x) { return {expm1(x.value), x.tangent * exp(x.value)}; }
template <class V>
INLINE Dual<V> log1p(Dual<V> x) {
  return {log1p(x.value), x.tangent / (x.value + constant<V>(1))};
}
template <class V> INLINE Dual<V> sigmoid(Dual<V> x) { return {sigmoid(x.value), x.tangent * sigmoid_slope(x.value)}; }
template <class V>
INLINE Dual<V> sigmoid_slope(Dual<V> x) {  // s (1 - s), whose derivative is s (1 - s) (1 - 2 s)
  const V y = sigmoid_slope(x.value);
  return {y, zero<V>() - x.tangent * y * tanh(constant<V>(0.5) * x.value)};
}
template <class V> INLINE Dual<V> softplus(Dual<V> x) { return {softplus(x.value), x.tangent * sigmoid(x.value)}; }
template <class V>
INLINE Dual<V> swish(Dual<V> x, double a, double b) {
  return {swish(x.value, a, b), x.tangent * swish_slope(x.value, a, b)};
}
template <class V>
INLINE Dual<V> swish_slope(Dual<V> x, double a, double b) {
  return {swish_slope(x.value, a, b), x.tangent * swish_curvature(x.value, a, b)};
}
// An operand whose tangent is 0 is a constant: what its derivative would be does not matter, even if it is NaN.
template <class V>
INLINE Dual<V> pow(Dual<V> x, Dual<V> y) {
  const V none = zero<V>(), p = pow(x.value, y.value);
  const V by_base = select(x.tangent == none, none, x.tangent * pow_base_slope(x.value, y.value));
  const V by_exponent = select(y.tangent == none, none, y.tangent * pow_exponent_slope(p, x.value));
  return {p, by_base + by_exponent};
}
template <class V> INLINE Dual<V> gelu(Dual<V> x) { return {gelu(x.value), x.tangent * gelu_derivative(x.value)}; }
template <class V>
INLINE Dual<V> gelu_derivative(Dual<V> x) {
  return {gelu_derivative(x.value), x.tangent * gelu_curvature(x.value)};
}
