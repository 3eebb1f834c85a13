// Softmax of rows, whole or causal.

template <int count, class T>
INLINE auto largest(const T* numbers) {
  if constexpr (count == 1) {
    return value_of(numbers[0]);
  } else {
    const auto a = largest<count / 2>(numbers), b = largest<count / 2>(numbers + count / 2);
    return a < b ? b : a;
  }
}

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
  return static_cast<double>(largest<kLanes>(lanes));
}

// What to subtract from a row before exp: its maximum, or 0 where every entry is -inf and so masked.
template <class T>
INLINE Vec<T> row_shift(const T* x, Index size) {
  const double most = row_maximum(x, size);
  return constant<Vec<T>>(most == -__builtin_inf() ? 0 : most);
}

// Zeros in the vectors that hold nothing of the first `seen` elements.
template <class T>
INLINE void clear_after(T* row, Index seen, Index width) {
  const Index start = (seen + kLanes - 1) / kLanes * kLanes;
  if (start < width) clear(row + start, width - start);
}

INLINE Index columns_seen(const SoftmaxArguments& s, const RowCursor& at) {
  if (s.all) return s.width;
  const Index seen = at.index[s.rows.rank - 1] + 1 + s.shift;
  return seen < 0 ? 0 : minimum(seen, s.width);
}

// A row's vectors are written whole, with zeros where its last seen one reaches beyond what is seen.
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
      const V e = keep_lanes<T>(exp(load_lanes(x + i, n) - shift), n);
      store_lanes<T>(y + i, lanes_at(i, s.width), e);
      return e;
    });
    clear_after(y, seen, s.width);
    if (value_of(total) == 0) continue;  // nothing but -inf: every y is 0 already
    const V inverse = V::all(reciprocal(rounded<T>(total)));
    each_vector(seen, [&](Index i, int n) {
      const int stored = lanes_at(i, s.width);
      store_lanes<T>(y + i, stored, keep_lanes<T>(load_lanes<T>(y + i, stored) * inverse, n));
    });
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
    const auto product = [&](Index i, int n) { return load_lanes(dy + i, n) * load_lanes(y + i, n); };
    const V total = V::all(rounded<T>(row_sum<T>(seen, product)));
    each_vector(seen, [&](Index i, int n) {
      const V r = load_lanes(y + i, n) * (load_lanes(dy + i, n) - total);
      if (s.accumulate) store_lanes<T>(dx + i, n, load_lanes<T>(dx + i, n) + r);
      else store_lanes<T>(dx + i, lanes_at(i, s.width), keep_lanes<T>(r, n));
    });
    if (!s.accumulate) clear_after(dx, seen, s.width);
  }
}
