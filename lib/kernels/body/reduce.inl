// Sums in a fixed order, and what every kernel that goes row by row is made of.

template <class T>
INLINE T minimum(T a, T b) { return a < b ? a : b; }

// Where the rows are, one after the other.
struct RowCursor {
  const RowSpace& rows;
  Index row;
  Index index[kMaxRank];

  INLINE RowCursor(const RowSpace& space, Index first_row) : rows(space), row(first_row) {
    for (int axis = rows.rank - 1; axis >= 0; first_row /= rows.sizes[axis--])
      index[axis] = first_row % rows.sizes[axis];
  }
  INLINE void next() {
    ++row;
    for (int axis = rows.rank - 1; axis >= 0; --axis) {
      if (++index[axis] < rows.sizes[axis]) return;
      index[axis] = 0;
    }
  }
  INLINE Index offset(const Index* strides) const {
    Index sum = 0;
    for (int axis = 0; axis < rows.rank; ++axis) sum += index[axis] * strides[axis];
    return sum;
  }
  template <class T>
  INLINE T* of(const RowOperand& operand) const {
    return operand.data ? static_cast<T*>(operand.data) + offset(operand.strides) : nullptr;
  }
};

// The vectors of a row: all whole but the last, which has n lanes and zeros beyond them. Without vector registers a
// part of a vector means a branch for each lane; those stand outside of the loops then.
template <class T>
__attribute__((noinline)) Vec<T> load_part(const T* p, int n) { return Vec<T>::load(p, n); }
template <class T>
__attribute__((noinline)) void store_part(T* p, int n, const Vec<T>& v) { v.store(p, n); }
template <class T>
INLINE Vec<T> load_lanes(const T* p, int n) {
  if (n == kLanes) return Vec<T>::load(p);
  if constexpr (F32::kLanes == 1) return load_part(p, n);
  else return Vec<T>::load(p, n);
}
template <class T>
INLINE void store_lanes(T* p, int n, const Vec<T>& v) {
  if (n == kLanes) return v.store(p);
  if constexpr (F32::kLanes == 1) store_part(p, n, v);
  else v.store(p, n);
}
// v with zeros beyond n lanes.
template <class T>
INLINE Vec<T> keep_lanes(const Vec<T>& v, int n) {
  if (n == kLanes) return v;
  if constexpr (F32::kLanes == 1) {
    T lanes[kLanes];
    v.store(lanes);
    return load_part(lanes, n);
  } else {
    return select(first<Vec<T>>(n), v, zero<Vec<T>>());
  }
}

// How many lanes the vector at i has in a row of `size`.
INLINE int lanes_at(Index i, Index size) { return static_cast<int>(minimum<Index>(size - i, kLanes)); }

// Calls f(i, n) for the vectors of a row of `size`.
template <class F>
INLINE void each_vector(Index size, F&& f) {
  for (Index i = 0; i < size; i += kLanes) f(i, lanes_at(i, size));
}

template <class T>
INLINE void clear(T* p, Index size) {
  each_vector(size, [&](Index i, int n) { store_lanes<T>(p + i, n, zero<Vec<T>>()); });
}

// Sums of chunks are added up in double, or in dual, which consists of doubles.
template <class T> struct WideOf { using type = double; };
template <> struct WideOf<dual> { using type = dual; };
template <class T> using Wide = typename WideOf<T>::type;
INLINE void increase(float& total, float x) { total += x; }
INLINE void increase(double& total, double x) { total += x; }
INLINE void increase(dual& total, dual x) { total = {total.value + x.value, total.tangent + x.tangent}; }
INLINE double over(double total, double count) { return total / count; }
INLINE dual over(dual total, double count) { return {total.value / count, total.tangent / count}; }
INLINE float reciprocal(float x) { return 1 / x; }
INLINE double reciprocal(double x) { return 1 / x; }
INLINE dual reciprocal(dual x) { return {1 / x.value, -x.tangent / x.value / x.value}; }
INLINE float value_of(float x) { return x; }
INLINE double value_of(double x) { return x; }
INLINE double value_of(dual x) { return x.value; }
template <class T> INLINE T rounded(Wide<T> x) { return static_cast<T>(x); }

INLINE Vec<double> wide(Vec<float> a) { return widen(a); }
INLINE Vec<double> wide(Vec<double> a) { return a; }
INLINE Vec<dual> wide(Vec<dual> a) { return a; }
template <class T> INLINE Vec<T> rounded_lanes(Vec<Wide<T>> a) { return a; }
template <> INLINE Vec<float> rounded_lanes<float>(Vec<double> a) { return narrow(a); }

