// Shares of what a model says rightly.
#include "attune/layers/score.h"

#include "../lib/kernel_check.h"
#include "attune/layers/tasks.h"
#include "attune/layers/gpt.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

// Logits that are 1 at the classes given, and 0 elsewhere.
Tensor saying(std::initializer_list<Index> classes, const Shape& shape) {
  Tensor logits(shape);
  Index at = 0;
  for (const Index one : classes) logits.view().reshape({-1, shape.last()}).as<float>()[at++ * shape.last() + one] = 1;
  return logits;
}

}  // namespace

TEST_CASE("score: tokens, and sequences all of whose asked tokens are right") {
  const Tensor targets = tensor({{0, 1, -100}, {2, 2, 2}, {-100, -100, -100}, {-100, 0, 0}}, i32);
  const Score score = score_of(saying({0, 1, 2, 2, 2, 1, 0, 0, 0, 1, 0, 0}, {4, 3, 3}), targets);
  CHECK(score.sequences == 3);  // of one, nothing is asked
  CHECK(score.right_sequences == 2);
  CHECK(score.tokens == 7);
  CHECK(score.right_tokens == 6);
  CHECK(score.exact_match() == doctest::Approx(2.0 / 3));
  CHECK(score.token_accuracy() == doctest::Approx(6.0 / 7));
}

TEST_CASE("B47: score: where nothing is asked, shares are 0") {
  const Score score = score_of(zeros({2, 3}), full({2}, -100, i32));
  CHECK(score.exact_match() == 0);
  CHECK(score.token_accuracy() == 0);
}

TEST_CASE("score: of a classifier, the share of labels") {
  const auto always_one = [](Var inputs) { return Var(saying({1, 1, 1}, {inputs.size(0), 2})); };
  const Batch batch{zeros({3, 5}, i32), tensor({1, 0, 1}, i32)};
  CHECK(score(always_one, batch).token_accuracy() == doctest::Approx(2.0 / 3));
}

TEST_CASE("score: of equal logits the first counts, and a NaN is wrong wherever it stands") {
  const auto right = [](const Tensor& logits, double target) {
    return score_of(logits, tensor({target}, i32)).right_tokens == 1;
  };
  CHECK(right(tensor({{1, 1, 0}}), 0));
  CHECK_FALSE(right(tensor({{1, 1, 0}}), 1));
  CHECK(right(tensor({{-kInf, 0, -1}}, f64), 1));
  CHECK_FALSE(right(tensor({{kNan, 0, 1}}), 2));
  CHECK_FALSE(right(tensor({{0, 1, kNan}}), 1));
  CHECK_FALSE(right(tensor({{kNan, kNan, kNan}}), 0));
  CHECK(right(tensor({{5}}), 0));
}

TEST_CASE("score: views, an ignored class of one's own, and what is refused") {
  const Tensor logits = tensor({{0, 1}, {1, 0}}), targets = tensor({0, 1}, i32);
  CHECK(score_of(logits.view().t(), targets).right_tokens == 0);
  CHECK(score_of(logits, targets, 0).tokens == 1);
  CHECK_THROWS_WITH_AS(score_of(logits, tensor({0, 2}, i32)), "score: target 2 is outside of 2 classes",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(score_of(logits, tensor({0}, i32)), "score: logits [2, 2] and targets [1] do not fit",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(score_of(logits, tensor({0, 1})), "score: targets are i32, not f32", std::invalid_argument);
  CHECK_THROWS_WITH_AS(score_of(targets, targets), "score: logits are f32 or f64, not i32", std::invalid_argument);
}

TEST_CASE("score: a model's, the same however many sequences go at once") {
  const SortTask task({.symbols = 3, .length = 2});
  const Gpt model({.vocab = task.vocab(), .context = task.context(), .layers = 1, .heads = 1, .width = 8}, Rng(1));
  const Batch batch = task.held_out(30);
  const Score whole = score(model, batch);
  CHECK(whole.sequences == 30);
  CHECK(whole.tokens == 60);
  for (const Index at_once : {1, 7, 30}) {
    const Score parts = score(model, batch, at_once);
    CHECK(parts.right_sequences == whole.right_sequences);
    CHECK(parts.right_tokens == whole.right_tokens);
  }
  CHECK_THROWS_WITH_AS(score(model, batch, 0), "score: 0 sequences at once are not at least 1", std::invalid_argument);
  // A model that knows the answers.
  const auto oracle = [&](const Tensor& inputs) {
    Tensor logits({inputs.size(0), inputs.size(1), task.vocab()});
    for (Index i = 0; i < inputs.size(0); ++i) {
      const double a = inputs.at({i, 0}), b = inputs.at({i, 1});
      logits.set({i, 2, static_cast<Index>(std::min(a, b))}, 1);
      logits.set({i, 3, static_cast<Index>(std::max(a, b))}, 1);
    }
    return Var(std::move(logits));
  };
  CHECK(score(oracle, batch).exact_match() == 1);
}
