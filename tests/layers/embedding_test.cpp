// Embedding: a row of the table for each id.
#include "attune/layers/embedding.h"

#include "../lib/kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

Embedding make_embedding(const EmbeddingOptions& options) {
  Rng rng(1);
  return Embedding(options, rng);
}

}  // namespace

TEST_CASE("embedding: each id has its row") {
  Embedding layer = make_embedding({.tokens = 4, .width = 2});
  kernels::copy(layer.weight.mutable_value(), tensor({{0, 1}, {10, 11}, {20, 21}, {30, 31}}));
  const NoGrad scope;
  const ConstView y = layer(tensor({{3, 0, 3}, {1, 2, 2}}, i32)).value();
  CHECK(y.shape() == Shape{2, 3, 2});
  CHECK(values(y) == std::vector<double>{30, 31, 0, 1, 30, 31, 10, 11, 20, 21, 20, 21});
}

TEST_CASE("embedding: a row's gradient is the sum over its uses, and zero where it has none") {
  Embedding layer = make_embedding({.tokens = 3, .width = 2});
  Tape tape;
  const Var y = layer(tensor({2, 0, 2}, i32));
  tape.backward(y, tensor({{1, 2}, {10, 20}, {100, 200}}));
  CHECK(values(layer.weight.grad()) == std::vector<double>{10, 20, 0, 0, 101, 202});
}

TEST_CASE("embedding: its vectors begin with deviation 1, or the one given") {
  for (const double deviation : {1.0, 0.02}) {
    const Embedding layer = make_embedding({.tokens = 300, .width = 200, .init = Init::normal(deviation)});
    CHECK(layer.weight.shape() == Shape{300, 200});
    const double squares = kernels::squared_norm(layer.weight.value());
    CHECK(std::sqrt(squares / 60000) == doctest::Approx(deviation).epsilon(0.01));
  }
}

TEST_CASE("embedding: an id outside of the table is an error, before anything is read") {
  const Embedding layer = make_embedding({.tokens = 3, .width = 2});
  const NoGrad scope;
  CHECK_THROWS_AS(layer(tensor({0, 3}, i32)), std::invalid_argument);
  CHECK_THROWS_AS(layer(tensor({-1, 0}, i32)), std::invalid_argument);
  CHECK_THROWS_WITH_AS(layer(tensor({0, 1})), "embedding: ids are i32, not f32", std::invalid_argument);
}
