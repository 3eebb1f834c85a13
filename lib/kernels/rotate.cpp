#include "attune/lib/kernels/rotate.h"

#include "attune/lib/kernels/lines.h"

namespace attune::kernels {
namespace {

// One pair, by the angle whose cosine and sine are given; those are constants, without a tangent.
template <class T>
struct Turned {
  T a, b;
};
template <class T>
Turned<T> turned(T a, T b, T cos, T sin) {
  if constexpr (std::is_same_v<T, dual>) {
    const auto value = turned(a.value, b.value, cos.value, sin.value);
    const auto tangent = turned(a.tangent, b.tangent, cos.value, sin.value);
    return {{value.a, tangent.a}, {value.b, tangent.b}};
  } else {
    return {a * cos - b * sin, b * cos + a * sin};
  }
}
template <class T>
T negative(T x) {
  if constexpr (std::is_same_v<T, dual>) return {-x.value, -x.tangent};
  else return -x;
}

}  // namespace

void rotate(const Out& y, const ConstView& x, const ConstView& cos, const ConstView& sin, RotaryPairs pairs, Turn turn) {
  if (!y) return;
  const ConstView result = y.view;
  check(is_float(x.dtype()) && x.dtype() == result.dtype() && x.dtype() == cos.dtype() && x.dtype() == sin.dtype(),
        "rotate: element types {}, {} and {} differ, or have no arithmetic", x.dtype(), cos.dtype(), sin.dtype());
  check(x.rank() >= 1 && x.shape().last() % 2 == 0, "rotate: rows of {} do not consist of pairs", x.shape());
  const int last = x.rank() - 1;
  const Index half = x.shape()[last] / 2;
  Shape angles = x.shape();
  angles[last] = half;
  check(x.shape() == result.shape(), "rotate: {} does not fit {}", x.shape(), result.shape());
  check(broadcasts_to(cos.shape(), angles) && cos.shape() == sin.shape(),
        "rotate: cosines {} and sines {} do not stretch to {}", cos.shape(), sin.shape(), angles);
  const ConstView c = cos.expand(angles), s = sin.expand(angles);
  const auto along = static_cast<std::size_t>(last);
  const Index y_step = result.strides()[along], x_step = x.strides()[along];
  const Index c_step = c.strides()[along], s_step = s.strides()[along];
  const bool split = pairs == RotaryPairs::half_split;
  const Index pair_step = split ? 1 : 2, partner = split ? half : 1;
  visit(x.dtype(), [&]<class T>() {
    if constexpr (dtype_of<T> != DType::i32) {
      T* const to = y.view.as<T>();
      const T *const from = x.as<T>(), *const cosines = c.as<T>(), *const sines = s.as<T>();
      each_line(around_axis(x.shape(), last), std::array{&result, &x, &c, &s}, 4 * half, [&](Index, const auto& start) {
        for (Index i = 0; i < half; ++i) {
          const Index a = i * pair_step, b = a + partner;
          const T sine = sines[start[3] + i * s_step];
          const Turned<T> r = turned(from[start[1] + a * x_step], from[start[1] + b * x_step],
                                     cosines[start[2] + i * c_step], turn == Turn::forward ? sine : negative(sine));
          put(to[start[0] + a * y_step], r.a, y.accumulate);
          put(to[start[0] + b * y_step], r.b, y.accumulate);
        }
      });
    }
  });
}

}  // namespace attune::kernels
