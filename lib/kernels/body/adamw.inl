// One step of AdamW, element by element.

template <class T>
INLINE void adamw_block(const AdamWPiece& a, Index start, Index size) {
  using V = Vec<T>;
  T *parameter = static_cast<T*>(a.parameter) + start, *gradient = static_cast<T*>(a.gradient) + start;
  T* first_moment = static_cast<T*>(a.first_moment) + start;
  T* second_moment = static_cast<T*>(a.second_moment) + start;
  const V scale = constant<V>(a.gradient_scale), keep = constant<V>(a.keep), step = constant<V>(a.step);
  const V beta1 = constant<V>(a.beta1), rest1 = constant<V>(a.rest1);
  const V beta2 = constant<V>(a.beta2), rest2 = constant<V>(a.rest2);
  const V root_scale = constant<V>(a.root_scale), epsilon = constant<V>(a.epsilon);
  each_vector(size, [&](Index i, int n) {
    const V g = load_lanes<T>(gradient + i, n) * scale;
    const V m = fma(beta1, load_lanes<T>(first_moment + i, n), rest1 * g);
    const V v = fma(beta2, load_lanes<T>(second_moment + i, n), rest2 * g * g);
    const V decayed = load_lanes<T>(parameter + i, n) * keep;
    store_lanes<T>(parameter + i, n, decayed - step * m / fma(sqrt(v), root_scale, epsilon));
    store_lanes<T>(first_moment + i, n, m);
    store_lanes<T>(second_moment + i, n, v);
    store_lanes<T>(gradient + i, n, zero<V>());
  });
}

template <class T>
void adamw(const void* arguments, Index begin, Index end) {
  const auto& a = *static_cast<const AdamWArguments*>(arguments);
  Index piece = 0;
  for (Index block = begin; block < end; ++block) {
    while (piece + 1 < a.count && a.pieces[piece + 1].first_block <= block) ++piece;
    const Index start = (block - a.pieces[piece].first_block) * kAdamWBlock;
    adamw_block<T>(a.pieces[piece], start, minimum(kAdamWBlock, a.pieces[piece].count - start));
  }
}
