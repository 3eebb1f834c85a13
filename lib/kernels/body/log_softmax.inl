// The logarithm of a row's sum of exponentials, and what is left of the row without it.

// What to subtract from a row before exp: its maximum, where that is a number. Where it is +inf the sum is too.
template <class T>
INLINE Vec<T> finite_shift(const T* x, Index size) {
  const double most = row_maximum(x, size);
  return constant<Vec<T>>(most - most == 0 ? most : 0);
}

// The sum of exp(x - shift).
template <class T>
INLINE T sum_of_exponentials(const T* x, Index size, const Vec<T>& shift) {
  return rounded<T>(row_sum<T>(size, [&](Index i, int n) {
    return keep_lanes<T>(exp(load_lanes(x + i, n) - shift), n);
  }));
}

// Nothing to sum is -inf, and moves with nothing.
template <class V> INLINE V log_of_sum(V total) { return log(total); }
template <class V>
INLINE Dual<V> log_of_sum(Dual<V> total) {
  return {log(total.value), select(total.value == zero<V>(), zero<V>(), total.tangent / total.value)};
}

// The statistics are the shift and 1 / sum, 0 for a sum of nothing: exp(x - y) from them does not lose the digits that
// a large y has lost.
template <class T>
void logsumexp(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  const auto& s = *static_cast<const RowArguments*>(arguments);
  for (RowCursor at(s.rows, begin); at.row < end; at.next()) {
    const T* x = at.of<const T>(s.x);
    const V shift = finite_shift(x, s.width);
    const T total = sum_of_exponentials(x, s.width, shift);
    (shift + log_of_sum(V::all(total))).store(at.of<T>(s.y), 1);
    if (T* statistics = at.of<T>(s.statistics)) {
      shift.store(statistics, 1);
      statistics[1] = value_of(total) == 0 ? T{} : reciprocal(total);
    }
  }
}

// dx = dy * exp(x - y).
template <class T>
void logsumexp_backward(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  const auto& s = *static_cast<const RowArguments*>(arguments);
  for (RowCursor at(s.rows, begin); at.row < end; at.next()) {
    const T *x = at.of<const T>(s.x), *statistics = at.of<const T>(s.statistics);
    T* dx = at.of<T>(s.dx);
    const V shift = V::all(statistics[0]), inverse = V::all(statistics[1]), dy = V::all(*at.of<const T>(s.dy));
    each_vector(s.width, [&](Index i, int n) {
      const V r = exp(load_lanes(x + i, n) - shift) * inverse * dy;
      store_lanes<T>(dx + i, n, s.accumulate ? load_lanes<T>(dx + i, n) + r : r);
    });
  }
}

template <class T>
void log_softmax(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  const auto& s = *static_cast<const RowArguments*>(arguments);
  for (RowCursor at(s.rows, begin); at.row < end; at.next()) {
    const T* x = at.of<const T>(s.x);
    T* y = at.of<T>(s.y);
    const V shift = row_shift(x, s.width);
    const T total = sum_of_exponentials(x, s.width, shift);
    const bool masked = value_of(total) == 0;  // nothing but -inf: the logarithm of a softmax of zeros
    const V log_total = log_of_sum(V::all(total)), nothing = constant<V>(-__builtin_inf());
    each_vector(s.width, [&](Index i, int n) {
      store_lanes<T>(y + i, n, masked ? nothing : load_lanes(x + i, n) - shift - log_total);
    });
  }
}

// Whether a row is nothing but -inf.
template <class T>
INLINE bool is_masked(const T* x, Index size) {
  const double nothing = -__builtin_inf();
  if (static_cast<double>(value_of(x[0])) != nothing) return false;
  bool all = true;
  for (Index i = 0; i < size; ++i) all &= static_cast<double>(value_of(x[i])) == nothing;
  return all;
}

// dx = dy - exp(y) * sum(dy).
template <class T>
void log_softmax_backward(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  const auto& s = *static_cast<const RowArguments*>(arguments);
  for (RowCursor at(s.rows, begin); at.row < end; at.next()) {
    const T *y = at.of<const T>(s.y), *dy = at.of<const T>(s.dy);
    T* dx = at.of<T>(s.dx);
    if (is_masked(y, s.width)) {
      if (!s.accumulate) clear(dx, s.width);
      continue;
    }
    const V total = V::all(rounded<T>(row_sum<T>(s.width, [&](Index i, int n) { return load_lanes(dy + i, n); })));
    each_vector(s.width, [&](Index i, int n) {
      const V r = load_lanes(dy + i, n) - exp(load_lanes(y + i, n)) * total;
      store_lanes<T>(dx + i, n, s.accumulate ? load_lanes<T>(dx + i, n) + r : r);
    });
  }
}
