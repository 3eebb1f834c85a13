#include "attune/lib/kernels/masked.h"

#include <cmath>
#include <limits>

#include "attune/lib/kernels/lines.h"
#include "attune/lib/math.h"

namespace attune::kernels {
namespace {

float value_of(float x) { return x; }
double value_of(double x) { return x; }
double value_of(dual x) { return x.value; }

template <class F>
void visit_float(DType type, F&& f) {
  visit(type, [&]<class T>() {
    if constexpr (!std::is_same_v<T, std::int32_t>) f.template operator()<T>();
  });
}

template <class T>
T number(double x) {
  if constexpr (std::is_same_v<T, dual>)
    return {x, 0};
  else
    return static_cast<T>(x);
}

template <class T>
T plus(T a, T b) {
  if constexpr (std::is_same_v<T, dual>)
    return {a.value + b.value, a.tangent + b.tangent};
  else
    return a + b;
}

template <class T>
T multiply_add(T a, T b, T c) {
  if constexpr (std::is_same_v<T, dual>)
    return {std::fma(a.value, b.value, c.value), std::fma(a.value, b.tangent, std::fma(a.tangent, b.value, c.tangent))};
  else
    return std::fma(a, b, c);
}

template <class T>
T scaled(T a, double scale) {
  if constexpr (std::is_same_v<T, dual>)
    return {a.value * scale, a.tangent * scale};
  else
    return a * static_cast<T>(scale);
}

template <class T>
bool is_minus_infinity(T x) {
  return value_of(x) == -std::numeric_limits<double>::infinity();
}

}  // namespace

void masked_scores(const View& y, const ConstView& x, const Attention& a) {
  const Shape scores = check_attention(a);
  const Index queries = scores.last(1), keys = scores.last(), heads = scores.rank() >= 3 ? scores.last(2) : 1;
  check(x.shape() == scores && y.is_contiguous(), "attention: scores {} are not {}", x.shape(), scores);
  // An operand that is not there is a number that changes nothing.
  const std::int32_t one = 1;
  const double none[2] = {0, 0};
  const ConstView allow = (a.mask.allow ? *a.mask.allow : ConstView(&one, Shape{}, i32)).expand(scores);
  const ConstView bias = (a.bias ? *a.bias : ConstView(none, Shape{}, x.dtype())).expand(scores);
  visit_float(x.dtype(), [&]<class T>() {
    const Index allow_step = allow.stride(-1), bias_step = bias.stride(-1), x_step = x.stride(-1);
    const T hidden = number<T>(-std::numeric_limits<double>::infinity());
    const std::array<const ConstView*, 3> views{&x, &allow, &bias};
    each_line<3>(around_axis(scores, scores.rank() - 1), views, keys, [&](Index line, const auto& offsets) {
      const Index query = line % queries, head = line / queries % heads, entry = line / queries / heads;
      const Index length = a.mask.lengths.empty() ? keys : a.mask.lengths[static_cast<std::size_t>(entry)];
      const T* from = static_cast<const T*>(x.data()) + offsets[0];
      const std::int32_t* allowed = static_cast<const std::int32_t*>(allow.data()) + offsets[1];
      const T* added = static_cast<const T*>(bias.data()) + offsets[2];
      T* to = static_cast<T*>(y.data()) + line * y.shape().last();
      bool sees = false;
      for (Index key = 0; key < keys; ++key) {
        const bool seen = key >= query + a.mask.first && key <= query + a.mask.last && key < length &&
                          allowed[key * allow_step] != 0 && !is_minus_infinity(added[key * bias_step]);
        to[key] = seen ? plus(from[key * x_step], added[key * bias_step]) : hidden;
        sees |= !is_minus_infinity(to[key]);
      }
      if (a.sinks) to[keys] = sees ? static_cast<const T*>(a.sinks->data())[head * a.sinks->stride(0)] : hidden;
    });
  });
}

void visible_keys(const View& y, const AttentionMask& mask, const Shape& scores) {
  const Index queries = scores.last(1), keys = scores.last(), heads = scores.rank() >= 3 ? scores.last(2) : 1;
  check(y.count() == around_axis(scores, scores.rank() - 1).count() && y.is_contiguous(),
        "visible_keys: {} does not hold a number for each row of {}", y.shape(), scores);
  const std::int32_t one = 1;
  const ConstView allow = (mask.allow ? *mask.allow : ConstView(&one, Shape{}, i32)).expand(scores);
  const Index step = allow.stride(-1);
  const std::array<const ConstView*, 1> views{&allow};
  each_line<1>(around_axis(scores, scores.rank() - 1), views, mask.allow ? keys : 1,
               [&](Index line, const auto& offsets) {
                 const Index query = line % queries, entry = line / queries / heads;
                 const Index length =
                     mask.lengths.empty() ? keys : mask.lengths[static_cast<std::size_t>(entry)];
                 const Index begin = std::max<Index>(0, query + mask.first),
                             end = std::min(length, query + mask.last + 1);
                 Index count = std::max<Index>(0, end - begin);
                 if (mask.allow) {
                   const std::int32_t* allowed = static_cast<const std::int32_t*>(allow.data()) + offsets[0];
                   count = 0;
                   for (Index key = begin; key < end; ++key) count += allowed[key * step] != 0;
                 }
                 y.as<std::int32_t>()[line] = static_cast<std::int32_t>(count);
               });
}

void where_seen(const Out& y, const ConstView& x, const ConstView& scores) {
  if (!y) return;
  const Shape& shape = y.view.shape();
  check(x.shape() == shape && scores.shape() == shape, "where_seen: shapes {}, {} and {} differ", shape, x.shape(),
        scores.shape());
  visit_float(x.dtype(), [&]<class T>() {
    const ConstView place = y.view;
    const std::array<const ConstView*, 3> views{&place, &x, &scores};
    each_line<3>(around_axis(shape, shape.rank() - 1), views, shape.last(), [&](Index, const auto& offsets) {
      T* to = static_cast<T*>(y.view.data()) + offsets[0];
      const T* from = static_cast<const T*>(x.data()) + offsets[1];
      const T* score = static_cast<const T*>(scores.data()) + offsets[2];
      for (Index i = 0; i < shape.last(); ++i) {
        T& element = to[i * y.view.stride(-1)];
        const T r = is_minus_infinity(score[i * scores.stride(-1)]) ? T{} : from[i * x.stride(-1)];
        element = y.accumulate ? plus(element, r) : r;
      }
    });
  });
}

void multiply_where_seen(const Out& c, const ConstView& a, const ConstView& b, double scale, const ConstView& seen,
                         Unseen unseen) {
  if (!c) return;
  const Shape& shape = c.view.shape();
  const Index steps = a.shape().last(), columns = shape.last();
  if (shape.count() == 0) return;
  // Lines of c have no axis for b's rows: their offset in b is that of its first row.
  const ConstView place = c.view, first_row = b.slice(-2, 0, 1).expand(shape);
  const std::array<const ConstView*, 4> operands{&place, &a, &first_row, &seen};
  visit_float(a.dtype(), [&]<class T>() {
    each_line<4>(around_axis(shape, shape.rank() - 1), operands, steps * columns, [&](Index, const auto& offsets) {
      T* to = static_cast<T*>(c.view.data()) + offsets[0];
      const T* left = static_cast<const T*>(a.data()) + offsets[1];
      const T* right = static_cast<const T*>(b.data()) + offsets[2];
      const T* sight = static_cast<const T*>(seen.data()) + offsets[3];
      for (Index j = 0; j < columns; ++j) {
        T total{};
        for (Index k = 0; k < steps; ++k) {
          const T mark = sight[k * seen.stride(-1)];
          if (unseen == Unseen::zero ? value_of(mark) == 0 : is_minus_infinity(mark)) continue;
          total = multiply_add(left[k * a.stride(-1)], right[k * b.stride(-2) + j * b.stride(-1)], total);
        }
        T& element = to[j * c.view.stride(-1)];
        element = c.accumulate ? plus(element, scaled(total, scale)) : scaled(total, scale);
      }
    });
  });
}

void log_sum_exp(const View& y, const ConstView& x) {
  const Shape lines = around_axis(x.shape(), x.rank() - 1);
  check(y.shape().count() == lines.count() && y.is_contiguous(),
        "log_sum_exp: {} does not hold a number for each row of {}", y.shape(), x.shape());
  visit_float(x.dtype(), [&]<class T>() {
    const std::array<const ConstView*, 1> views{&x};
    each_line<1>(lines, views, 8 * x.shape().last(), [&](Index line, const auto& offsets) {
      const T* row = static_cast<const T*>(x.data()) + offsets[0];
      double most = -std::numeric_limits<double>::infinity(), sum = 0;
      for (Index i = 0; i < x.shape().last(); ++i)
        most = std::max(most, static_cast<double>(value_of(row[i * x.stride(-1)])));
      for (Index i = 0; i < x.shape().last(); ++i) {
        const double score = value_of(row[i * x.stride(-1)]);
        if (!is_minus_infinity(score)) sum += math::exp(score - most);
      }
      static_cast<T*>(y.data())[line] = number<T>(most + math::log(sum));
    });
  });
}

bool all_finite(const ConstView& x) {
  bool finite = true;
  visit_float(x.dtype(), [&]<class T>() {
    const Shape lines = around_axis(x.shape(), x.rank() - 1);
    const Index count = lines.count();
    for (Index line = 0; line < count; ++line) {
      Index offset = 0, left = line;
      for (int axis = lines.rank() - 1; axis >= 0; left /= lines[axis--])
        offset += left % lines[axis] * x.strides()[static_cast<std::size_t>(axis)];
      const T* numbers = static_cast<const T*>(x.data()) + offset;
      for (Index i = 0; i < x.shape().last(); ++i) finite &= std::isfinite(value_of(numbers[i * x.stride(-1)]));
    }
  });
  return finite;
}

}  // namespace attune::kernels
