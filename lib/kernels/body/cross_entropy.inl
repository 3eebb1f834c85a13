// Cross-entropy of rows of logits, or of log-probabilities, against class numbers.
//
// With a smoothing e over C classes the target has 1 - e + e / C, and every other class e / C:
// loss = log(sum(exp(x))) - (1 - e) * x[target] - e / C * sum(x), where all x are taken relative to their maximum.

// Whether rows have a normaliser of their own, or one of 1.
struct Logits {
  static constexpr bool kNormalised = false;
};
struct LogProbabilities {
  static constexpr bool kNormalised = true;
};

// The rows of a chunk leave their shift, their sum of exponentials and what else their losses consist of side by side,
// so that the logarithms go sixteen at a time.
template <class T>
struct LossChunk {
  T shift[kLossChunk], total[kLossChunk], picked[kLossChunk], spread[kLossChunk];
  bool counts[kLossChunk];
  T* loss[kLossChunk];
};

template <class Kind, class T>
INLINE void cross_entropy_row(const CrossEntropyArguments& s, const RowCursor& at, LossChunk<T>& chunk,
                              Index slot) {
  using V = Vec<T>;
  const T* x = at.of<const T>(s.logits);
  const Index target = *at.of<const std::int32_t>(s.targets);
  V shift = zero<V>();
  if constexpr (Kind::kNormalised) {
    constant<V>(1).store(chunk.total + slot, 1);
  } else {
    shift = row_shift(x, s.width);
    chunk.total[slot] = sum_of_exponentials(x, s.width, shift);
    T* statistics = at.of<T>(s.statistics);
    shift.store(statistics, 1);
    statistics[1] = reciprocal(chunk.total[slot]);
  }
  shift.store(chunk.shift + slot, 1);
  const bool counts = target != s.ignored;
  chunk.counts[slot] = counts;
  chunk.picked[slot] = counts ? x[target] : T{};
  chunk.spread[slot] = T{};
  if (counts && s.smoothing > 0)
    chunk.spread[slot] = rounded<T>(
        row_sum<T>(s.width, [&](Index i, int n) { return keep_lanes<T>(shift - load_lanes(x + i, n), n); }));
  chunk.loss[slot] = at.of<T>(s.loss);
}

template <class Kind, class T>
void cross_entropy(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  const auto& s = *static_cast<const CrossEntropyArguments*>(arguments);
  const V on_target = constant<V>(1 - s.smoothing), on_each = constant<V>(s.smoothing / static_cast<double>(s.width));
  RowCursor at(s.rows, begin * kLossChunk);
  for (Index item = begin; item < end; ++item) {
    LossChunk<T> chunk;
    const Index size = minimum(kLossChunk, s.count - item * kLossChunk);
    for (Index slot = 0; slot < size; ++slot, at.next()) cross_entropy_row<Kind>(s, at, chunk, slot);
    Wide<T> total{};
    each_vector(size, [&](Index i, int n) {
      V below = V::load(chunk.shift + i, n) - V::load(chunk.picked + i, n);
      if (s.smoothing > 0) below = below * on_target + V::load(chunk.spread + i, n) * on_each;
      T losses[kLanes];
      (below + log(V::load(chunk.total + i, n))).store(losses);
      for (int lane = 0; lane < n; ++lane) {
        const bool counts = chunk.counts[i + lane];
        if (counts) increase(total, losses[lane]);
        if (T* loss = chunk.loss[i + lane]) *loss = counts ? losses[lane] : T{};
      }
    });
    static_cast<Wide<T>*>(s.partials)[item] = total;
  }
}

// dlogits = (softmax(logits) - target distribution) * dloss / divisor; without the softmax where rows are normalised.
template <class Kind, class T>
void cross_entropy_backward(const void* arguments, Index begin, Index end) {
  using V = Vec<T>;
  const auto& s = *static_cast<const CrossEntropyArguments*>(arguments);
  const V on_target = constant<V>(1 - s.smoothing), on_each = constant<V>(s.smoothing / static_cast<double>(s.width));
  for (RowCursor at(s.rows, begin); at.row < end; at.next()) {
    const T* x = at.of<const T>(s.logits);
    T* dx = at.of<T>(s.dlogits);
    const Index target = *at.of<const std::int32_t>(s.targets);
    if (target == s.ignored) {
      if (!s.accumulate) clear(dx, s.width);
      continue;
    }
    const V factor = V::all(*at.of<const T>(s.dloss)) / constant<V>(s.divisor);
    V shift = zero<V>(), inverse = zero<V>();
    if constexpr (!Kind::kNormalised) {
      const T* statistics = at.of<const T>(s.statistics);
      shift = V::all(statistics[0]);
      inverse = V::all(statistics[1]);
    }
    T lanes[kLanes] = {};
    on_target.store(lanes + target % kLanes, 1);
    const Index target_vector = target - target % kLanes;
    each_vector(s.width, [&](Index i, int n) {
      V p = zero<V>() - on_each;
      if constexpr (!Kind::kNormalised) p = exp(load_lanes(x + i, n) - shift) * inverse - on_each;
      if (i == target_vector) p = p - V::load(lanes);
      const V r = p * factor;
      store_lanes<T>(dx + i, n, s.accumulate ? load_lanes<T>(dx + i, n) + r : r);
    });
  }
}
