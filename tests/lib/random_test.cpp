#include "attune/lib/random.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "attune/lib/kernels/rows.h"
#include "attune/lib/tensor.h"
#include "attune/lib/threads.h"

using namespace attune;

namespace {

// FNV-1a over the bits of a tensor.
template <class T>
std::uint64_t hash_of(const Tensor& numbers) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : std::as_bytes(numbers.data<T>()))
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  return hash;
}

Tensor normals(Index count, std::uint64_t seed, std::uint64_t stream = 0, DType dtype = f64) {
  Tensor result(Shape{count}, dtype);
  Rng rng(seed, stream);
  fill_normal(result, rng);
  return result;
}

Tensor uniforms(Index count, std::uint64_t seed, DType dtype = f64) {
  Tensor result(Shape{count}, dtype);
  Rng rng(seed);
  fill_uniform(result, rng);
  return result;
}

double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// The largest distance between the numbers' distribution and `expected` (Kolmogorov and Smirnov), times
// sqrt(n): above 1.95 once in a thousand.
template <class F>
double distance(const Tensor& numbers, F&& expected) {
  std::vector<double> sorted(numbers.data<double>().begin(), numbers.data<double>().end());
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  double largest = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double below = static_cast<double>(i) / n, f = expected(sorted[i]);
    largest = std::max({largest, f - below, below + 1 / n - f});
  }
  return largest * std::sqrt(n);
}

double moment(const Tensor& numbers, int power) {
  double sum = 0;
  for (double x : numbers.data<double>()) sum += std::pow(x, power);
  return sum / static_cast<double>(numbers.count());
}

}  // namespace

