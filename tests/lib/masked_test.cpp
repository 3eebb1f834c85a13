// The parts of attention's composed form.
#include "attune/lib/kernels/masked.h"

#include "attune/lib/kernels/gemm.h"
#include "kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

using Doubles = std::vector<double>;

}  // namespace

TEST_CASE("masked scores: the bias is added, and what is hidden is -inf, NaN or not") {
  const Tensor q({1, 2, 1}), k({1, 3, 1}), x = tensor({{{1, 2, kNan}, {4, kNan, 6}}});
  const Tensor bias = tensor({{10, 20, 30}}), allow = tensor({{1, 1, 0}, {1, 0, 1}}, i32);
  Tensor y({1, 2, 3});
  const Index lengths[] = {3};
  kernels::masked_scores(
      y, x, {.q = q, .k = k, .v = k, .bias = bias, .mask = {.last = 1, .lengths = lengths, .allow = allow}});
  CHECK(values(y) == Doubles{11, 22, -kInf, 14, -kInf, 36});
}

TEST_CASE("masked scores: a sink has a column of its own, and none where a row sees nothing") {
  const Tensor q({1, 2, 1}), k({1, 2, 1}), x = tensor({{{1, 2}, {3, 4}}}), sinks = tensor({7});
  Tensor y({1, 2, 3});
  kernels::masked_scores(y, x, {.q = q, .k = k, .v = k, .sinks = sinks, .mask = {.last = -1}});
  CHECK(values(y) == Doubles{-kInf, -kInf, -kInf, 3, -kInf, 7});
}

TEST_CASE("where seen: a copy with zeros where scores are -inf") {
  const Tensor scores = tensor({{0, -kInf}, {-kInf, kNan}}), x = tensor({{1, kNan}, {kInf, 4}});
  Tensor y({2, 2});
  kernels::where_seen(y, x, scores);
  CHECK(values(y) == Doubles{1, 0, 0, 4});
  kernels::where_seen(Out(y.view(), true), x, scores);
  CHECK(values(y) == Doubles{2, 0, 0, 8});
  CHECK_THROWS_WITH_AS(kernels::where_seen(y, x, tensor({1, 2})), "where_seen: shapes [2, 2], [2, 2] and [2] differ",
                       std::invalid_argument);
}

TEST_CASE("multiply where seen: gemm's bits where all is seen, and nothing of what is not") {
  for (const DType dtype : {f32, f64, DType::dual}) {
    const Tensor a = random({2, 3, 40}, dtype, 1), b = random({2, 40, 7}, dtype, 2);
    Tensor expected({2, 3, 7}, dtype), y({2, 3, 7}, dtype), scores = zeros({2, 3, 40}, dtype);
    kernels::gemm(expected, a, b, 0.5);
    kernels::multiply_where_seen(y, a, b, 0.5, scores, kernels::Unseen::minus_infinity);
    CHECK(same_bits(y, expected));
    Tensor poisoned = b.clone(), without = a.clone();
    for (Index i = 0; i < 2; ++i)
      for (Index r = 0; r < 3; ++r) {
        scores.set({i, r, 8}, -kInf);
        without.set({i, r, 8}, 0);
      }
    for (Index c = 0; c < 7; ++c) poisoned.set({0, 8, c}, kNan);
    kernels::multiply_where_seen(y, a, poisoned, 0.5, scores, kernels::Unseen::minus_infinity);
    kernels::gemm(expected, without, b, 0.5);
    check_close(y, values(expected), 0);
    kernels::multiply_where_seen(y, without, poisoned, 0.5, without, kernels::Unseen::zero);
    check_close(y, values(expected), 0);
  }
}

TEST_CASE("log sum exp: of rows, -inf where there is nothing") {
  const Tensor x = tensor({{0, 0, -kInf}, {-kInf, -kInf, -kInf}, {1000, 1000, 1000}}, f64);
  Tensor y({3}, f64);
  kernels::log_sum_exp(y, x);
  check_close(y, {std::log(2.0), -kInf, 1000 + std::log(3.0)}, 1e-15);
  CHECK_THROWS_WITH_AS(kernels::log_sum_exp(Tensor({2}, f64).view(), x),
                       "log_sum_exp: [2] does not hold a number for each row of [3, 3]", std::invalid_argument);
}

TEST_CASE("all finite: whether an element is infinite or NaN, through any strides") {
  Tensor x = random({3, 4, 5}, f32, 1);
  CHECK(kernels::all_finite(x));
  CHECK(kernels::all_finite(Tensor({3, 0})));
  x.set({1, 2, 3}, kNan);
  CHECK_FALSE(kernels::all_finite(x));
  CHECK_FALSE(kernels::all_finite(x.view().permute({2, 0, 1})));
  CHECK(kernels::all_finite(x.view().slice(1, 3, 4)));
  x.set({1, 2, 3}, -kInf);
  CHECK_FALSE(kernels::all_finite(x));
}
