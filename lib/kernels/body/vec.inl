// Sixteen lanes, whatever the machine has. An instruction set's file defines its registers (`F32`, `F64`); Pair
// doubles them until there are 16 lanes; Dual carries a tangent beside them. Kernel bodies are written once, over
// Vec<T>, and every row of the table runs the same operations on the same lanes, so that all give the same bits.
//
// A register R has: T, kLanes, Mask, R::all(x), R::load(p, n), R::load(p), store(p, n), store(p), + - * /, fma, sqrt,
// round (to nearest, ties to even), < <= == (ordered, quiet), select(mask, a, b), bitwise & | ^, shifts and integer sums
// (add_bits) of the representation, first<R>(n) (the mask of the first n lanes), any(mask), sum(r) and the operators & | ! of masks.
// A load of n lanes reads nothing beyond them and gives zeros there.

template <class V>
struct Pair {
  using T = typename V::T;
  static constexpr int kLanes = 2 * V::kLanes;
  static constexpr int kHalf = V::kLanes;
  struct Mask {
    typename V::Mask low, high;
  };

  V low, high;

  INLINE static Pair all(T x) { return {V::all(x), V::all(x)}; }
  INLINE static Pair load(const T* p) { return {V::load(p), V::load(p + kHalf)}; }
  INLINE static Pair load(const T* p, int n) {
    return {V::load(p, n < kHalf ? n : kHalf), V::load(p + kHalf, n < kHalf ? 0 : n - kHalf)};
  }
  INLINE void store(T* p) const {
    low.store(p);
    high.store(p + kHalf);
  }
  INLINE void store(T* p, int n) const {
    low.store(p, n < kHalf ? n : kHalf);
    high.store(p + kHalf, n < kHalf ? 0 : n - kHalf);
  }
};

// Operators of a Pair, lane by lane.
template <class V> INLINE Pair<V> operator+(Pair<V> a, Pair<V> b) { return {a.low + b.low, a.high + b.high}; }
template <class V> INLINE Pair<V> operator-(Pair<V> a, Pair<V> b) { return {a.low - b.low, a.high - b.high}; }
template <class V> INLINE Pair<V> operator*(Pair<V> a, Pair<V> b) { return {a.low * b.low, a.high * b.high}; }
template <class V> INLINE Pair<V> operator/(Pair<V> a, Pair<V> b) { return {a.low / b.low, a.high / b.high}; }
template <class V> INLINE Pair<V> operator&(Pair<V> a, Pair<V> b) { return {a.low & b.low, a.high & b.high}; }
template <class V> INLINE Pair<V> operator|(Pair<V> a, Pair<V> b) { return {a.low | b.low, a.high | b.high}; }
template <class V> INLINE Pair<V> operator^(Pair<V> a, Pair<V> b) { return {a.low ^ b.low, a.high ^ b.high}; }
template <class V> INLINE Pair<V> add_bits(Pair<V> a, Pair<V> b) { return {add_bits(a.low, b.low), add_bits(a.high, b.high)}; }
template <class V> INLINE Pair<V> fma(Pair<V> a, Pair<V> b, Pair<V> c) {
  return {fma(a.low, b.low, c.low), fma(a.high, b.high, c.high)};
}
template <class V> INLINE Pair<V> sqrt(Pair<V> a) { return {sqrt(a.low), sqrt(a.high)}; }
template <class V> INLINE Pair<V> round(Pair<V> a) { return {round(a.low), round(a.high)}; }
template <int n, class V> INLINE Pair<V> shift_left(Pair<V> a) { return {shift_left<n>(a.low), shift_left<n>(a.high)}; }
template <int n, class V> INLINE Pair<V> shift_right(Pair<V> a) { return {shift_right<n>(a.low), shift_right<n>(a.high)}; }
template <class V> INLINE typename Pair<V>::Mask operator<(Pair<V> a, Pair<V> b) { return {a.low < b.low, a.high < b.high}; }
template <class V> INLINE typename Pair<V>::Mask operator<=(Pair<V> a, Pair<V> b) { return {a.low <= b.low, a.high <= b.high}; }
template <class V> INLINE typename Pair<V>::Mask operator==(Pair<V> a, Pair<V> b) { return {a.low == b.low, a.high == b.high}; }
template <class V> INLINE Pair<V> select(typename Pair<V>::Mask m, Pair<V> a, Pair<V> b) {
  return {select(m.low, a.low, b.low), select(m.high, a.high, b.high)};
}
// Sixteen lanes fold as one written tree: lane i with lane i + 8, then + 4, + 2, + 1.
template <class V> INLINE typename V::T sum(Pair<V> a) { return sum(a.low + a.high); }

template <class M>
concept PairMask = requires(M m) { m.low; m.high; };
template <PairMask M> INLINE M operator&(M a, M b) { return {a.low & b.low, a.high & b.high}; }
template <PairMask M> INLINE M operator|(M a, M b) { return {a.low | b.low, a.high | b.high}; }
template <PairMask M> INLINE M operator!(M a) { return {!a.low, !a.high}; }
template <PairMask M> INLINE bool any(M a) { return any(a.low) || any(a.high); }