// Adds up a row's terms, which f(i, n, terms) gives for the elements i ... i + n - 1, zero beyond them: in chunks of
// kSumChunk, sixteen lanes in each. Several sums can go together.
template <class T, int sums, class F>
INLINE void add_row(Index size, Wide<T> (&totals)[sums], F&& f) {
  using V = Vec<T>;
  for (Index start = 0; start < size; start += kSumChunk) {
    const Index end = minimum(start + kSumChunk, size);
    V lanes[sums], terms[sums];
    for (V& lane : lanes) lane = zero<V>();
    for (Index i = start; i < end; i += kLanes) {
      f(i, lanes_at(i, end), terms);
      for (int s = 0; s < sums; ++s) lanes[s] = lanes[s] + terms[s];
    }
    for (int s = 0; s < sums; ++s) increase(totals[s], sum(lanes[s]));
  }
}
template <class T, class F>
INLINE Wide<T> row_sum(Index size, F&& f) {
  Wide<T> total[1] = {};
  add_row<T>(size, total, [&](Index i, int n, Vec<T>* terms) { terms[0] = f(i, n); });
  return total[0];
}

// Calls f(offset, stride, length) for the runs along the last axis that hold the elements `start` ... of a space.
template <class F>
INLINE void each_run(const RowSpace& space, const Index* strides, Index start, Index count, F&& f) {
  if (space.rank == 0) return f(0, 0, count);
  const int last = space.rank - 1;
  RowCursor at(space, start);
  while (count > 0) {
    const Index length = minimum(count, space.sizes[last] - at.index[last]);
    f(at.offset(strides), strides[last], length);
    count -= length;
    at.index[last] += length - 1;
    at.next();
  }
}

// The last axis is summed. One chunk, from x or, where its elements do not stand side by side, from a copy.
template <class T>
__attribute__((noinline)) T sum_chunk(const SumArguments& s, const T* x, Index chunk) {
  const Index start = chunk * kSumChunk, count = minimum(kSumChunk, s.summed_count - start);
  T copy[kSumChunk];
  const T* from = copy;
  if (s.summed.rank == 1 && s.x_strides[0] == 1) {
    from = x + start;
  } else {
    T* to = copy;
    each_run(s.summed, s.x_strides, start, count, [&](Index offset, Index stride, Index length) {
      for (Index i = 0; i < length; ++i) *to++ = x[offset + i * stride];
    });
  }
  Vec<T> lanes = zero<Vec<T>>();
  each_vector(count, [&](Index i, int n) { lanes = lanes + load_lanes(from + i, n); });
  return sum(lanes);
}

template <class T>
void sum_last(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  const auto& s = *static_cast<const SumArguments*>(arguments);
  if (s.partials) {
    for (Index item = begin; item < end; ++item) {
      const T* x = RowCursor(s.kept, item / s.chunks).of<const T>(s.x);
      static_cast<T*>(s.partials)[item] = sum_chunk(s, x, item % s.chunks);
    }
    return;
  }
  for (RowCursor at(s.kept, begin); at.row < end; at.next()) {
    const T* x = at.of<const T>(s.x);
    Wide<T> total{};
    for (Index chunk = 0; chunk < s.chunks; ++chunk) increase(total, sum_chunk(s, x, chunk));
    const V result = V::all(rounded<T>(over(total, s.divisor)));
    T* y = at.of<T>(s.y);
    (s.accumulate ? V::load(y, 1) + result : result).store(y, 1);
  }
}

// The last axis is kept: sums of columns over one chunk of rows. Whole vectors of columns go side by side; fewer than
// sixteen, or columns that do not stand side by side, one after the other.
template <class T, int vectors>
INLINE void sum_columns(const SumArguments& s, const T* x, Index chunk, int n, Vec<T> (&lanes)[vectors]) {
  const Index start = chunk * kRowChunk, count = minimum(kRowChunk, s.summed_count - start);
  if (n == kLanes && s.x_inner_stride == 1) {
    for (auto& lane : lanes) lane = zero<Vec<T>>();
    each_run(s.summed, s.x_strides, start, count, [&](Index offset, Index stride, Index length) {
      const T* row = x + offset;
      for (Index i = 0; i < length; ++i, row += stride)
        for (int v = 0; v < vectors; ++v) lanes[v] = lanes[v] + Vec<T>::load(row + v * kLanes);
    });
  } else {
    T sums[kLanes] = {};
    each_run(s.summed, s.x_strides, start, count, [&](Index offset, Index stride, Index length) {
      for (int j = 0; j < n; ++j) {
        const T* column = x + j * s.x_inner_stride + offset;
        T total = sums[j];
        for (Index i = 0; i < length; ++i) increase(total, column[i * stride]);
        sums[j] = total;
      }
    });
    lanes[0] = Vec<T>::load(sums);
  }
}

