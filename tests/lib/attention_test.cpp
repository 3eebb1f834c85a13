// The kernel of attention by itself: statistics, strides, accumulation, and two passes that have the bits of one.
// What it computes is tests/layers/attention_test.cpp's matter.
#include "attune/lib/kernels/attention.h"

#include "kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

struct Operands {
  Tensor q, k, v, up;

  Operands(Index heads, Index key_heads, Index queries, Index keys, DType dtype)
      : q(random({2, heads, queries, 6}, dtype, 1, -2, 2)),
        k(random({2, key_heads, keys, 6}, dtype, 2, -2, 2)),
        v(random({2, key_heads, keys, 5}, dtype, 3)),
        up(random({2, heads, queries, 5}, dtype, 4)) {}

  kernels::Attention call() const {
    return {.q = q, .k = k, .v = v, .scale = 0.5, .mask = {.last = k.size(2) - q.size(2)}};
  }
  Shape statistics() const { return {2, 2, q.size(1), q.size(2)}; }
};

struct Gradients {
  Tensor dq, dk, dv;
};

// Forward and backward, into places that hold `before` and are added to, or into new ones.
Gradients differentiate(const Operands& x, const kernels::Attention& a, const Gradients* before = nullptr) {
  Tensor y(x.up.shape(), x.q.dtype()), statistics(x.statistics(), x.q.dtype());
  kernels::attention(y, statistics, a);
  Gradients g{Tensor(x.q.shape(), x.q.dtype()), Tensor(x.k.shape(), x.q.dtype()), Tensor(x.v.shape(), x.q.dtype())};
  for (Tensor* gradient : {&g.dq, &g.dk, &g.dv}) kernels::fill(*gradient, kNan);
  if (before) g = {before->dq.clone(), before->dk.clone(), before->dv.clone()};
  const auto place = [&](Tensor& gradient) { return Out(gradient.view(), before != nullptr); };
  kernels::attention_backward({place(g.dq), place(g.dk), place(g.dv)}, x.up, y, statistics, a);
  return g;
}

Tensor all_of(const Gradients& g) { return joined({&g.dq, &g.dk, &g.dv}); }

}  // namespace

TEST_CASE("attention kernel: a row's statistics are its maximum and the sum of exp(score - maximum)") {
  const Tensor q = tensor({{1}, {2}}, f64), k = tensor({{0}, {1}, {3}}, f64), v = tensor({{1}, {2}, {3}}, f64);
  Tensor y({2, 1}, f64), statistics({2, 2}, f64);
  kernels::attention(y, statistics, {.q = q, .k = k, .v = v, .mask = {.last = 0}});  // query 0 sees key 0, query 1 two
  CHECK(statistics.at({0, 0}) == 0);
  CHECK(statistics.at({1, 0}) == 1);
  CHECK(statistics.at({0, 1}) == 2);
  CHECK(statistics.at({1, 1}) == doctest::Approx(1 + std::exp(-2.0)).epsilon(1e-15));
  kernels::attention(y, statistics, {.q = q, .k = k, .v = v, .mask = {.last = -1}});
  CHECK(statistics.at({0, 0}) == -kInf);
  CHECK(statistics.at({1, 0}) == 0);
  CHECK(y.at({0, 0}) == 0);
}

TEST_CASE("attention kernel: few heads and many threads go in two passes, with the bits of one") {
  const std::string row_before(row());
  const int threads_before = threads();
  for (const DType dtype : {f32, f64, DType::dual})
    for (const auto& [heads, key_heads] : {std::pair<Index, Index>{1, 1}, {4, 2}}) {
      const Operands x(heads, key_heads, 100, 150, dtype);
      set_threads(1);
      const Tensor one_pass = all_of(differentiate(x, x.call()));
      for (const int count : {2, 3, 7, 16}) {
        set_threads(count);
        CHECK(same_bits(all_of(differentiate(x, x.call())), one_pass));
      }
    }
  set_row(row_before);
  set_threads(threads_before);
}

