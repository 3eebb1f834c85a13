// Positions: sinusoidal tables, rotary embeddings and ALiBi; B62 and B64.
#include "attune/layers/position.h"

#include "../lib/kernel_check.h"
#include "attune/autograd/gradcheck.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {


Tensor turned(const Rope& rope, const Tensor& x, Index position) {
  const NoGrad scope;
  return Tensor::copy_of(rope(x, std::span(&position, 1)).value());
}

}  // namespace

TEST_CASE("B64: the sinusoidal table, of odd width too, and nothing beyond its end") {
  check_close(sinusoidal_table(3, 5, f64),
              {0, 1, 0, 1, 0, 0.841470985, 0.540302306, 0.025116223, 0.999684538, 0.000630957, 0.909297427, -0.416146837,
               0.050216599, 0.998738351, 0.001261914},
              0, 1e-9);
  const SinusoidalPositions positions(4, 5);
  const NoGrad scope;
  const Var x = zeros({2, 2, 5});
  CHECK(same_bits(positions(x, 1).value().select(0, 1), sinusoidal_table(4, 5).view().slice(0, 1, 3)));
  CHECK_THROWS_WITH_AS(positions(x, 3), "sinusoidal: positions 3 to 4 are not below 4", std::invalid_argument);
  CHECK_THROWS_WITH_AS(positions(zeros({2, 2, 4})), "sinusoidal: [2, 2, 4] is not [..., time, 5]", std::invalid_argument);
  CHECK_THROWS_WITH_AS(sinusoidal_table(2, 0), "sinusoidal: no table of 2 positions and width 0", std::invalid_argument);
}

TEST_CASE("B62: which elements are a pair") {
  const Rope half({.width = 4, .context = 8});
  const Rope interleaved({.width = 4, .context = 8, .pairs = RotaryPairs::interleaved});
  const Tensor x = tensor({{1, 2, 3, 4}}, f64);
  check_close(turned(half, x, 1), {-1.984110649, 1.959900667, 2.462377902, 4.019799668}, 0, 1e-9);
  check_close(turned(interleaved, x, 1), {-1.142639664, 1.922075597, 2.959850668, 4.029799502}, 0, 1e-9);
}

TEST_CASE("B62: a score depends on the distance alone, and a norm on nothing") {
  const Tensor q = tensor({{1, 2, 3, 4}}, f64), k = tensor({{0.5, -1, 2, 1.5}}, f64);
  const auto check_scores = [&](RotaryPairs pairs, double expected) {
    const Rope rope({.width = 4, .context = 8, .pairs = pairs});
    for (const auto& [at, from] : {std::pair<Index, Index>{5, 3}, {12, 10}, {0, -2}})
      CHECK(dot(turned(rope, q, at), turned(rope, k, from)) == doctest::Approx(expected).epsilon(1e-9));
    const Tensor far = turned(rope, q, 1000);
    CHECK(std::sqrt(dot(far, far)) == doctest::Approx(5.477225575).epsilon(1e-9));
  };
  check_scores(RotaryPairs::interleaved, 10.733230148);
  check_scores(RotaryPairs::half_split, 1.888884969);
}

TEST_CASE("rope: prepared positions are those that are given, in every type") {
  const Rope rope({.width = 6, .context = 10, .base = 100});
  const NoGrad scope;
  for (const DType dtype : {f32, f64, DType::dual}) {
    const Tensor x = random({2, 3, 4, 6}, dtype, 1);
    const Index positions[] = {5, 6, 7, 8};
    const Var leaf = variable(x);
    CHECK(same_bits(rope(leaf, 5).value(), rope(leaf, positions).value()));
    CHECK(same_bits(rope(leaf).value().select(2, 0), x.view().select(2, 0)));  // position 0 does not turn
  }
}

TEST_CASE("B62: rope: its gradient turns back") {
  const Rope rope({.width = 4, .context = 8});
  Tensor x = random({2, 3, 4}, f64, 1);
  CHECK(gradcheck([&](Var in) { return rope(in, 2); }, x));
}

TEST_CASE("B62: rope: what is refused") {
  CHECK_THROWS_WITH_AS(Rope({.width = 5, .context = 8}), "rope: a width of 5 does not consist of pairs",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(Rope({.width = 4, .context = 8, .base = 0}), "rope: context 8 and base 0 must be positive",
                       std::invalid_argument);
  const Rope rope({.width = 4, .context = 8});
  const NoGrad scope;
  CHECK_THROWS_WITH_AS(rope(zeros({3, 4}), 6), "rope: positions 6 to 8 are not below 8", std::invalid_argument);
  CHECK_THROWS_WITH_AS(rope(zeros({3, 6})), "rope: [3, 6] is not [..., time, 4]", std::invalid_argument);
  const Index one[] = {1};
  CHECK_THROWS_WITH_AS(rope(zeros({3, 4}), one), "rope: 1 positions for [3, 4]", std::invalid_argument);
}

TEST_CASE("alibi: slopes of a power of two heads, and of others") {
  CHECK(alibi_slopes(1) == std::vector<double>{1.0 / 256});
  const std::vector<double> eight = alibi_slopes(8), six = alibi_slopes(6);
  for (std::size_t h = 0; h < 8; ++h)
    CHECK(eight[h] == doctest::Approx(std::exp2(-static_cast<double>(h + 1))).epsilon(1e-14));
  const std::vector<double> expected = {1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256, 1.0 / 2, 1.0 / 8};
  for (std::size_t h = 0; h < 6; ++h) CHECK(six[h] == doctest::Approx(expected[h]).epsilon(1e-14));
  CHECK_THROWS_WITH_AS(alibi_slopes(0), "alibi: 0 heads", std::invalid_argument);
}

TEST_CASE("alibi: the bias falls with the distance from the query's own place") {
  const Tensor bias = alibi_bias(2, 2, 4, f64);
  CHECK(bias.at({0, 0, 2}) == 0);
  CHECK(bias.at({0, 1, 3}) == 0);
  CHECK(bias.at({0, 1, 0}) == doctest::Approx(-3.0 / 16).epsilon(1e-14));
  CHECK(bias.at({1, 0, 3}) == doctest::Approx(-1.0 / 256).epsilon(1e-14));
}
