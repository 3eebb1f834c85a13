// Sixteen registers of one number each, in loops: what a machine without vectors has for a Vec. As pairs of pairs, which
// would give the same bits, they take minutes to compile.

template <class R>
struct Lanes {
  using T = typename R::T;
  static constexpr int kLanes = 16;
  struct Mask {
    typename R::Mask of[kLanes];
  };

  R of[kLanes];

  INLINE static Lanes all(T x) {
    Lanes r;
    for (R& lane : r.of) lane = R::all(x);
    return r;
  }
  INLINE static Lanes load(const T* p) {
    Lanes r;
    for (int i = 0; i < kLanes; ++i) r.of[i] = R::load(p + i);
    return r;
  }
  INLINE static Lanes load(const T* p, int n) {
    Lanes r;
    for (int i = 0; i < kLanes; ++i) r.of[i] = i < n ? R::load(p + i) : R::all(T{});
    return r;
  }
  INLINE void store(T* p) const {
    for (int i = 0; i < kLanes; ++i) of[i].store(p + i);
  }
  INLINE void store(T* p, int n) const {
    for (int i = 0; i < n; ++i) of[i].store(p + i);
  }
};

// Lane by lane, f of one, two or three operands.
template <class Result, class F, class... A>
INLINE Result each_lane(F f, const A&... a) {
  Result r;
  for (int i = 0; i < 16; ++i) r.of[i] = f(a.of[i]...);
  return r;
}
template <class R> INLINE Lanes<R> operator+(const Lanes<R>& a, const Lanes<R>& b) { return each_lane<Lanes<R>>([](R x, R y) { return x + y; }, a, b); }
template <class R> INLINE Lanes<R> operator-(const Lanes<R>& a, const Lanes<R>& b) { return each_lane<Lanes<R>>([](R x, R y) { return x - y; }, a, b); }
template <class R> INLINE Lanes<R> operator*(const Lanes<R>& a, const Lanes<R>& b) { return each_lane<Lanes<R>>([](R x, R y) { return x * y; }, a, b); }
template <class R> INLINE Lanes<R> operator/(const Lanes<R>& a, const Lanes<R>& b) { return each_lane<Lanes<R>>([](R x, R y) { return x / y; }, a, b); }
template <class R> INLINE Lanes<R> operator&(const Lanes<R>& a, const Lanes<R>& b) { return each_lane<Lanes<R>>([](R x, R y) { return x & y; }, a, b); }
template <class R> INLINE Lanes<R> operator|(const Lanes<R>& a, const Lanes<R>& b) { return each_lane<Lanes<R>>([](R x, R y) { return x | y; }, a, b); }
template <class R> INLINE Lanes<R> operator^(const Lanes<R>& a, const Lanes<R>& b) { return each_lane<Lanes<R>>([](R x, R y) { return x ^ y; }, a, b); }
template <class R> INLINE Lanes<R> fma(const Lanes<R>& a, const Lanes<R>& b, const Lanes<R>& c) { return each_lane<Lanes<R>>([](R x, R y, R z) { return fma(x, y, z); }, a, b, c); }
template <class R> INLINE Lanes<R> sqrt(const Lanes<R>& a) { return each_lane<Lanes<R>>([](R x) { return sqrt(x); }, a); }
template <class R> INLINE typename Lanes<R>::Mask operator<(const Lanes<R>& a, const Lanes<R>& b) { return each_lane<typename Lanes<R>::Mask>([](R x, R y) { return x < y; }, a, b); }
template <class R> INLINE typename Lanes<R>::Mask operator<=(const Lanes<R>& a, const Lanes<R>& b) { return each_lane<typename Lanes<R>::Mask>([](R x, R y) { return x <= y; }, a, b); }
template <class R> INLINE typename Lanes<R>::Mask operator==(const Lanes<R>& a, const Lanes<R>& b) { return each_lane<typename Lanes<R>::Mask>([](R x, R y) { return x == y; }, a, b); }
template <class R> INLINE Lanes<R> select(const typename Lanes<R>::Mask& m, const Lanes<R>& a, const Lanes<R>& b) { return each_lane<Lanes<R>>([](typename R::Mask on, R x, R y) { return select(on, x, y); }, m, a, b); }
template <class R> INLINE typename R::T sum(Lanes<R> a) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a.of[i] = a.of[i] + a.of[i + half];
  return sum(a.of[0]);
}
template <class M>
concept LanesMask = requires(M m) { m.of[0]; };
template <LanesMask M> INLINE M operator&(const M& a, const M& b) { return each_lane<M>([](auto x, auto y) { return x & y; }, a, b); }
template <LanesMask M> INLINE M operator|(const M& a, const M& b) { return each_lane<M>([](auto x, auto y) { return x | y; }, a, b); }
template <LanesMask M> INLINE M operator!(const M& a) { return each_lane<M>([](auto x) { return !x; }, a); }
template <LanesMask M> INLINE bool any(const M& a) {
  for (const auto& lane : a.of)
    if (any(lane)) return true;
  return false;
}
template <class R>
struct FirstLanes<Lanes<R>> {
  INLINE static typename Lanes<R>::Mask mask(int n) {
    typename Lanes<R>::Mask m;
    for (int i = 0; i < 16; ++i) m.of[i] = FirstLanes<R>::mask(n - i);
    return m;
  }
};
