// Softmax of rows, whole or causal.

// The largest value of a row, -inf where there is none. NaN is passed over: the sum of the exponentials brings it in.
template <class T>
INLINE double row_maximum(const T* x, Index size) {
  using V = Vec<T>;
  V most = constant<V>(-__builtin_inf());
  each_vector(size, [&](Index i, int n) {
    const V v = n == kLanes ? V::load(x + i) : select(first<V>(n), V::load(x + i, n), most);
    most = select(most < v, v, most);
  });
  T lanes[kLanes];
  most.store(lanes);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] = value_of(lanes[i]) < value_of(lanes[i + half]) ? lanes[i + half] : lanes[i];
  return value_of(lanes[0]);
}

// What to subtract from a row before exp: its maximum, or 0 where every entry is -inf and so masked.
template <class T>
INLINE Vec<T> row_shift(const T* x, Index size) {
  const double most = row_maximum(x, size);
  return constant<Vec<T>>(most == -__builtin_inf() ? 0 : most);
}

INLINE Index columns_seen(const SoftmaxArguments& s, const RowCursor& at) {
  if (s.all) return s.width;
  const Index seen = at.index[s.rows.rank - 1] + 1 + s.shift;
  return seen < 0 ? 0 : minimum(seen, s.width);
}

template <class T>
void softmax(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  const auto& s = *static_cast<const SoftmaxArguments*>(arguments);
  for (RowCursor at(s.rows, begin); at.row < end; at.next()) {
    const T* x = at.of<const T>(s.x);
    T* y = at.of<T>(s.y);
    const Index seen = columns_seen(s, at);
    const V shift = row_shift(x, seen);
    const Wide<T> total = row_sum<T>(seen, [&](Index i, int n) {
      const V e = exp(load_lanes(x + i, n) - shift);
      store_lanes<T>(y + i, n, e);
      return keep_lanes<T>(e, n);
    });
    clear(y + seen, s.width - seen);
    if (value_of(total) == 0) continue;  // nothing but -inf: every y is 0 already
    const V inverse = constant<V>(1) / V::all(rounded<T>(total));
    each_vector(seen, [&](Index i, int n) { store_lanes<T>(y + i, n, load_lanes<T>(y + i, n) * inverse); });
  }
}

template <class T>
void softmax_backward(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  const auto& s = *static_cast<const SoftmaxArguments*>(arguments);
  for (RowCursor at(s.rows, begin); at.row < end; at.next()) {
    const T *y = at.of<const T>(s.y), *dy = at.of<const T>(s.dy);
    T* dx = at.of<T>(s.dx);
    const Index seen = columns_seen(s, at);
    const V total = V::all(rounded<T>(row_sum<T>(seen, [&](Index i, int n) { return load_lanes(dy + i, n) * load_lanes(y + i, n); })));
    each_vector(seen, [&](Index i, int n) {
      const V r = load_lanes(y + i, n) * (load_lanes(dy + i, n) - total);
      store_lanes<T>(dx + i, n, s.accumulate ? load_lanes<T>(dx + i, n) + r : r);
    });
    if (!s.accumulate) clear(dx + seen, s.width - seen);
  }
}
