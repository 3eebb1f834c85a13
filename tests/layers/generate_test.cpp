// Sampling and generation; B77.
#include "attune/layers/generate.h"

#include <algorithm>

#include "../lib/kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

std::int32_t drawn(const Tensor& logits, const SampleOptions& options, std::uint64_t seed = 1) {
  Rng rng(seed);
  return sample(logits, options, rng);
}

// How often each token is drawn in 20000.
std::vector<double> shares(const Tensor& logits, const SampleOptions& options) {
  std::vector<double> shares(static_cast<std::size_t>(logits.count()), 0.0);
  Rng rng(5);
  for (int i = 0; i < 20000; ++i) shares[static_cast<std::size_t>(sample(logits, options, rng))] += 1 / 20000.0;
  return shares;
}

Gpt small_model() {
  return Gpt({.vocab = 7, .context = 6, .layers = 2, .heads = 2, .width = 16, .deviation = 0.5}, Rng(1));
}

}  // namespace

TEST_CASE("B77: at temperature 0 the largest wins, and the first of equals") {
  const Tensor logits = tensor({1, 3, 2});
  CHECK(drawn(logits, {.temperature = 0}, 1) == 1);
  CHECK(drawn(logits, {.temperature = 0}, 2) == 1);
  CHECK(drawn(tensor({2, 2, 1}), {.temperature = 0}) == 0);
  for (std::uint64_t seed = 0; seed < 50; ++seed) CHECK(drawn(logits, {.temperature = 1e-6}, seed) == 1);
  Rng rng(1);
  sample(logits, {.temperature = 0}, rng);
  CHECK(rng.position() == 0);
}

TEST_CASE("B77: top_k of 1, of more than there are, and off") {
  const Tensor logits = tensor({1, 3, 2});
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CHECK(drawn(logits, {.top_k = 1}, seed) == 1);
    CHECK(drawn(logits, {.top_k = 10}, seed) == drawn(logits, {}, seed));
    CHECK(drawn(logits, {.top_k = 0}, seed) == drawn(logits, {}, seed));
  }
}

TEST_CASE("sample: tokens come as often as softmax says") {
  const Tensor logits = tensor({1, 3, 2, -kInf});
  const double sum = std::exp(-2.0) + 1 + std::exp(-1.0);
  const std::vector<double> plain = shares(logits, {});
  CHECK(plain[0] == doctest::Approx(std::exp(-2.0) / sum).epsilon(0.05));
  CHECK(plain[1] == doctest::Approx(1 / sum).epsilon(0.05));
  CHECK(plain[3] == 0);
  const std::vector<double> hot = shares(logits, {.temperature = 2});
  CHECK(hot[1] / hot[0] == doctest::Approx(std::exp(1.0)).epsilon(0.05));
  const std::vector<double> two = shares(logits, {.top_k = 2});
  CHECK(two[0] == 0);
  CHECK(two[1] / two[2] == doctest::Approx(std::exp(1.0)).epsilon(0.05));
}

TEST_CASE("sample: top_p keeps the fewest that reach it") {
  const Tensor logits = tensor({std::log(0.5), std::log(0.3), std::log(0.2)}, f64);
  CHECK(shares(logits, {.top_p = 0.4})[0] == doctest::Approx(1));
  CHECK(shares(logits, {.top_p = 0.7})[2] == 0);
  CHECK(shares(logits, {.top_p = 0.7})[1] == doctest::Approx(0.375).epsilon(0.05));
  CHECK(shares(logits, {.top_p = 0.9})[2] == doctest::Approx(0.2).epsilon(0.05));
}

TEST_CASE("B77: what is refused") {
  CHECK_THROWS_WITH_AS(drawn(tensor({1, kNan}), {}), "sample: logit 1 is NaN", std::invalid_argument);
  CHECK_THROWS_WITH_AS(drawn(tensor({1, kNan}), {.temperature = 0}), "sample: logit 1 is NaN", std::invalid_argument);
  CHECK_THROWS_WITH_AS(drawn(tensor({-kInf, -kInf}), {}), "sample: all 2 logits are -inf", std::invalid_argument);
  CHECK_THROWS_WITH_AS(drawn(tensor({kInf, 1}), {}), "sample: a logit is inf", std::invalid_argument);
  CHECK_THROWS_WITH_AS(drawn(tensor({1, 2}), {.temperature = -1}),
                       "sample: a temperature of -1 is not a finite number of at least 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(drawn(tensor({1, 2}), {.top_k = -1}), "sample: top_k is -1; 0 stands for all",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(drawn(tensor({1, 2}), {.top_p = 0}), "sample: top_p is 0, and lies above 0 and up to 1",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(drawn(tensor({{1, 2}}), {}), "sample: logits of [1, 2] are not [vocabulary]",
                       std::invalid_argument);
}

TEST_CASE("generate: greedy tokens are those of the whole sequence, within the context and beyond it") {
  const Gpt model = small_model();
  const std::int32_t prompt[] = {1, 2};
  Rng rng(1);
  const std::vector<std::int32_t> made = generate(model, prompt, {.tokens = 12, .sampling = {.temperature = 0}}, rng);
  REQUIRE(made.size() == 12);
  std::vector<std::int32_t> all(std::begin(prompt), std::end(prompt));
  for (const std::int32_t token : made) {
    const auto last = std::span(all).last(std::min<std::size_t>(all.size(), 6));
    Tensor ids({1, static_cast<Index>(last.size())}, i32);
    std::copy(last.begin(), last.end(), ids.data<std::int32_t>().begin());
    const NoGrad scope;
    const ConstView logits = model(ids).value().select(0, 0).select(0, -1);
    CHECK(sample(logits, {.temperature = 0}, rng) == token);
    all.push_back(token);
  }
}

TEST_CASE("B77: generate: the same seed says the same, and each token is seen as it comes") {
  const Gpt model = small_model();
  const std::int32_t prompt[] = {3};
  const auto said = [&](std::uint64_t seed, std::vector<std::int32_t>* seen = nullptr) {
    Rng rng(seed);
    GenerateOptions options{.tokens = 20};
    if (seen) options.each = [seen](std::int32_t token) { seen->push_back(token); };
    return generate(model, prompt, options, rng);
  };
  std::vector<std::int32_t> seen;
  CHECK(said(1, &seen) == said(1));
  CHECK(seen == said(1));
  CHECK(said(1) != said(2));
}

TEST_CASE("generate: a stop token ends it and is not said") {
  const Gpt model = small_model();
  const std::int32_t prompt[] = {3};
  Rng first(1), second(1);
  const std::vector<std::int32_t> all = generate(model, prompt, {.tokens = 20}, first);
  const std::int32_t stop = all[7];
  const std::vector<std::int32_t> some = generate(model, prompt, {.tokens = 20, .stop = {stop}}, second);
  CHECK(std::equal(some.begin(), some.end(), all.begin()));
  CHECK(static_cast<std::ptrdiff_t>(some.size()) == std::find(all.begin(), all.end(), stop) - all.begin());
}

TEST_CASE("generate: what is refused") {
  const Gpt model = small_model();
  Rng rng(1);
  CHECK_THROWS_WITH_AS(generate(model, {}, {}, rng), "generate: the prompt is empty", std::invalid_argument);
  const std::int32_t prompt[] = {3};
  CHECK_THROWS_WITH_AS(generate(model, prompt, {.tokens = -1}, rng), "generate: -1 tokens", std::invalid_argument);
}