TEST_CASE("attention kernel: gradients are written, or added to what is there") {
  const Operands x(2, 2, 40, 70, f64);
  const Gradients written = differentiate(x, x.call());
  Gradients before{random(x.q.shape(), f64, 5), random(x.k.shape(), f64, 6), random(x.v.shape(), f64, 7)};
  const Tensor added = all_of(differentiate(x, x.call(), &before)), start = all_of(before), change = all_of(written);
  for (Index i = 0; i < added.count(); ++i)
    CHECK(added.at({i}) == doctest::Approx(start.at({i}) + change.at({i})).epsilon(1e-13));
}

TEST_CASE("attention kernel: strides of operands, results and gradients change no bit") {
  const Operands x(2, 1, 20, 70, f32);
  Tensor y(x.up.shape()), statistics(x.statistics());
  kernels::attention(y, statistics, x.call());
  const Tensor expected = all_of(differentiate(x, x.call()));
  for (int layout = 0; layout < kLayouts; ++layout) {
    const Arranged q = arrange(x.q, layout), k = arrange(x.k, layout), v = arrange(x.v, layout),
                   up = arrange(x.up, layout), strided_y = arrange(zeros(y.shape()), layout);
    kernels::Attention a = x.call();
    a.q = q.view;
    a.k = k.view;
    a.v = v.view;
    kernels::attention(strided_y.view, statistics, a);
    CHECK(same_bits(strided_y.view, y));
    const Arranged dq = arrange(x.q, layout), dk = arrange(x.k, layout), dv = arrange(x.v, layout);
    kernels::attention_backward({dq.view, dk.view, dv.view}, up.view, strided_y.view, statistics, a);
    const Tensor a_q = Tensor::copy_of(dq.view), a_k = Tensor::copy_of(dk.view), a_v = Tensor::copy_of(dv.view);
    CHECK(same_bits(joined({&a_q, &a_k, &a_v}), expected));
  }
}

TEST_CASE("attention kernel: gradients that nobody wants are left out, and the others keep their bits") {
  const Operands x(2, 1, 40, 70, f32);
  Tensor y(x.up.shape()), statistics(x.statistics());
  kernels::attention(y, statistics, x.call());
  const Gradients expected = differentiate(x, x.call());
  Tensor alone(x.k.shape());
  kernels::attention_backward({{}, alone.view(), {}}, x.up, y, statistics, x.call());
  CHECK(same_bits(alone, expected.dk));
  Tensor query(x.q.shape());
  kernels::attention_backward({query.view(), {}, {}}, x.up, y, statistics, x.call());
  CHECK(same_bits(query, expected.dq));
}

TEST_CASE("attention kernel: whatever stands in the caller's denormal mode, the same bits") {
  const Operands x(1, 1, 20, 70, f32);
  Operands tiny(1, 1, 20, 70, f32);
  kernels::scale(tiny.v, x.v, 1e-38);
  Tensor y(x.up.shape()), statistics(x.statistics());
  kernels::attention(y, statistics, tiny.call());
  for (const double number : values(y)) CHECK((number == 0 || std::abs(number) >= 1.1754942e-38));
}

TEST_CASE("attention kernel: what is refused") {
  const Operands x(2, 1, 3, 4, f32);
  Tensor y(x.up.shape()), statistics(x.statistics()), wrong({2, 2, 3, 5}), wide({2, 2, 2, 3}, f64),
      weights({2, 2, 3, 3});
  Tensor good_weights({2, 2, 3, 4});
  CHECK_THROWS_WITH_AS(kernels::attention(good_weights, statistics, x.call()),
                       "attention: y [2, 2, 3, 4] is not [2, 2, 3, 5]", std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::attention(y, wrong, x.call()),
                       "attention: the statistics' [2, 2, 3, 5] is not [2, 2, 2, 3]", std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::attention(y, wide, x.call()), "attention: statistics of f64 must be contiguous f32",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::attention_weights(weights, statistics, x.call()),
                       "attention: weights [2, 2, 3, 3] is not [2, 2, 3, 4]", std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::attention_weights(Tensor({2, 2, 4, 3}).view().t(), statistics, x.call()),
                       "attention: weights [2, 2, 3, 4] must be contiguous", std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::attention_backward({}, good_weights, y, statistics, x.call()),
                       "attention: dy [2, 2, 3, 4] is not [2, 2, 3, 5]", std::invalid_argument);
}