TEST_CASE("philox gives the known answers of the paper's authors") {
  CHECK(philox({{0, 0, 0, 0}}, {{0, 0}}) == PhiloxCounter{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  constexpr std::uint32_t ones = 0xffffffff;
  CHECK(philox({{ones, ones, ones, ones}}, {{ones, ones}}) ==
        PhiloxCounter{{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  CHECK(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}}) ==
        PhiloxCounter{{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST_CASE("seed, stream and position are where philox has its key and counter") {
  Rng rng(0xa4093822ull | 0x299f31d0ull << 32, 0x13198a2eull | 0x03707344ull << 32,
          0x243f6a88ull | 0x85a308d3ull << 32);
  CHECK(rng.next() == 0xd16cfe09);
  CHECK(Rng(0).next() == 0x6627e8d5);
  CHECK(Rng(0).uniform() == static_cast<double>(0xe169c58d6627e8d5ull >> 11) / 0x1p53);
}

TEST_CASE("the same bits in every build and on every machine") {
  CHECK(hash_of<double>(uniforms(1000, 42)) == 0x8f5b1229cf8656a6);
  CHECK(hash_of<float>(uniforms(1000, 42, f32)) == 0x212d95e414184480);
  CHECK(hash_of<double>(normals(1000, 42)) == 0xc5b17c282384840c);
  CHECK(hash_of<float>(normals(1000, 42, 0, f32)) == 0x10387ff1ecc8f765);
}

TEST_CASE("each draw takes one position, and the state is three numbers") {
  Rng rng(7, 3);
  CHECK(rng.seed() == 7);
  CHECK(rng.stream() == 3);
  CHECK(rng.position() == 0);
  rng.next(), rng.uniform(), rng.normal(), rng.below(10);
  CHECK(rng.position() == 4);

  Rng restored(rng.seed(), rng.stream(), rng.position());
  CHECK(restored == rng);
  CHECK(restored.normal() == rng.normal());

  Rng skipped(7, 3);
  skipped.skip(5);
  CHECK(skipped == rng);
}

TEST_CASE("filling draws what drawing one by one does") {
  Rng filling(5, 6, 100), drawing(5, 6, 100);
  Tensor numbers(Shape{3, 50}, f64);
  fill_normal(numbers, filling, 2, 3);
  for (double x : std::as_const(numbers).data<double>()) CHECK(x == 2 + 3 * drawing.normal());
  fill_uniform(numbers, filling, -1, 4);
  for (double x : std::as_const(numbers).data<double>()) CHECK(x == -1 + 5 * drawing.uniform());
  CHECK(filling == drawing);
}

TEST_CASE("an element's number depends on its place in row-major order alone") {
  const Tensor whole = normals(120, 9);
  Tensor transposed(Shape{10, 12}, f64);  // [12, 10] when seen through t()
  Rng rng(9);
  fill_normal(transposed.view().t(), rng);
  for (Index i = 0; i < 12; ++i)
    for (Index j = 0; j < 10; ++j) CHECK(transposed.at({j, i}) == whole.at({i * 10 + j}));

  Tensor halves(Shape{120}, f64);
  Rng from_start(9);
  fill_normal(halves.view().slice(0, 0, 47), from_start);
  fill_normal(halves.view().slice(0, 47, 120), from_start);
  CHECK(hash_of<double>(halves) == hash_of<double>(whole));

  Tensor gaps = full(Shape{2, 3, 8}, -77, f64);
  Rng again(9);
  fill_normal(gaps.view().slice(2, 1, 8, 3), again);
  CHECK(gaps.at({0, 0, 1}) == whole.at({0}));
  CHECK(gaps.at({1, 2, 7}) == whole.at({17}));
  CHECK(gaps.at({1, 2, 6}) == -77);
  CHECK(again.position() == 18);
}

TEST_CASE("f32 and dual are the f64 numbers, rounded and with tangent 0") {
  const Tensor wide = normals(1000, 1), narrow = normals(1000, 1, 0, f32),
               both = normals(1000, 1, 0, DType::dual);
  for (Index i = 0; i < 1000; ++i) {
    CHECK(narrow.at({i}) == static_cast<double>(static_cast<float>(wide.at({i}))));
    CHECK(both.at({i}) == wide.at({i}));
    CHECK(both.data<dual>()[static_cast<std::size_t>(i)].tangent == 0);
  }
}

TEST_CASE("threads and instruction sets do not change a number") {
  const int threads_before = threads();
  const std::string row_before(row());
  const std::uint64_t expected = hash_of<float>(normals(100'003, 11, 0, f32));
  for (const std::string& name : supported_rows()) {
    set_row(name);
    for (int n : {1, 2, 3}) {
      set_threads(n);
      CHECK(hash_of<float>(normals(100'003, 11, 0, f32)) == expected);
    }
  }
  set_threads(threads_before);
  set_row(row_before);
}

TEST_CASE("uniform numbers are uniform") {
  constexpr Index n = 1'000'000;
  const Tensor numbers = uniforms(n, 2024);
  CHECK(distance(numbers, [](double x) { return x; }) < 1.95);
  CHECK(moment(numbers, 1) == doctest::Approx(0.5).epsilon(0.002));
  const auto [least, most] = std::ranges::minmax(numbers.data<double>());
  CHECK(least >= 0);
  CHECK(least < 1e-5);
  CHECK(most < 1);
  CHECK(most > 1 - 1e-5);
}

TEST_CASE("normal numbers are normal, far from the middle too") {
  constexpr Index n = 1'000'000;
  const Tensor numbers = normals(n, 2025);
  CHECK(distance(numbers, normal_distribution) < 1.95);
  CHECK(std::abs(moment(numbers, 1)) < 4e-3);
  CHECK(std::abs(moment(numbers, 2) - 1) < 6e-3);
  CHECK(std::abs(moment(numbers, 3)) < 0.016);
  CHECK(std::abs(moment(numbers, 4) - 3) < 0.04);
  for (double edge : {3.0, 4.0}) {
    const auto outside = [&](double x) { return std::abs(x) > edge; };
    const double found = static_cast<double>(std::ranges::count_if(numbers.data<double>(), outside));
    const double expected = 2 * normal_distribution(-edge) * static_cast<double>(n);
    CHECK(std::abs(found - expected) < 4 * std::sqrt(expected));
  }
}

TEST_CASE("neighbouring positions, streams and seeds know nothing of one another") {
  constexpr Index n = 200'000;
  const Tensor here = normals(n, 1), stream = normals(n, 1, 1), seed = normals(n, 2);
  const Tensor split = [] {
    Tensor result(Shape{n}, f64);
    Rng rng = Rng(1).split("weights");
    fill_normal(result, rng);
    return result;
  }();
  const auto correlation = [&](std::span<const double> a, std::span<const double> b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0) / static_cast<double>(a.size());
  };
  const auto numbers = here.data<double>();
  for (std::size_t lag : {1u, 2u, 3u, 64u})
    CHECK(std::abs(correlation(numbers.subspan(lag), numbers.first(n - lag))) < 0.01);
  for (const Tensor* other : {&stream, &seed, &split})
    CHECK(std::abs(correlation(numbers, other->data<double>())) < 0.01);
}

TEST_CASE("split makes streams that depend on names alone") {
  Rng rng(42, 7);
  const Rng before = rng.split("dropout");
  rng.normal();
  CHECK(rng.split("dropout") == before);
  CHECK(before.seed() == 42);
  CHECK(before.position() == 0);

  std::set<std::uint64_t> streams{rng.stream()};
  for (std::uint64_t number = 0; number < 1000; ++number) {
    streams.insert(rng.split(number).stream());
    streams.insert(rng.split(number).split(0).stream());
    streams.insert(rng.split(fmt::format("layer {}", number)).stream());
  }
  CHECK(streams.size() == 3001);
  CHECK(Rng(1).split(3).stream() != Rng(2).split(3).stream());
}

TEST_CASE("below is fair, and refuses an empty range") {
  Rng rng(3);
  std::vector<int> counts(7);
  for (int draw = 0; draw < 70'000; ++draw) ++counts[static_cast<std::size_t>(rng.below(7))];
  double chi_square = 0;
  for (int count : counts) chi_square += (count - 10'000.0) * (count - 10'000.0) / 10'000;
  CHECK(chi_square < 22.5);  // six degrees of freedom: once in a thousand
  CHECK(rng.position() == 70'000);

  for (int draw = 0; draw < 100; ++draw) CHECK(rng.below(1) == 0);
  // Just above half of all numbers: nearly every second draw must be thrown away, and no result may leave the
  // range.
  constexpr Index large = (Index{1} << 62) + 1;
  const std::uint64_t before = rng.position();
  double mean = 0;
  for (int draw = 0; draw < 1000; ++draw) {
    const Index drawn = rng.below(large);
    CHECK((drawn >= 0 && drawn < large));
    mean += static_cast<double>(drawn) / static_cast<double>(large) / 1000;
  }
  CHECK(mean == doctest::Approx(0.5).epsilon(0.06));
  CHECK(rng.position() - before > 1200);
  CHECK_THROWS_WITH_AS(rng.below(0), "below: 0 leaves no number to choose", std::invalid_argument);
  CHECK_THROWS_AS(rng.below(-1), std::invalid_argument);
}

TEST_CASE("shuffle gives every order the same chance") {
  std::vector<int> counts(6);
  Rng rng(8);
  for (int round = 0; round < 60'000; ++round) {
    std::vector<Index> items{0, 1, 2};
    shuffle(items, rng);
    ++counts[static_cast<std::size_t>(items[0] * 2 + (items[1] > items[2]))];
  }
  for (int count : counts) CHECK(std::abs(count - 10'000) < 400);

  std::vector<Index> many(1000), sorted(1000);
  std::iota(many.begin(), many.end(), 0);
  sorted = many;
  Rng first(1), second(1);
  std::vector<Index> twin = many;
  shuffle(many, first);
  shuffle(twin, second);
  CHECK(many == twin);
  CHECK(many != sorted);
  CHECK(std::is_permutation(many.begin(), many.end(), sorted.begin()));
  CHECK(first.position() == 999);
  shuffle(std::span<Index>(), first);
  CHECK(first.position() == 999);
  std::vector<Index> known{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  Rng fixed(42);
  shuffle(known, fixed);
  CHECK(known == std::vector<Index>{3, 0, 6, 8, 1, 7, 9, 5, 2, 4});
}

TEST_CASE("filling refuses what it cannot mean") {
  Tensor ids(Shape{3}, i32), numbers(Shape{3});
  Rng rng(1);
  CHECK_THROWS_WITH_AS(fill_normal(ids, rng), "fill_normal: i32 has no fractions", std::invalid_argument);
  CHECK_THROWS_WITH_AS(fill_uniform(ids, rng), "fill_uniform: i32 has no fractions", std::invalid_argument);
  CHECK_THROWS_WITH_AS(fill_normal(numbers, rng, 1, -2), "fill_normal: a mean of 1 with a deviation of -2",
                       std::invalid_argument);
  CHECK_THROWS_AS(fill_normal(numbers, rng, NAN), std::invalid_argument);
  CHECK_THROWS_WITH_AS(fill_uniform(numbers, rng, 2, 1), "fill_uniform: from 2 to 1", std::invalid_argument);
  CHECK_THROWS_AS(fill_uniform(numbers, rng, -1e308, 1e308), std::invalid_argument);
  CHECK(rng.position() == 0);

  fill_normal(numbers, rng, 5, 0);
  CHECK(numbers.at({2}) == 5);
  Tensor none(Shape{0});
  fill_normal(none, rng);
  CHECK(rng.position() == 3);
}
