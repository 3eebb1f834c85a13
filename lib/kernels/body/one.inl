// One number as a register: what the scalar row computes with, and lib/math.cpp. Whoever includes it has
// <bit>, <cmath> and <cstdint>.

struct Bit {
  bool on;
};
INLINE Bit operator&(Bit a, Bit b) { return {a.on && b.on}; }
INLINE Bit operator|(Bit a, Bit b) { return {a.on || b.on}; }
INLINE Bit operator!(Bit a) { return {!a.on}; }
INLINE bool any(Bit m) { return m.on; }

template <class Number, class Unsigned>
struct One {
  using T = Number;
  using Bits = Unsigned;
  using Mask = Bit;
  static constexpr int kLanes = 1;
  T r;

  INLINE static One all(T x) { return {x}; }
  INLINE static One load(const T* p) { return {*p}; }
  INLINE static One load(const T* p, int n) { return {n > 0 ? *p : T{}}; }
  INLINE void store(T* p) const { *p = r; }
  INLINE void store(T* p, int n) const {
    if (n > 0) *p = r;
  }
  INLINE Bits bits() const { return std::bit_cast<Bits>(r); }
  INLINE static One from(Bits bits) { return {std::bit_cast<T>(bits)}; }

  INLINE friend One operator+(One a, One b) { return {a.r + b.r}; }
  INLINE friend One operator-(One a, One b) { return {a.r - b.r}; }
  INLINE friend One operator*(One a, One b) { return {a.r * b.r}; }
  INLINE friend One operator/(One a, One b) { return {a.r / b.r}; }
  INLINE friend One operator&(One a, One b) { return from(a.bits() & b.bits()); }
  INLINE friend One operator|(One a, One b) { return from(a.bits() | b.bits()); }
  INLINE friend One operator^(One a, One b) { return from(a.bits() ^ b.bits()); }
  INLINE friend One add_bits(One a, One b) { return from(static_cast<Bits>(a.bits() + b.bits())); }
  INLINE friend One fma(One a, One b, One c) { return {std::fma(a.r, b.r, c.r)}; }
  INLINE friend One sqrt(One a) { return {std::sqrt(a.r)}; }
  INLINE friend One round(One a) { return {std::nearbyint(a.r)}; }
  INLINE friend Bit operator<(One a, One b) { return {a.r < b.r}; }
  INLINE friend Bit operator<=(One a, One b) { return {a.r <= b.r}; }
  INLINE friend Bit operator==(One a, One b) { return {a.r == b.r}; }
  INLINE friend One select(Bit m, One a, One b) { return m.on ? a : b; }
  INLINE friend Bit first_lanes(One, int n) { return {n > 0}; }
  INLINE friend T sum(One a) { return a.r; }
};
template <int n, class T, class B> INLINE One<T, B> shift_left(One<T, B> a) { return One<T, B>::from(a.bits() << n); }
template <int n, class T, class B> INLINE One<T, B> shift_right(One<T, B> a) { return One<T, B>::from(a.bits() >> n); }

using F32 = One<float, std::uint32_t>;
using F64 = One<double, std::uint64_t>;
