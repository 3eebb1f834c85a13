// Rows of a table by number, and their gradients.

template <class T>
void embedding(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  const auto& s = *static_cast<const EmbeddingArguments*>(arguments);
  for (RowCursor at(s.rows, begin); at.row < end; at.next()) {
    const T* row = static_cast<const T*>(s.table) + *at.of<const std::int32_t>(s.ids) * s.table_row_stride;
    T* y = at.of<T>(s.vectors);
    each_vector(s.width, [&](Index i, int n) {
      const V v = load_strided<T>(row + i * s.table_stride, s.table_stride, n);
      T* to = y + i * s.vector_stride;
      store_strided<T>(to, s.vector_stride, n, s.accumulate ? load_strided<T>(to, s.vector_stride, n) + v : v);
    });
  }
}

// Each block of columns goes over all positions in order, so that an id that repeats adds up in one order only.
template <class T>
void embedding_backward(const void* arguments, Index begin, Index end) {
  const auto& s = *static_cast<const EmbeddingArguments*>(arguments);
  const Index first_column = begin * kEmbeddingBlock;
  const Index columns = minimum(end * kEmbeddingBlock, s.width) - first_column;
  T* table = static_cast<T*>(s.table) + first_column * s.table_stride;
  for (RowCursor at(s.rows, 0); at.row < s.count; at.next()) {
    T* row = table + *at.of<const std::int32_t>(s.ids) * s.table_row_stride;
    const T* dy = at.of<const T>(s.vectors) + first_column * s.vector_stride;
    each_vector(columns, [&](Index i, int n) {
      T* to = row + i * s.table_stride;
      const auto d = load_strided<T>(dy + i * s.vector_stride, s.vector_stride, n);
      store_strided<T>(to, s.table_stride, n, load_strided<T>(to, s.table_stride, n) + d);
    });
  }
}
