// One step of an optimizer, element by element. A rule turns the gradients of a vector of parameters, and what it
// remembers of them in `slots`, into how far they move; the rest is common.

template <class V>
struct Sgd {
  static constexpr int kSlots = 0;
  V step;

  INLINE Sgd(const StepArguments&, const StepPiece& piece) : step(constant<V>(piece.step)) {}
  INLINE V move(V g, V*) const { return step * g; }
};

template <class V>
struct SgdMomentum {
  static constexpr int kSlots = 1;
  V step, momentum;
  bool nesterov;

  INLINE SgdMomentum(const StepArguments& a, const StepPiece& piece)
      : step(constant<V>(piece.step)), momentum(constant<V>(a.beta1)), nesterov(a.nesterov) {}
  INLINE V move(V g, V* slots) const {
    slots[0] = fma(momentum, slots[0], g);
    return step * (nesterov ? fma(momentum, slots[0], g) : slots[0]);
  }
};

template <class V>
struct Adam {
  static constexpr int kSlots = 2;
  V step, beta1, rest1, beta2, rest2, root_scale, epsilon;

  INLINE Adam(const StepArguments& a, const StepPiece& piece)
      : step(constant<V>(piece.step)), beta1(constant<V>(a.beta1)), rest1(constant<V>(a.rest1)),
        beta2(constant<V>(a.beta2)), rest2(constant<V>(a.rest2)),
        root_scale(constant<V>(piece.root_scale)), epsilon(constant<V>(a.epsilon)) {}
  INLINE V move(V g, V* slots) const {
    slots[0] = fma(beta1, slots[0], rest1 * g);
    slots[1] = fma(beta2, slots[1], rest2 * g * g);
    return step * slots[0] / fma(sqrt(slots[1]), root_scale, epsilon);
  }
};

template <class V>
struct Lion {
  static constexpr int kSlots = 1;
  V step, beta1, rest1, beta2, rest2;

  INLINE Lion(const StepArguments& a, const StepPiece& piece)
      : step(constant<V>(piece.step)), beta1(constant<V>(a.beta1)), rest1(constant<V>(a.rest1)),
        beta2(constant<V>(a.beta2)), rest2(constant<V>(a.rest2)) {}
  INLINE V move(V g, V* slots) const {
    const V c = fma(beta1, slots[0], rest1 * g);
    slots[0] = fma(beta2, slots[0], rest2 * g);
    return select(c < zero<V>(), zero<V>() - step, select(zero<V>() < c, step, c));  // where c is 0 it stays 0
  }
};

template <template <class> class Rule, class T>
INLINE void step_block(const StepArguments& a, const StepPiece& piece, Index start, Index size) {
  using V = Vec<T>;
  T *parameter = static_cast<T*>(piece.parameter) + start, *gradient = static_cast<T*>(piece.gradient) + start;
  constexpr int kSlots = Rule<V>::kSlots;
  T* slots[2] = {};
  for (int s = 0; s < kSlots; ++s) slots[s] = static_cast<T*>(piece.slots[s]) + start;
  const V scale = constant<V>(piece.gradient_scale), keep = constant<V>(piece.keep), couple = constant<V>(piece.couple);
  const Rule<V> rule(a, piece);
  const bool coupled = piece.couple != 0;
  each_vector(size, [&](Index i, int n) {
    const V p = load_lanes<T>(parameter + i, n);
    V g = load_lanes<T>(gradient + i, n) * scale;
    if (coupled) g = fma(couple, p, g);
    V remembered[2];
    for (int s = 0; s < kSlots; ++s) remembered[s] = load_lanes<T>(slots[s] + i, n);
    const V move = rule.move(g, remembered);
    store_lanes<T>(parameter + i, n, p * keep - move);
    for (int s = 0; s < kSlots; ++s) store_lanes<T>(slots[s] + i, n, remembered[s]);
    store_lanes<T>(gradient + i, n, zero<V>());
  });
}

template <template <class> class Rule, class T>
void optimizer_step(const void* arguments, Index begin, Index end) {
  const auto& a = *static_cast<const StepArguments*>(arguments);
  Index piece = 0;
  for (Index block = begin; block < end; ++block) {
    while (piece + 1 < a.count && a.pieces[piece + 1].first_block <= block) ++piece;
    const Index start = (block - a.pieces[piece].first_block) * kStepBlock;
    step_block<Rule, T>(a, a.pieces[piece], start, minimum(kStepBlock, a.pieces[piece].count - start));
  }
}
