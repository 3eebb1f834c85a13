// Rows by number: values, repeated ids, layouts, instruction sets and threads.
#include "attune/lib/kernels/embedding.h"

#include "kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

Tensor vectors_of(const ConstView& table, const ConstView& ids) {
  Shape shape = ids.shape();
  shape.append(table.shape().last());
  Tensor y(shape, table.dtype());
  kernels::embedding(y, table, ids);
  return y;
}

Tensor gradient_of(const Shape& table, const ConstView& dy, const ConstView& ids) {
  Tensor result = full(table, 3, dy.dtype());  // to be overwritten
  kernels::embedding_backward(result, dy, ids);
  return result;
}

}  // namespace

TEST_CASE("embedding: rows by number, and their gradients, for every width") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index width = 1; width <= 70; ++width) {
      const Tensor table = random({9, width}, dtype, 1), ids = random({4, 5}, i32, 2, 0, 9);
      const Tensor dy = random({4, 5, width}, dtype, 3), y = vectors_of(table, ids);
      std::vector<double> expected, gradient(static_cast<std::size_t>(9 * width), 0.0);
      for (Index i = 0; i < 4; ++i)
        for (Index j = 0; j < 5; ++j)
          for (Index c = 0; c < width; ++c) {
            const auto id = static_cast<Index>(ids.at({i, j}));
            expected.push_back(table.at({id, c}));
            gradient[static_cast<std::size_t>(id * width + c)] += dy.at({i, j, c});
          }
      check_close(y, expected, 0);
      check_close(gradient_of({9, width}, dy, ids), gradient, tolerance(dtype), tolerance(dtype));
    }
}

TEST_CASE("embedding: repeated ids add up, and ids that do not come get 0") {
  const Tensor dy = tensor({{1, 2}, {3, 4}, {5, 6}, {7, 8}}), ids = tensor({1, 1, 2, 1}, i32);
  CHECK(values(gradient_of({4, 2}, dy, ids)) == std::vector<double>{0, 0, 11, 14, 5, 6, 0, 0});
  Tensor gradient = ones({4, 2});
  kernels::embedding_backward(Out(gradient.view(), true), dy, ids);
  CHECK(values(gradient) == std::vector<double>{1, 1, 12, 15, 6, 7, 1, 1});
  Tensor y = ones({4, 2});
  kernels::embedding(Out(y.view(), true), gradient, ids);
  CHECK(values(y) == std::vector<double>{13, 16, 13, 16, 7, 8, 13, 16});
}

TEST_CASE("embedding: the same bits on every row, and in every layout") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index width : {1, 17, 64, 200}) {
      const Tensor table = random({6, width}, dtype, 4), ids = random({7, 90}, i32, 5, 0, 6);
      const Tensor dy = random({7, 90, width}, dtype, 6);
      const Tensor expected = on_every_row([&] {
        const Tensor y = vectors_of(table, ids), gradient = gradient_of({6, width}, dy, ids);
        return joined({&y, &gradient});
      });
      for (int layout = 0; layout < kLayouts; ++layout) {
        const int other = (layout + 1) % kLayouts;
        const Arranged y = arrange(dy, layout), gradient = arrange(table, layout),
                       numbers = arrange(ids, layout);
        kernels::embedding(y.view, arrange(table, other).view, numbers.view);
        kernels::embedding_backward(gradient.view, arrange(dy, other).view, numbers.view);
        const Tensor dense_y = Tensor::copy_of(y.view), dense_gradient = Tensor::copy_of(gradient.view);
        INFO(y.name);
        CHECK(same_bits(joined({&dense_y, &dense_gradient}), expected));
      }
    }
}

TEST_CASE("embedding: no ids") {
  const Tensor empty({0}, i32);
  CHECK(vectors_of(ones({4, 2}), empty).shape() == Shape{0, 2});
  CHECK(values(gradient_of({4, 2}, Tensor({0, 2}), empty)) == std::vector<double>(8, 0.0));
  CHECK(values(vectors_of(tensor({{1, 2}, {3, 4}}), tensor(1, i32))) == std::vector<double>{3, 4});
}

TEST_CASE("embedding: what is refused, before anything is written") {
  const Tensor table({4, 3});
  Tensor ids({2, 5}, i32), y = ones({2, 5, 3}), gradient = ones({4, 3}), y64({2, 5, 3}, f64), flat({10, 3});
  const auto refused = [](const char* message, auto&& call) {
    CHECK_THROWS_WITH_AS(call(), message, std::invalid_argument);
  };
  ids.set({0, 3}, 9);
  refused("embedding: id 9 at [0, 3] is outside of a table of 4 rows",
          [&] { kernels::embedding(y, table, ids); });
  refused("embedding_backward: id 9 at [0, 3] is outside of a table of 4 rows",
          [&] { kernels::embedding_backward(gradient, y, ids); });
  for (double id : {4.0, -1.0, -2147483648.0}) {
    ids.set({0, 3}, id);
    CHECK_THROWS_AS(kernels::embedding(y, table, ids), std::invalid_argument);
    CHECK_THROWS_AS(kernels::embedding_backward(gradient, y, ids), std::invalid_argument);
  }
  CHECK(values(y) == std::vector<double>(30, 1.0));
  CHECK(values(gradient) == std::vector<double>(12, 1.0));
  ids.set({0, 3}, 0);
  refused("embedding: a table of i32 has no arithmetic", [&] {
    kernels::embedding(y, Tensor({4, 3}, i32), ids);
  });
  refused("embedding: element types f64 and f32 differ", [&] { kernels::embedding(y64, table, ids); });
  refused("embedding: ids are of f32, not i32", [&] { kernels::embedding(y, table, Tensor({2, 5})); });
  refused("embedding: a table of [4] has no rows and columns",
          [&] { kernels::embedding(y, Tensor({4}), ids); });
  refused("embedding: ids of [2, 5] and a table of [4, 3] make [2, 5, 3], not [10, 3]",
          [&] { kernels::embedding(flat, table, ids); });
}
