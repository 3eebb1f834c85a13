// Root-mean-square normalisation of rows.

template <class T>
void rms_norm(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  const auto& s = *static_cast<const LayerNormArguments*>(arguments);
  const T* weight = static_cast<const T*>(s.weight);
  for (RowCursor at(s.rows, begin); at.row < end; at.next()) {
    const T* x = at.of<const T>(s.x);
    T* y = at.of<T>(s.y);
    const auto total = row_sum<T>(s.width, [&](Index i, int n) {
      const V v = load_lanes(x + i, n);
      return v * v;
    });
    const V square = V::all(rounded<T>(over(total, static_cast<double>(s.width))));
    const V inverse = constant<V>(1) / sqrt(square + constant<V>(s.epsilon));
    each_vector(s.width, [&](Index i, int n) {
      store_lanes<T>(y + i, n, load_lanes(x + i, n) * inverse * load_lanes(weight + i, n));
    });
    if (T* statistics = at.of<T>(s.statistics)) inverse.store(statistics, 1);
  }
}

// With n = x * inverse and g = dy * weight: dx = (g - n * mean(g * n)) * inverse, dweight = the sum of dy * n over rows.
template <class T>
INLINE void rms_norm_backward_row(const LayerNormArguments& s, const RowCursor& at, T* dweight) {
  using V = Vec<T>;
  const T *x = at.of<const T>(s.x), *dy = at.of<const T>(s.dy), *weight = static_cast<const T*>(s.weight);
  T* dx = at.of<T>(s.dx);
  const V inverse = V::all(*at.of<const T>(s.statistics));
  const auto normal = [&](Index i, int n) { return load_lanes(x + i, n) * inverse; };
  const auto weighted = [&](Index i, int n) { return load_lanes(dy + i, n) * load_lanes(weight + i, n); };

  Wide<T> total{};
  if (dx) total = row_sum<T>(s.width, [&](Index i, int n) { return weighted(i, n) * normal(i, n); });
  const V mean_gn = V::all(rounded<T>(over(total, static_cast<double>(s.width))));
  each_vector(s.width, [&](Index i, int n) {
    const V unit = normal(i, n);
    if (dweight) store_lanes<T>(dweight + i, n, fma(load_lanes(dy + i, n), unit, load_lanes<T>(dweight + i, n)));
    if (dx) {
      const V r = (weighted(i, n) - unit * mean_gn) * inverse;
      store_lanes<T>(dx + i, n, s.accumulate ? load_lanes<T>(dx + i, n) + r : r);
    }
  });
}

template <class T>
void rms_norm_backward(const void* arguments, Index begin, Index end) {
  const auto& s = *static_cast<const LayerNormArguments*>(arguments);
  RowCursor at(s.rows, begin * kNormChunk);
  for (Index chunk = begin; chunk < end; ++chunk) {
    T* dweight = s.partials ? static_cast<T*>(s.partials) + chunk * s.width : nullptr;
    if (dweight) clear(dweight, s.width);
    const Index last = minimum((chunk + 1) * kNormChunk, s.count);
    for (; at.row < last; at.next()) rms_norm_backward_row(s, at, dweight);
  }
}