template <class R>
struct FirstLanes {
  INLINE static auto mask(int n) { return first_lanes(R{}, n); }
};
template <class V>
struct FirstLanes<Pair<V>> {
  INLINE static typename Pair<V>::Mask mask(int n) {
    constexpr int half = V::kLanes;
    return {FirstLanes<V>::mask(n < half ? n : half), FirstLanes<V>::mask(n < half ? 0 : n - half)};
  }
};
// The mask of the first n lanes.
template <class V> INLINE typename V::Mask first(int n) { return FirstLanes<V>::mask(n); }

#include "attune/lib/kernels/body/lanes.inl"

// The 16 lanes that registers R make.
template <class R, int lanes>
struct WidenTo16 {
  using type = typename WidenTo16<Pair<R>, 2 * lanes>::type;
};
template <class R>
struct WidenTo16<R, 16> {
  using type = R;
};
template <class R>
struct WidenTo16<R, 1> {
  using type = Lanes<R>;
};

// A value and a tangent in each lane: forward-mode differentiation through the very same bodies. Comparisons and
// the bits of a number look at the value alone.
template <class V>
struct Dual {
  using T = dual;
  using Mask = typename V::Mask;
  static constexpr int kLanes = V::kLanes;

  V value, tangent;

  INLINE static Dual all(dual x) { return {V::all(x.value), V::all(x.tangent)}; }
  INLINE static Dual load(const dual* p) { return load(p, kLanes); }
  INLINE static Dual load(const dual* p, int n) {
    double values[kLanes], tangents[kLanes];
    for (int i = 0; i < n; ++i) {
      values[i] = p[i].value;
      tangents[i] = p[i].tangent;
    }
    return {V::load(values, n), V::load(tangents, n)};
  }
  INLINE void store(dual* p) const { store(p, kLanes); }
  INLINE void store(dual* p, int n) const {
    double values[kLanes], tangents[kLanes];
    value.store(values);
    tangent.store(tangents);
    for (int i = 0; i < n; ++i) p[i] = dual{values[i], tangents[i]};
  }
};

template <class V> INLINE Dual<V> operator+(Dual<V> a, Dual<V> b) { return {a.value + b.value, a.tangent + b.tangent}; }
template <class V> INLINE Dual<V> operator-(Dual<V> a, Dual<V> b) { return {a.value - b.value, a.tangent - b.tangent}; }
template <class V> INLINE Dual<V> operator*(Dual<V> a, Dual<V> b) {
  return {a.value * b.value, fma(a.value, b.tangent, a.tangent * b.value)};
}
template <class V> INLINE Dual<V> operator/(Dual<V> a, Dual<V> b) {
  const V q = a.value / b.value;
  return {q, (a.tangent - q * b.tangent) / b.value};
}
template <class V> INLINE Dual<V> fma(Dual<V> a, Dual<V> b, Dual<V> c) {
  return {fma(a.value, b.value, c.value), fma(a.value, b.tangent, fma(a.tangent, b.value, c.tangent))};
}
template <class V> INLINE Dual<V> sqrt(Dual<V> a) {
  const V root = sqrt(a.value);
  return {root, a.tangent / (root + root)};
}
template <class V> INLINE typename V::Mask operator<(Dual<V> a, Dual<V> b) { return a.value < b.value; }
template <class V> INLINE typename V::Mask operator<=(Dual<V> a, Dual<V> b) { return a.value <= b.value; }
template <class V> INLINE typename V::Mask operator==(Dual<V> a, Dual<V> b) { return a.value == b.value; }
template <class V> INLINE Dual<V> select(typename V::Mask m, Dual<V> a, Dual<V> b) {
  return {select(m, a.value, b.value), select(m, a.tangent, b.tangent)};
}
template <class V> INLINE dual sum(Dual<V> a) { return {sum(a.value), sum(a.tangent)}; }
template <class V>
struct FirstLanes<Dual<V>> {
  INLINE static typename V::Mask mask(int n) { return FirstLanes<V>::mask(n); }
};

template <class T>
struct VecOf;
template <>
struct VecOf<float> {
  using type = WidenTo16<F32, F32::kLanes>::type;
};
template <>
struct VecOf<double> {
  using type = WidenTo16<F64, F64::kLanes>::type;
};
template <>
struct VecOf<dual> {
  using type = Dual<VecOf<double>::type>;
};
template <class T>
using Vec = typename VecOf<T>::type;

inline constexpr int kLanes = 16;

// Written once for all of them.
template <class V> INLINE auto operator>(V a, V b) -> decltype(b < a) { return b < a; }
template <class V> INLINE V zero() { return V::all(typename V::T{}); }
// Any x, as a register, a Vec or a Dual (whose tangent is then 0).
template <class V>
INLINE V constant(double x) {
  if constexpr (requires(V v) { v.tangent; }) return V::all(dual{x, 0});
  else return V::all(static_cast<typename V::T>(x));
}
// a times a number. As a product of Duals, an infinite value would turn the tangent into NaN.
template <class V> INLINE V scaled(V a, double factor) { return a * constant<V>(factor); }
template <class V> INLINE Dual<V> scaled(Dual<V> a, double factor) {
  return {scaled(a.value, factor), scaled(a.tangent, factor)};
}
// NaN where either is NaN.
template <class V> INLINE V maximum(V a, V b) { return select(a == a, select(a < b, b, select(b == b, a, b)), a); }
