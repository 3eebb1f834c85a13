// Layer normalisation of rows.

template <class T>
void layer_norm(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  const auto& s = *static_cast<const LayerNormArguments*>(arguments);
  const auto count = static_cast<double>(s.width);
  const T *weight = static_cast<const T*>(s.weight), *bias = static_cast<const T*>(s.bias);
  for (RowCursor at(s.rows, begin); at.row < end; at.next()) {
    const T* x = at.of<const T>(s.x);
    T *y = at.of<T>(s.y), *statistics = at.of<T>(s.statistics);
    const auto mean_of = [&](auto&& term) {
      return V::all(rounded<T>(over(row_sum<T>(s.width, term), count)));
    };
    // The mean as rounded, and what rounding lost: x - mean is exact where x is near it, so the second mean is
    // precise.
    const V mean = mean_of([&](Index i, int n) { return load_lanes(x + i, n); });
    const V correction =
        mean_of([&](Index i, int n) { return keep_lanes<T>(load_lanes(x + i, n) - mean, n); });
    const V variance = mean_of([&](Index i, int n) {
      const V d = keep_lanes<T>(load_lanes(x + i, n) - mean - correction, n);
      return d * d;
    });
    const V inverse = constant<V>(1) / sqrt(variance + constant<V>(s.epsilon));
    each_vector(s.width, [&](Index i, int n) {
      const V normal = (load_lanes(x + i, n) - mean - correction) * inverse;
      store_lanes<T>(y + i, n, fma(normal, load_lanes(weight + i, n), load_lanes(bias + i, n)));
    });
    if (statistics) {
      mean.store(statistics, 1);
      correction.store(statistics + 1, 1);
      inverse.store(statistics + 2, 1);
    }
  }
}

template <class T>
INLINE void layer_norm_backward_row(const LayerNormArguments& s, const RowCursor& at, T* dweight, T* dbias) {
  using V = Vec<T>;
  const auto count = static_cast<double>(s.width);
  const T *x = at.of<const T>(s.x), *dy = at.of<const T>(s.dy), *statistics = at.of<const T>(s.statistics);
  const T* weight = static_cast<const T*>(s.weight);
  T* dx = at.of<T>(s.dx);
  const V mean = V::all(statistics[0]), correction = V::all(statistics[1]), inverse = V::all(statistics[2]);
  const auto normal = [&](Index i, int n) { return (load_lanes(x + i, n) - mean - correction) * inverse; };

  Wide<T> totals[2] = {};  // of g and g * normal, where g = dy * weight
  if (dx)
    add_row<T>(s.width, totals, [&](Index i, int n, V* terms) {
      terms[0] = load_lanes(dy + i, n) * load_lanes(weight + i, n);
      terms[1] = terms[0] * normal(i, n);
    });
  const V mean_g = V::all(rounded<T>(over(totals[0], count)));
  const V mean_gn = V::all(rounded<T>(over(totals[1], count)));
  each_vector(s.width, [&](Index i, int n) {
    const V d = load_lanes(dy + i, n), unit = normal(i, n);
    if (dweight) {
      store_lanes<T>(dweight + i, n, fma(d, unit, load_lanes<T>(dweight + i, n)));
      store_lanes<T>(dbias + i, n, load_lanes<T>(dbias + i, n) + d);
    }
    if (dx) {
      const V r = (d * load_lanes(weight + i, n) - mean_g - unit * mean_gn) * inverse;
      store_lanes<T>(dx + i, n, s.accumulate ? load_lanes<T>(dx + i, n) + r : r);
    }
  });
}

template <class T>
void layer_norm_backward(const void* arguments, Index begin, Index end) {
  const auto& s = *static_cast<const LayerNormArguments*>(arguments);
  RowCursor at(s.rows, begin * kNormChunk);
  for (Index chunk = begin; chunk < end; ++chunk) {
    T* dweight = s.partials ? static_cast<T*>(s.partials) + chunk * 2 * s.width : nullptr;
    T* dbias = dweight ? dweight + s.width : nullptr;
    if (dweight) clear(dweight, 2 * s.width);
    const Index last = minimum((chunk + 1) * kNormChunk, s.count);
    for (; at.row < last; at.next()) layer_norm_backward_row(s, at, dweight, dbias);
  }
}
