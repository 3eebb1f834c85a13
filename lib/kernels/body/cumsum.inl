// Running sums along rows: in double, each rounded once.

template <class T>
void cumsum(const void* arguments, Index begin, Index end) {
  const auto& s = *static_cast<const RowArguments*>(arguments);
  for (RowCursor at(s.rows, begin); at.row < end; at.next()) {
    const T* x = at.of<const T>(s.x);
    T* y = at.of<T>(s.y);
    Wide<T> total{};
    for (Index step = 0; step < s.width; ++step) {
      const Index i = s.backwards ? s.width - 1 - step : step;
      increase(total, x[i]);
      const T r = rounded<T>(total);
      if (s.accumulate) increase(y[i], r);
      else y[i] = r;
    }
  }
}
