// Element by element: y = f(a, b, c) or y += f(a, b, c), over any strides.

// Sixteen elements (or n of them) that stand `stride` apart; 0 repeats one.
template <class T>
INLINE Vec<T> load_strided(const T* p, Index stride, int n) {
  if (stride == 1) return Vec<T>::load(p, n);
  if (stride == 0) return Vec<T>::all(*p);
  T lanes[kLanes] = {};
  for (int i = 0; i < n; ++i) lanes[i] = p[i * stride];
  return Vec<T>::load(lanes);
}

template <class T>
INLINE void store_strided(T* p, Index stride, int n, Vec<T> v) {
  if (stride == 1) return v.store(p, n);
  T lanes[kLanes];
  v.store(lanes);
  for (int i = 0; i < n; ++i) p[i * stride] = lanes[i];
}

// Calls f with as many operands as it takes, and with the arguments' two numbers if it takes those.
template <class F, class V>
INLINE V apply(V a, V b, V c, const double* parameters) {
  if constexpr (requires { F::of(a, parameters); }) return F::of(a, parameters);
  else if constexpr (requires { F::of(a, b, parameters); }) return F::of(a, b, parameters);
  else if constexpr (requires { F::of(a); }) return F::of(a);
  else if constexpr (requires { F::of(a, b); }) return F::of(a, b);
  else return F::of(a, b, c);
}

template <class F, class V>
constexpr int arity_of() {
  if (requires(V a) { F::of(a, a, a); }) return 3;
  if (requires(V a, const double* p) { F::of(a, a, p); } || requires(V a) { F::of(a, a); }) return 2;
  return 1;
}
template <class F, class V>
inline constexpr int kArity = arity_of<F, V>();

template <class F, class T>
void map_block(const MapArguments& m, T* y, const T* const* in, Index size) {
  using V = Vec<T>;
  constexpr int arity = kArity<F, V>;
  const Index* stride = m.inner_strides;
  const bool dense = stride[0] == 1 && stride[1] == 1 && (arity < 2 || stride[2] == 1) && (arity < 3 || stride[3] == 1);
  const V none = zero<V>();
  Index i = 0;
  if (dense)
    for (; i + kLanes <= size; i += kLanes) {
      const V a = V::load(in[0] + i);
      const V b = arity > 1 ? V::load(in[1] + i) : none;
      const V c = arity > 2 ? V::load(in[2] + i) : none;
      const V r = apply<F>(a, b, c, m.parameters);
      (m.accumulate ? V::load(y + i) + r : r).store(y + i);
    }
  for (; i < size; i += kLanes) {
    const int n = size - i < kLanes ? static_cast<int>(size - i) : kLanes;
    const V a = load_strided<T>(in[0] + i * stride[1], stride[1], n);
    const V b = arity > 1 ? load_strided<T>(in[1] + i * stride[2], stride[2], n) : none;
    const V c = arity > 2 ? load_strided<T>(in[2] + i * stride[3], stride[3], n) : none;
    const V r = apply<F>(a, b, c, m.parameters);
    T* to = y + i * stride[0];
    store_strided<T>(to, stride[0], n, m.accumulate ? load_strided<T>(to, stride[0], n) + r : r);
  }
}

// One vector or less, without gaps: what a small model's scalars and biases are, and not worth a loop.
template <class F, class T>
INLINE void map_few(const MapArguments& m) {
  using V = Vec<T>;
  constexpr int arity = kArity<F, V>;
  const int n = static_cast<int>(m.inner_size);
  const V a = V::load(static_cast<const T*>(m.data[1]), n);
  const V b = arity > 1 ? V::load(static_cast<const T*>(m.data[2]), n) : zero<V>();
  const V c = arity > 2 ? V::load(static_cast<const T*>(m.data[3]), n) : zero<V>();
  const V r = apply<F>(a, b, c, m.parameters);
  T* y = static_cast<T*>(m.data[0]);
  (m.accumulate ? V::load(y, n) + r : r).store(y, n);
}

template <class F, class T>
__attribute__((noinline)) void map_items(const MapArguments& m, Index begin, Index end) {
  constexpr int arity = kArity<F, Vec<T>>;
  const Index blocks = (m.inner_size + kMapBlock - 1) / kMapBlock;
  for (Index item = begin; item < end; ++item) {
    Index row = blocks == 1 ? item : item / blocks;
    const Index start = (item - row * blocks) * kMapBlock;
    Index offset[kMapOperands];
    for (int o = 0; o <= arity; ++o) offset[o] = start * m.inner_strides[o];
    for (int axis = m.outer_rank - 1; axis >= 0; row /= m.outer_sizes[axis--])
      for (int o = 0; o <= arity; ++o) offset[o] += row % m.outer_sizes[axis] * m.outer_strides[o][axis];
    const T* in[3];
    for (int o = 0; o < arity; ++o) in[o] = static_cast<const T*>(m.data[o + 1]) + offset[o + 1];
    const Index left = m.inner_size - start;
    map_block<F, T>(m, static_cast<T*>(m.data[0]) + offset[0], in, left < kMapBlock ? left : kMapBlock);
  }
}

template <class F, class T>
void map(const void* arguments, Index begin, Index end) {
  const auto& m = *static_cast<const MapArguments*>(arguments);
  if (m.dense && m.inner_size <= kLanes) map_few<F, T>(m);
  else map_items<F, T>(m, begin, end);
}

