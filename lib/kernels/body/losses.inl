// Losses that go element by element.

// t * (log(t) - x), a term of the divergence of a distribution t from one whose logarithm is x; 0 where t is 0.
struct Divergence {
  template <class V>
  INLINE static V of(V t, V x) {
    return select(t == zero<V>(), zero<V>(), t * (log(t) - x));
  }
};
// Its derivative along t, log(t) + 1 - x, times dy. Where t is 0 that is infinite, and counts as 0.
struct DivergenceBackward {
  template <class V>
  INLINE static V of(V dy, V t, V x) {
    return select(t == zero<V>(), zero<V>(), dy * (log(t) + constant<V>(1) - x));
  }
};

template <class V>
INLINE V negative_magnitude(V x) { return select(x < zero<V>(), x, zero<V>() - x); }

// s(x) - t with the logistic function s(x) = 1 / (1 + exp(-x)), without the cancellation of s(x) with t = 1 or 0.
template <class V>
INLINE V logistic_minus(V x, V t) {
  const V one = constant<V>(1), e = exp(negative_magnitude(x)), tail = e / (one + e);
  return select(x < zero<V>(), tail - t, one - t - tail);
}

// -t log s(x) - (1 - t) log(1 - s(x)) = max(x, 0) - x t + log(1 + exp(-|x|)).
struct BinaryEntropy {
  template <class V>
  INLINE static V of(V x, V t) {
    const V linear = select(x < zero<V>(), zero<V>() - x * t, x * (constant<V>(1) - t));
    return linear + log1p(exp(negative_magnitude(x)));
  }
  template <class V>
  INLINE static Dual<V> of(Dual<V> x, Dual<V> t) {
    return {of(x.value, t.value), logistic_minus(x.value, t.value) * x.tangent - x.value * t.tangent};
  }
};
struct BinaryEntropyBackward {
  template <class V> INLINE static V of(V dy, V x, V t) { return dy * logistic_minus(x, t); }
};