template <class T, int vectors>
__attribute__((noinline)) void sum_block(const SumArguments& s, const T* x, T* y, int n) {
  using V = Vec<T>;
  Vec<Wide<T>> totals[vectors];
  for (auto& total : totals) total = zero<Vec<Wide<T>>>();
  for (Index chunk = 0; chunk < s.chunks; ++chunk) {
    V lanes[vectors];
    sum_columns(s, x, chunk, n, lanes);
    for (int v = 0; v < vectors; ++v) totals[v] = totals[v] + wide(lanes[v]);
  }
  for (int v = 0; v < vectors; ++v) {
    const V result = rounded_lanes<T>(totals[v] / constant<Vec<Wide<T>>>(s.divisor));
    T* to = y + v * kLanes * s.y_inner_stride;
    store_strided<T>(to, s.y_inner_stride, n,
                     s.accumulate ? load_strided<T>(to, s.y_inner_stride, n) + result : result);
  }
}

template <class T, int vectors>
__attribute__((noinline)) void sum_partial(const SumArguments& s, const T* x, T* partial, Index chunk, int n) {
  Vec<T> lanes[vectors];
  sum_columns(s, x, chunk, n, lanes);
  for (int v = 0; v < vectors; ++v) store_lanes<T>(partial + v * kLanes, n, lanes[v]);
}

template <class T>
void sum_first(const void* arguments, Index begin, Index end) {
  const auto& s = *static_cast<const SumArguments*>(arguments);
  constexpr int wide_step = 4;
  const Index blocks = (s.inner + kInnerBlock - 1) / kInnerBlock;
  for (Index item = begin; item < end; ++item) {
    const Index from = item % blocks * kInnerBlock, to = minimum(from + kInnerBlock, s.inner);
    const Index outer = item / blocks;  // a result, or a chunk of one
    const RowCursor at(s.kept, s.partials ? outer / s.chunks : outer);
    const T* x = at.of<const T>(s.x);
    T* y = at.of<T>(s.y);
    T* partial = static_cast<T*>(s.partials) + (s.partials ? outer * s.inner : 0);
    const Index chunk = s.partials ? outer % s.chunks : 0;
    for (Index j = from; j < to;) {
      const bool whole = s.x_inner_stride == 1 && j + wide_step * kLanes <= to;
      const int n = lanes_at(j, to);
      const T* column = x + j * s.x_inner_stride;
      if (s.partials && whole) sum_partial<T, wide_step>(s, column, partial + j, chunk, n);
      else if (s.partials) sum_partial<T, 1>(s, column, partial + j, chunk, n);
      else if (whole) sum_block<T, wide_step>(s, column, y + j * s.y_inner_stride, n);
      else sum_block<T, 1>(s, column, y + j * s.y_inner_stride, n);
      j += whole ? wide_step * kLanes : kLanes;
    }
  }
}

template <class T>
void fold(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  using W = Vec<Wide<T>>;
  const auto& f = *static_cast<const FoldArguments*>(arguments);
  const Index first_column = begin * kFoldBlock, columns = minimum(end * kFoldBlock, f.width) - first_column;
  each_vector(columns, [&](Index i, int n) {
    const Index column = first_column + i;
    W total = zero<W>();
    const T* partial = static_cast<const T*>(f.partials) + column;
    for (Index chunk = 0; chunk < f.chunks; ++chunk)
      total = total + wide(load_lanes(partial + chunk * f.stride, n));
    const V result = rounded_lanes<T>(total / constant<W>(f.divisor));
    T* y = static_cast<T*>(f.y) + column * f.y_stride;
    store_strided<T>(y, f.y_stride, n, f.accumulate ? load_strided<T>(y, f.y_stride, n) + result : result);
  });
}

INLINE Vec<double> values_of(Vec<float> a) { return widen(a); }
INLINE Vec<double> values_of(Vec<double> a) { return a; }
INLINE Vec<double> values_of(Vec<dual> a) { return a.value; }

template <class T>
void squares(const void* arguments, Index begin, Index end) {
  const auto& s = *static_cast<const SquareArguments*>(arguments);
  for (Index chunk = begin; chunk < end; ++chunk) {
    const Index start = chunk * kSquareChunk;
    const T* x = static_cast<const T*>(s.x) + start;
    Vec<double> lanes = zero<Vec<double>>();
    each_vector(minimum(kSquareChunk, s.count - start), [&](Index i, int n) {
      const Vec<double> value = values_of(load_lanes(x + i, n));
      lanes = fma(value, value, lanes);
    });
    s.partials[chunk] = sum(lanes);
  }
}
