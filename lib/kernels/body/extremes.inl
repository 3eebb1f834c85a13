// The largest or the smallest element of each row, where it stands, and its gradient. A NaN counts as both.

struct Largest {
  static constexpr double kWorst = -__builtin_inf();
  template <class V>
  INLINE static V better(V a, V b) { return maximum(a, b); }
  INLINE static bool beats(double a, double b) { return b < a; }
};
struct Smallest {
  static constexpr double kWorst = __builtin_inf();
  template <class V>
  INLINE static V better(V a, V b) { return select(a == a, select(b < a, b, select(b == b, a, b)), a); }
  INLINE static bool beats(double a, double b) { return a < b; }
};

// The extreme element of a row, which has one: sixteen lanes, then these in order, where the first of equals stays.
template <class Order, class T>
INLINE T row_extreme(const T* x, Index size) {
  using V = Vec<T>;
  const V worst = constant<V>(Order::kWorst);
  V best = worst;
  each_vector(size, [&](Index i, int n) {
    const V v = load_lanes(x + i, n);
    best = Order::better(best, n == kLanes ? v : select(first<V>(n), v, worst));
  });
  T lanes[kLanes];
  best.store(lanes);
  T result = lanes[0];
  for (int lane = 1; lane < kLanes; ++lane) {
    const double a = static_cast<double>(value_of(lanes[lane])), b = static_cast<double>(value_of(result));
    if (b == b && (a != a || Order::beats(a, b))) result = lanes[lane];
  }
  return result;
}

// Which lanes hold the extreme value of their row.
template <class V>
INLINE auto holding(const V& v, const V& extreme, bool is_nan) {
  return is_nan ? !(v == v) : v == extreme;
}
INLINE bool not_a_number(double x) { return x != x; }

// Several that are equal move the extreme by their mean, as they share its gradient.
template <class T>
INLINE T with_shared_tangent(T most, const T*, Index) { return most; }
INLINE dual with_shared_tangent(dual most, const dual* x, Index size) {
  using V = Vec<dual>;
  const V extreme = V::all(most), one = constant<V>(1);
  const dual total = row_sum<dual>(size, [&](Index i, int n) {
    const V v = load_lanes(x + i, n);
    const auto holds = holding(v, extreme, not_a_number(most.value));
    return keep_lanes<dual>(select(holds, V{one.value, v.tangent}, zero<V>()), n);
  });
  return {most.value, total.tangent / total.value};
}

template <class Order, class T>
void extreme(const void* arguments, Index begin, Index end) {
  const auto& s = *static_cast<const RowArguments*>(arguments);
  for (RowCursor at(s.rows, begin); at.row < end; at.next()) {
    const T* x = at.of<const T>(s.x);
    *at.of<T>(s.y) = with_shared_tangent(row_extreme<Order>(x, s.width), x, s.width);
  }
}

template <class T>
void extreme_backward(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  const auto& s = *static_cast<const RowArguments*>(arguments);
  const V one = constant<V>(1), none = zero<V>();
  for (RowCursor at(s.rows, begin); at.row < end; at.next()) {
    const T *x = at.of<const T>(s.x), y = *at.of<const T>(s.y);
    T* dx = at.of<T>(s.dx);
    const V extreme = V::all(y);
    const bool nan = not_a_number(static_cast<double>(value_of(y)));
    const auto equal = row_sum<T>(s.width, [&](Index i, int n) {
      return keep_lanes<T>(select(holding(load_lanes(x + i, n), extreme, nan), one, none), n);
    });
    const V share = V::all(*at.of<const T>(s.dy)) / constant<V>(value_of(equal));
    each_vector(s.width, [&](Index i, int n) {
      const V r = select(holding(load_lanes(x + i, n), extreme, nan), share, none);
      store_lanes<T>(dx + i, n, s.accumulate ? load_lanes<T>(dx + i, n) + r : r);
    });
  }
}

template <class Order, class T>
void arg_extreme(const void* arguments, Index begin, Index end) {
  const auto& s = *static_cast<const RowArguments*>(arguments);
  for (RowCursor at(s.rows, begin); at.row < end; at.next()) {
    const T* x = at.of<const T>(s.x);
    const double most = static_cast<double>(value_of(row_extreme<Order>(x, s.width)));
    Index i = 0;
    for (; i < s.width; ++i) {
      const double value = static_cast<double>(value_of(x[i]));
      if (value == most || (not_a_number(most) && not_a_number(value))) break;
    }
    *at.of<std::int32_t>(s.y) = static_cast<std::int32_t>(i);
  }
}
