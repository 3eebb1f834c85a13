// Cross-entropy of rows of logits.

// The rows of a chunk leave their maximum, their sum of exponentials and their target's logit side by side, so that
// the logarithms go sixteen at a time.
template <class T>
struct LossChunk {
  T shift[kLossChunk], total[kLossChunk], picked[kLossChunk];
  bool counts[kLossChunk];
  T* lse[kLossChunk];
};

template <class T>
INLINE void cross_entropy_row(const CrossEntropyArguments& s, const RowCursor& at, LossChunk<T>& chunk,
                              Index slot) {
  const T* x = at.of<const T>(s.logits);
  const Index target = *at.of<const std::int32_t>(s.targets);
  const Vec<T> shift = row_shift(x, s.width);
  const auto term = [&](Index i, int n) { return keep_lanes<T>(exp(load_lanes(x + i, n) - shift), n); };
  chunk.total[slot] = rounded<T>(row_sum<T>(s.width, term));
  shift.store(chunk.shift + slot, 1);
  chunk.counts[slot] = target != s.ignored;
  chunk.picked[slot] = chunk.counts[slot] ? x[target] : T{};
  chunk.lse[slot] = at.of<T>(s.lse);
}

template <class T>
void cross_entropy(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  const auto& s = *static_cast<const CrossEntropyArguments*>(arguments);
  RowCursor at(s.rows, begin * kLossChunk);
  for (Index item = begin; item < end; ++item) {
    LossChunk<T> chunk;
    const Index size = minimum(kLossChunk, s.count - item * kLossChunk);
    for (Index slot = 0; slot < size; ++slot, at.next()) cross_entropy_row(s, at, chunk, slot);
    Wide<T> total{};
    each_vector(size, [&](Index i, int n) {
      const V log_total = log(V::load(chunk.total + i, n)), shift = V::load(chunk.shift + i, n);
      T losses[kLanes], sums[kLanes];
      (shift - V::load(chunk.picked + i, n) + log_total).store(losses);
      (shift + log_total).store(sums);
      for (int lane = 0; lane < n; ++lane) {
        *chunk.lse[i + lane] = sums[lane];
        if (chunk.counts[i + lane]) increase(total, losses[lane]);
      }
    });
    static_cast<Wide<T>*>(s.partials)[item] = total;
  }
}

template <class T>
void cross_entropy_backward(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  const auto& s = *static_cast<const CrossEntropyArguments*>(arguments);
  const V factor = V::all(*static_cast<const T*>(s.dloss)) / constant<V>(s.counted);
  for (RowCursor at(s.rows, begin); at.row < end; at.next()) {
    const T* x = at.of<const T>(s.logits);
    T* dx = at.of<T>(s.dlogits);
    const Index target = *at.of<const std::int32_t>(s.targets);
    if (target == s.ignored) {
      if (!s.accumulate) clear(dx, s.width);
      continue;
    }
    const V lse = V::all(*at.of<const T>(s.lse));
    T lanes[kLanes] = {};
    V::load(lanes).store(lanes);
    constant<V>(1).store(lanes + target % kLanes, 1);
    const Index target_vector = target - target % kLanes;
    each_vector(s.width, [&](Index i, int n) {
      V p = exp(load_lanes(x + i, n) - lse);
      if (i == target_vector) p = p - V::load(lanes);
      const V r = p * factor;
      store_lanes<T>(dx + i, n, s.accumulate ? load_lanes<T>(dx + i, n) + r : r);
    });
  }
}
