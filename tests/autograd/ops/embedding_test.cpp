// embedding: a row of the table for each id; and B59, ids that repeat and ids that do not exist.
#include "attune/autograd/ops/embedding.h"

#include "../../support/op_check.h"
#include "attune/autograd/parameter.h"
#include "attune/lib/threads.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

Plain reference(const Plain& table, const Plain& ids) {
  Shape shape = ids.shape;
  shape.append(table.shape[1]);
  Plain y(shape);
  std::size_t to = 0;
  for (double id : ids.numbers)
    for (Index j = 0; j < table.shape[1]; ++j) y.numbers[to++] = table(static_cast<Index>(id), j);
  return y;
}

}  // namespace

TEST_CASE("embedding") {
  check_op({.name = "embedding",
            .f = [](Var table, Var tokens) { return embedding(table, tokens); },
            .reference = reference,
            .inputs = {{real({5, 3}), ids({2, 4}, 5)},
                       {real({1, 1}), ids({1}, 1)},
                       {real({4, 2}), ids({}, 4)},
                       {real({7, 17}), ids({0}, 7)},
                       {real({3, 0}), ids({4}, 3)},
                       {real({3, 16}), ids({2, 3, 1, 5}, 3)},
                       {real({50, 129}), ids({20, 70}, 50)}},
            .errors = {{[] { embedding(zeros({4}), zeros({2}, i32)); },
                        "embedding: a table is [rows, width], not [4]"},
                       {[] {
                          embedding(zeros({2, 3, 4}), zeros({2}, i32));
                        },
                        "embedding: a table is [rows, width], not [2, 3, 4]"},
                       {[] {
                          embedding(zeros({4, 2}), zeros({2}));
                        },
                        "embedding: ids are i32, not f32"},
                       {[] {
                          embedding(zeros({4, 2}), tensor({0, 4}, i32));
                        },
                        "embedding: id 4 at [1] is outside of a table of 4 rows"},
                       {[] {
                          embedding(zeros({4, 2}), tensor({{0, 1}, {-1, 0}}, i32));
                        },
                        "embedding: id -1 at [1, 0] is outside of a table of 4 rows"},
                       {[] {
                          embedding(zeros({0, 2}), tensor({0}, i32));
                        },
                        "embedding: id 0 at [0] is outside of a table of 0 rows"},
                       {[] {
                          embedding(zeros({4, 2}), zeros({1, 1, 1, 1, 1, 1}, i32));
                        },
                        "embedding: a row for each of [1, 1, 1, 1, 1, 1] makes rank 7, above the limit of 6"}}});
}

TEST_CASE("embedding: B59, ids that repeat add up") {
  const Tensor numbers({4, 2}), tokens = tensor({1, 1, 2, 1}, i32),
                                seed = tensor({{1, 2}, {3, 4}, {5, 6}, {7, 8}});
  Tape tape;
  const Var table = variable(numbers);
  tape.backward(embedding(table, tokens), seed);
  CHECK(Plain(table.grad()).numbers == std::vector<double>{0, 0, 11, 14, 5, 6, 0, 0});
}

TEST_CASE("embedding: B59, no ids, no rows, and a gradient of zeros") {
  const Tensor numbers = ones({4, 2}), none({0}, i32), seed({0, 2});
  Tape tape;
  const Var table = variable(numbers), y = embedding(table, none);
  CHECK(y.shape() == Shape{0, 2});
  tape.backward(y, seed);
  CHECK(Plain(table.grad()).numbers == std::vector<double>(8, 0));
}

TEST_CASE("embedding: B59, an id that does not exist leaves everything as it was") {
  Parameter table(ones({4, 2}));
  const Tensor good = tensor({0, 3}, i32), bad = tensor({0, 4}, i32);
  Tape tape;
  const Var y = embedding(table, good);
  CHECK_THROWS_WITH_AS(embedding(table, bad), "embedding: id 4 at [1] is outside of a table of 4 rows",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(embedding(table, tensor({-1}, i32)), "embedding: id -1 at [0] is outside of a table of 4 rows",
                       std::invalid_argument);
  CHECK(Plain(y.value()).numbers == std::vector<double>(4, 1));
  tape.backward(y, ones({2, 2}));
  CHECK(Plain(table.grad()).numbers == std::vector<double>{1, 1, 0, 0, 0, 0, 1, 1});
}

TEST_CASE("embedding: B59, many repeats give the same sums on 4 threads as on 1") {
  const int before = threads();
  Tensor tokens({20000}, i32), seed({20000, 33});
  for (std::size_t i = 0; i < 20000; ++i)
    tokens.data<std::int32_t>()[i] = static_cast<std::int32_t>(i * i % 7);
  for (std::size_t i = 0; i < 20000 * 33; ++i)
    seed.data<float>()[i] = 0.1f * static_cast<float>(i % 11) - 0.3f;
  std::vector<double> sums[2];
  for (int run = 0; run < 2; ++run) {
    set_threads(run == 0 ? 1 : 4);
    const Tensor numbers({7, 33});
    Tape tape;
    const Var table = variable(numbers);
    tape.backward(embedding(table, tokens), seed);
    sums[run] = Plain(table.grad()).numbers;
  }
  set_threads(before);
  CHECK(sums[0] == sums[1]);
}