// The functions. Each formula stands once and serves every element type and instruction set.
struct Copy { template <class V> INLINE static V of(V a) { return a; } };
struct Scale { template <class V> INLINE static V of(V a, const double* p) { return scaled(a, p[0]); } };
struct Add { template <class V> INLINE static V of(V a, V b) { return a + b; } };
struct Subtract { template <class V> INLINE static V of(V a, V b) { return a - b; } };
struct Multiply { template <class V> INLINE static V of(V a, V b) { return a * b; } };
struct Divide { template <class V> INLINE static V of(V a, V b) { return a / b; } };
// d(a / b)/db = -(a / b) / b: from dy, y = a / b and b.
struct DivideBackward { template <class V> INLINE static V of(V dy, V y, V b) { return zero<V>() - dy * y / b; } };
struct Exp { template <class V> INLINE static V of(V a) { return exp(a); } };
struct Log { template <class V> INLINE static V of(V a) { return log(a); } };
struct Erf { template <class V> INLINE static V of(V a) { return erf(a); } };
struct Sin { template <class V> INLINE static V of(V a) { return sin(a); } };
struct Cos { template <class V> INLINE static V of(V a) { return cos(a); } };
struct Tanh { template <class V> INLINE static V of(V a) { return tanh(a); } };
struct SquareRoot { template <class V> INLINE static V of(V a) { return sqrt(a); } };
struct Gelu { template <class V> INLINE static V of(V a) { return gelu(a); } };
struct GeluBackward { template <class V> INLINE static V of(V dy, V x) { return dy * gelu_derivative(x); } };
struct Log1p { template <class V> INLINE static V of(V a) { return log1p(a); } };
struct Expm1 { template <class V> INLINE static V of(V a) { return expm1(a); } };
struct Sigmoid { template <class V> INLINE static V of(V a) { return sigmoid(a); } };
struct Softplus { template <class V> INLINE static V of(V a) { return softplus(a); } };
// The derivative of p0 sigmoid(p1 x) / p1: of sigmoid, and of tanh(x) = 2 sigmoid(2 x) - 1.
struct SigmoidBackward {
  template <class V> INLINE static V of(V dy, V x, const double* p) {
    return dy * scaled(sigmoid_slope(scaled(x, p[1])), p[0]);
  }
};
struct Swish { template <class V> INLINE static V of(V a, const double* p) { return swish(a, p[0], p[1]); } };
struct SwishBackward {
  template <class V> INLINE static V of(V dy, V x, const double* p) { return dy * swish_slope(x, p[0], p[1]); }
};
struct Power { template <class V> INLINE static V of(V x, V y) { return pow(x, y); } };
struct PowerBackward { template <class V> INLINE static V of(V dz, V x, V y) { return dz * pow_base_slope(x, y); } };
struct PowerExponentBackward {
  template <class V> INLINE static V of(V dz, V z, V x) { return dz * pow_exponent_slope(z, x); }
};

// Functions with a kink. A Dual's tangent follows the same choice as the gradient does there, and NaN passes through.
struct Relu {
  template <class V> INLINE static V of(V x) { return select(x <= zero<V>(), zero<V>(), x); }
};
struct LeakyRelu {
  template <class V> INLINE static V of(V x, const double* p) { return select(zero<V>() < x, x, scaled(x, p[0])); }
};
struct Absolute {  // of 0 it is x x, which is +0 and has no slope
  template <class V> INLINE static V of(V x) {
    return select(zero<V>() < x, x, select(x < zero<V>(), zero<V>() - x, x * x));
  }
};
struct Sign {
  template <class V> INLINE static V of(V x) {
    return select(zero<V>() < x, constant<V>(1), select(x < zero<V>(), constant<V>(-1), select(x == x, zero<V>(), x)));
  }
};
struct Clamp {
  template <class V> INLINE static V of(V x, const double* p) {
    const V low = constant<V>(p[0]), high = constant<V>(p[1]);
    return select(x < low, low, select(high < x, high, x));
  }
};
struct ClampBackward {
  template <class V> INLINE static V of(V dy, V x, const double* p) {
    return select((constant<V>(p[0]) <= x) & (x <= constant<V>(p[1])), dy, zero<V>());
  }
};
// a > 0 ? b : c.
struct WherePositive {
  template <class V> INLINE static V of(V a, V b, V c) { return select(zero<V>() < a, b, c); }
};

// What two equal numbers have in common: in a Dual, the mean of both tangents.
template <class V> INLINE V tied(V a, V) { return a; }
template <class V> INLINE Dual<V> tied(Dual<V> a, Dual<V> b) {
  return {a.value, scaled(a.tangent + b.tangent, 0.5)};
}
struct Maximum {
  template <class V> INLINE static V of(V a, V b) {
    return select(a < b, b, select(b < a, a, select(a == b, tied(a, b), a + b)));
  }
};
struct Minimum {
  template <class V> INLINE static V of(V a, V b) {
    return select(a < b, a, select(b < a, b, select(a == b, tied(a, b), a + b)));
  }
};
// a's share of dy where the larger of a and b wins: all, none, or half of it at a tie.
struct MaximumBackward {
  template <class V> INLINE static V of(V dy, V a, V b) {
    return select(a < b, zero<V>(), select(a == b, scaled(dy, 0.5), dy));
  }
};
