// logsumexp and log_softmax against their definitions, over layouts, instruction sets and threads.
#include "attune/lib/kernels/log_softmax.h"

#include "kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

struct Results {
  Tensor sum, statistics, dsum, y, dy;
};

// Both, and their gradients for the upstream ones `up` [...] and `ups` [..., n].
Results results_of(const ConstView& x, const ConstView& up, const ConstView& ups) {
  const Shape rows(std::span(x.shape().begin(), x.shape().end() - 1));
  Shape two_each = rows;
  two_each.append(2);
  Results r{Tensor(rows, x.dtype()), Tensor(two_each, x.dtype()), Tensor(x.shape(), x.dtype()),
            Tensor(x.shape(), x.dtype()), Tensor(x.shape(), x.dtype())};
  kernels::logsumexp(r.sum, r.statistics, x);
  kernels::logsumexp_backward(r.dsum, up, x, r.statistics);
  kernels::log_softmax(r.y, x);
  kernels::log_softmax_backward(r.dy, ups, r.y);
  return r;
}

}  // namespace

TEST_CASE("log_softmax and logsumexp: the definitions, for every width") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index width = 1; width <= 70; ++width) {
      const Tensor x = random({3, width}, dtype, 1, -5, 5), up = random({3}, dtype, 2),
                   ups = random({3, width}, dtype, 3);
      const Results found = results_of(x, up, ups);
      for (Index i = 0; i < 3; ++i) {
        double total = 0, above = 0;
        for (Index j = 0; j < width; ++j) {
          total += std::exp(x.at({i, j}));
          above += ups.at({i, j});
        }
        const auto close = [&](double a, double b) {
          CHECK(std::abs(a - b) <= tolerance(dtype) * (1 + std::abs(b)));
        };
        close(found.sum.at({i}), std::log(total));
        for (Index j = 0; j < width; ++j) {
          const double p = std::exp(x.at({i, j})) / total;
          close(found.dsum.at({i, j}), up.at({i}) * p);
          close(found.y.at({i, j}), x.at({i, j}) - std::log(total));
          close(found.dy.at({i, j}), ups.at({i, j}) - p * above);
        }
      }
    }
}

TEST_CASE("log_softmax and logsumexp: the same bits on every row, and in every layout") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index width : {1, 15, 16, 17, 1025, 2100}) {
      const Tensor x = random({2, 30, width}, dtype, 4, -5, 5), up = random({2, 30}, dtype, 5),
                   ups = random({2, 30, width}, dtype, 6);
      const auto all = [&](const ConstView& from, const ConstView& above, const ConstView& each) {
        const Results r = results_of(from, above, each);
        return joined({&r.sum, &r.statistics, &r.dsum, &r.y, &r.dy});
      };
      const Tensor expected = on_every_row([&] { return all(x, up, ups); });
      for (int layout = 0; layout < kLayouts; ++layout)
        CHECK(same_bits(all(arrange(x, layout).view, arrange(up, layout).view, arrange(ups, layout).view),
                        expected));
    }
}

TEST_CASE("log_softmax and logsumexp: gradients can accumulate, in every layout") {
  const Tensor x = random({4, 37}, f32, 7), up = random({4}, f32, 8), ups = random({4, 37}, f32, 9),
               start = random({4, 37}, f32, 10);
  const Results found = results_of(x, up, ups);
  for (const bool reduces : {true, false}) {
    Tensor expected(x.shape());
    kernels::add(expected, start, reduces ? found.dsum : found.dy);
    for (int layout = 0; layout < kLayouts; ++layout) {
      const Arranged sum = arrange(start, layout);
      if (reduces)
        kernels::logsumexp_backward(Out(sum.view, true), up, x, found.statistics);
      else
        kernels::log_softmax_backward(Out(sum.view, true), ups, found.y);
      CHECK(same_bits(sum.view, expected));
    }
  }
}

TEST_CASE("log_softmax: f32 keeps the digits of huge logits") {
  Tensor far({1, 8}), y({1, 8}), up = ones({1, 8});
  for (Index j = 0; j < 8; ++j) far.set({0, j}, 10000 + 0.25 * static_cast<double>(j));
  Tensor twice({1, 8}, f64);
  kernels::log_softmax(y, far);
  kernels::log_softmax(twice, far.to(f64));
  check_close(y, values(twice), 1e-6);
}

TEST_CASE("log_softmax and logsumexp: nothing to do, and what is refused") {
  Tensor y({2}), matrix({2, 3}), empty({0, 3}), narrow({2, 0}), two({2, 2});
  const auto refused = [](const char* message, auto&& call) {
    CHECK_THROWS_WITH_AS(call(), message, std::invalid_argument);
  };
  kernels::log_softmax(empty, empty);
  kernels::log_softmax(narrow, narrow);
  kernels::logsumexp(y, Out(), narrow);
  CHECK(values(y) == std::vector<double>{-kInf, -kInf});
  refused("logsumexp: [] has no row", [&] { kernels::logsumexp(y, Out(), tensor(1)); });
  refused("logsumexp: [2] are not the rows of [4, 3]", [&] { kernels::logsumexp(y, Out(), Tensor({4, 3})); });
  refused("logsumexp: statistics of [2, 3] in f32 do not fit [2, 3] in f32",
          [&] { kernels::logsumexp(y, matrix, matrix); });
  refused("logsumexp: the result cannot accumulate",
          [&] { kernels::logsumexp(Out(y.view(), true), Out(), matrix); });
  refused("logsumexp_backward: shapes [2, 2] and [2, 3] differ",
          [&] { kernels::logsumexp_backward(two, y, matrix, two); });
  refused("log_softmax: shapes [2, 2] and [2, 3] differ", [&] { kernels::log_softmax(two, matrix); });
  refused("log_softmax_backward: shapes [2, 3] and [2, 2] differ",
          [&] { kernels::log_softmax_backward(two, matrix, two); });
}
