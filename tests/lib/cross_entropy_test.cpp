// Cross-entropy against its definition in long double, over layouts, instruction sets and threads.
#include "attune/lib/kernels/cross_entropy.h"

#include "kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

struct Loss {
  Tensor loss, statistics;
};

// Two numbers for each row.
Shape statistics_of(Shape logits) {
  logits[logits.rank() - 1] = 2;
  return logits;
}

Loss loss_of(const ConstView& logits, const ConstView& targets, Index ignored = -100) {
  Loss result{Tensor(Shape{}, logits.dtype()), Tensor(statistics_of(logits.shape()), logits.dtype())};
  kernels::cross_entropy(result.loss, result.statistics, logits, targets, {.ignored = ignored});
  return result;
}

Tensor gradient_of(const ConstView& dloss, const Loss& forward, const ConstView& logits,
                   const ConstView& targets, Index ignored = -100) {
  Tensor result(logits.shape(), logits.dtype());
  kernels::cross_entropy_backward(result, dloss, forward.statistics, logits, targets, {.ignored = ignored});
  return result;
}

// The definition; dloss is 1.
struct Reference {
  double loss = 0;
  std::vector<double> statistics, gradient;

  Reference(const std::vector<double>& logits, const std::vector<double>& targets, double ignored = -100)
      : gradient(logits.size(), 0.0) {
    const std::size_t classes = logits.size() / targets.size();
    long double total = 0, counted = 0;
    for (double target : targets) counted += target != ignored;
    for (std::size_t row = 0; row < targets.size(); ++row) {
      const double* x = logits.data() + row * classes;
      long double most = x[0], sum = 0;
      for (std::size_t j = 0; j < classes; ++j) most = std::max<long double>(most, x[j]);
      for (std::size_t j = 0; j < classes; ++j) sum += std::exp(x[j] - most);
      statistics.push_back(static_cast<double>(most));
      statistics.push_back(static_cast<double>(1 / sum));
      if (targets[row] == ignored) continue;
      const auto target = static_cast<std::size_t>(targets[row]);
      total += (most - x[target]) + std::log(sum);
      for (std::size_t j = 0; j < classes; ++j)
        gradient[row * classes + j] =
            static_cast<double>((std::exp(x[j] - most) / sum - (j == target)) / counted);
    }
    if (counted > 0) loss = static_cast<double>(total / counted);
  }
};

Tensor targets_for(const Shape& shape, Index classes, std::uint64_t seed, bool ignore_some = true) {
  Tensor result = random(shape, i32, seed, 0, static_cast<double>(classes));
  if (ignore_some)
    for (std::size_t i = 2; i < result.data<std::int32_t>().size(); i += 5)
      result.data<std::int32_t>()[i] = -100;
  return result;
}

}  // namespace

TEST_CASE("cross_entropy: the definition, for every number of classes") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index classes = 1; classes <= 70; ++classes) {
      const Tensor logits = random({11, classes}, dtype, 1, -5, 5), targets = targets_for({11}, classes, 2);
      const Loss forward = loss_of(logits, targets);
      const Reference expected(values(logits), values(targets));
      check_close(forward.loss, {expected.loss}, tolerance(dtype), dtype == f32 ? 1e-7 : 0);
      check_close(forward.statistics, expected.statistics, tolerance(dtype));
      check_close(gradient_of(full({}, 1, dtype), forward, logits, targets), expected.gradient,
                  10 * tolerance(dtype), 0.01 * tolerance(dtype));
    }
}

TEST_CASE("cross_entropy: the same bits on every row, and in every layout") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index classes : {1, 17, 65, 1030}) {
      const Shape shape{3, 50, classes};
      const Tensor logits = random(shape, dtype, 3, -6, 6), targets = targets_for({3, 50}, classes, 4);
      const Tensor dloss = random({}, dtype, 5);
      const Tensor expected = on_every_row([&] {
        const Loss forward = loss_of(logits, targets);
        const Tensor gradient = gradient_of(dloss, forward, logits, targets);
        return joined({&forward.loss, &forward.statistics, &gradient});
      });
      for (int layout = 0; layout < kLayouts; ++layout) {
        const int other = (layout + 1) % kLayouts;
        Tensor loss(Shape{}, dtype);
        const Arranged statistics = arrange(Tensor({3, 50, 2}, dtype), layout),
                       dlogits = arrange(Tensor(shape, dtype), layout);
        const Arranged x = arrange(logits, other), ids = arrange(targets, other);
        kernels::cross_entropy(loss, statistics.view, x.view, ids.view);
        kernels::cross_entropy_backward(dlogits.view, dloss, statistics.view, x.view, ids.view);
        const Tensor dense_statistics = Tensor::copy_of(statistics.view),
                     dense_gradient = Tensor::copy_of(dlogits.view);
        INFO(x.name);
        CHECK(same_bits(joined({&loss, &dense_statistics, &dense_gradient}), expected));
      }
    }
}

TEST_CASE("cross_entropy: huge logits, and -inf for what cannot be") {
  const Tensor nasty =
      tensor({{1e4, -1e4, 9999.5}, {-1e300, 1e300, 0}, {3, 3, 3}, {-1e4, -1e4, -10001}}, f64);
  const Tensor targets = tensor({2, 1, 0, 2}, i32);
  const Loss forward = loss_of(nasty, targets);
  const Reference expected(values(nasty), values(targets));
  check_close(forward.loss, {expected.loss}, 1e-12);
  check_close(gradient_of(ones({}, f64), forward, nasty, targets), expected.gradient, 1e-11);

  const Tensor masked = tensor({{-kInf, 0, 0}});
  const Loss two = loss_of(masked, tensor({1}, i32));
  CHECK(two.loss.item() == doctest::Approx(std::log(2.0)));
  CHECK(values(gradient_of(ones({}), two, masked, tensor({1}, i32))) == std::vector<double>{0, -0.5, 0.5});
  CHECK(loss_of(masked, tensor({0}, i32)).loss.item() == kInf);
}

TEST_CASE("cross_entropy: ignored targets take no part, not even a NaN of theirs") {
  const Tensor logits = tensor({{1, 2, 3}, {kNan, 0, 0}, {3, 1, 0}}), targets = tensor({2, 7, 0}, i32);
  const Loss forward = loss_of(logits, targets, 7);
  const Tensor kept = tensor({{1, 2, 3}, {3, 1, 0}});
  CHECK(forward.loss.item() == loss_of(kept, tensor({2, 0}, i32)).loss.item());
  const Tensor gradient = gradient_of(ones({}), forward, logits, targets, 7);
  CHECK(values(gradient.view().select(0, 1)) == std::vector<double>{0, 0, 0});
  CHECK(gradient.at({0, 0}) > 0);

  // An ignored number may be a class.
  CHECK(loss_of(logits, tensor({2, 0, 0}, i32), 0).loss.item() ==
        loss_of(tensor({{1, 2, 3}}), tensor({2}, i32)).loss.item());

  const Tensor none = full({3}, -100, i32);
  const Loss nothing = loss_of(logits, none);
  CHECK(nothing.loss.item() == 0);
  CHECK(values(gradient_of(ones({}), nothing, logits, none)) == std::vector<double>(9, 0.0));
  CHECK(loss_of(Tensor({0, 3}), Tensor({0}, i32)).loss.item() == 0);
}

TEST_CASE("cross_entropy: one NaN in a row makes the loss NaN, wherever it stands") {
  for (Index classes : {1, 7, 16, 17, 33})
    for (Index position = 0; position < classes; ++position) {
      Tensor logits = random({3, classes}, f32, 6);
      logits.set({1, position}, kNan);
      const Loss forward = loss_of(logits, tensor({0, 0, 0}, i32));
      CHECK(std::isnan(forward.loss.item()));
      CHECK(std::isnan(forward.statistics.at({1, 1})));
      CHECK(std::isfinite(forward.statistics.at({2, 1})));
    }
}

TEST_CASE("cross_entropy: a gradient can accumulate, and can replace its logits") {
  const Tensor logits = random({9, 21}, f32, 7), targets = targets_for({9}, 21, 8),
               start = random({9, 21}, f32, 9);
  const Loss forward = loss_of(logits, targets);
  const Tensor fresh = gradient_of(ones({}), forward, logits, targets);
  Tensor expected({9, 21});
  kernels::add(expected, start, fresh);
  for (int layout = 0; layout < kLayouts; ++layout) {
    const Arranged gradient = arrange(start, layout), in_place = arrange(logits, layout);
    kernels::cross_entropy_backward(Out(gradient.view, true), ones({}), forward.statistics, logits, targets);
    CHECK(same_bits(gradient.view, expected));
    kernels::cross_entropy_backward(in_place.view, ones({}), forward.statistics, in_place.view, targets);
    CHECK(same_bits(in_place.view, fresh));
  }
}

TEST_CASE("cross_entropy: every option, against its definition") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index classes : {1, 5, 16, 33})
      for (double smoothing : {0.0, 0.3}) {
        const Tensor logits = random({37, classes}, dtype, 13, -5, 5),
                     targets = targets_for({37}, classes, 14);
        Tensor each({37}, dtype), sum(Shape{}, dtype), mean(Shape{}, dtype), statistics({37, 2}, dtype);
        const auto loss = [&](Tensor& to, Reduction reduction) {
          kernels::cross_entropy(to, statistics, logits, targets,
                                 {.smoothing = smoothing, .reduction = reduction});
        };
        loss(each, Reduction::none);
        loss(sum, Reduction::sum);
        loss(mean, Reduction::mean);
        double total = 0, counted = 0;
        for (Index row = 0; row < 37; ++row) {
          const auto target = static_cast<Index>(targets.at({row}));
          double normaliser = 0, expected = 0;
          for (Index c = 0; c < classes; ++c) normaliser += std::exp(logits.at({row, c}));
          for (Index c = 0; target >= 0 && c < classes; ++c)
            expected += ((1 - smoothing) * (c == target) + smoothing / static_cast<double>(classes)) *
                        (std::log(normaliser) - logits.at({row, c}));
          CHECK(each.at({row}) == doctest::Approx(expected).epsilon(10 * tolerance(dtype)));
          total += expected;
          counted += target >= 0;
        }
        CHECK(sum.item() == doctest::Approx(total).epsilon(tolerance(dtype)));
        CHECK(mean.item() == doctest::Approx(total / counted).epsilon(tolerance(dtype)));
      }
}

TEST_CASE("nll: the same bits on every row, and of log-probabilities what cross_entropy is of logits") {
  for (DType dtype : {f32, f64, DType::dual})
    for (Index classes : {1, 17, 65}) {
      const Tensor x = random({50, classes}, dtype, 15, -6, 0), targets = targets_for({50}, classes, 16);
      const Tensor result = on_every_row([&] {
        Tensor loss(Shape{}, dtype), gradient(x.shape(), dtype);
        kernels::nll(loss, x, targets, {.smoothing = 0.2});
        kernels::nll_backward(gradient, loss, x, targets, {.smoothing = 0.2});
        return joined({&loss, &gradient});
      });
      CHECK(std::isfinite(result.at({0})));
    }
}

TEST_CASE("cross_entropy: forward and reverse derivatives agree") {
  const Tensor logits = random({70, 23}, DType::dual, 10, -3, 3), targets = targets_for({70}, 23, 11);
  const Tensor dloss = random({}, DType::dual, 12), logits64 = values_of(logits), one = ones({}, f64);
  const Loss forward = loss_of(logits, targets), forward64 = loss_of(logits64, targets);
  const Tensor gradient64 = gradient_of(one, forward64, logits64, targets);
  CHECK(tangents(forward.loss)[0] == doctest::Approx(dot(gradient64, tangents_of(logits))).epsilon(1e-12));

  const double h = 1e-6;
  Tensor sides[2];
  for (int side = 0; side < 2; ++side) {
    const double step = side == 0 ? h : -h;
    Tensor moved = values_of(logits), moved_dloss = values_of(dloss);
    for (std::size_t i = 0; i < moved.data<double>().size(); ++i)
      moved.data<double>()[i] += step * tangents(logits)[i];
    moved_dloss.data<double>()[0] += step * tangents(dloss)[0];
    sides[side] = gradient_of(moved_dloss, loss_of(moved, targets), moved, targets);
  }
  std::vector<double> difference;
  for (std::size_t i = 0; i < values(sides[0]).size(); ++i)
    difference.push_back((sides[0].data<double>()[i] - sides[1].data<double>()[i]) / (2 * h));
  check_close(tangents_of(gradient_of(dloss, forward, logits, targets)), difference, 1e-6, 1e-8);
}

TEST_CASE("cross_entropy: what is refused, before anything is written") {
  const Tensor logits({3, 2, 5});
  Tensor targets({3, 2}, i32), loss = full({}, 42), statistics = full({3, 2, 2}, 42), loss64(Shape{}, f64),
                               vector({1}), matrix({3, 2});
  const auto refused = [](const char* message, auto&& call) {
    CHECK_THROWS_WITH_AS(call(), message, std::invalid_argument);
  };
  targets.set({2, 0}, 7);
  refused("cross_entropy: target 7 at [2, 0] is outside of 0 to 4 (5 classes)",
          [&] { kernels::cross_entropy(loss, statistics, logits, targets); });
  refused("cross_entropy_backward: target 7 at [2, 0] is outside of 0 to 4 (5 classes)", [&] {
    Tensor dlogits(logits.shape());
    kernels::cross_entropy_backward(dlogits, loss, statistics, logits, targets);
  });
  CHECK(loss.item() == 42);
  CHECK(values(statistics) == std::vector<double>(12, 42.0));
  targets.set({2, 0}, -1);
  refused("cross_entropy: target -1 at [2, 0] is outside of 0 to 4 (5 classes)",
          [&] { kernels::cross_entropy(loss, statistics, logits, targets); });
  targets.set({2, 0}, 0);
  refused("cross_entropy: logits of i32 have no arithmetic",
          [&] { kernels::cross_entropy(loss, statistics, targets, targets); });
  refused("cross_entropy: logits of [] have no classes",
          [&] { kernels::cross_entropy(loss, statistics, loss, targets); });
  refused("cross_entropy: logits of [3, 2, 0] have no classes", [&] {
    kernels::cross_entropy(loss, statistics, Tensor({3, 2, 0}), targets);
  });
  refused("cross_entropy: targets are of f32, not i32",
          [&] { kernels::cross_entropy(loss, statistics, logits, matrix); });
  refused("cross_entropy: targets of [3] do not fit logits of [3, 2, 5]",
          [&] { kernels::cross_entropy(loss, statistics, logits, Tensor({3}, i32)); });
  refused("cross_entropy: statistics of [1] do not fit logits of [3, 2, 5]",
          [&] { kernels::cross_entropy(loss, vector, logits, targets); });
  refused("cross_entropy: a loss of [1] is not a scalar",
          [&] { kernels::cross_entropy(vector, statistics, logits, targets); });
  refused("cross_entropy: element types f32 and f64 differ",
          [&] { kernels::cross_entropy(loss64, statistics, logits, targets); });
  refused("cross_entropy: the loss and the statistics cannot accumulate",
          [&] { kernels::cross_entropy(Out(loss.view(), true), statistics, logits, targets); });
  refused("cross_entropy_backward: shapes [3, 2] and [3, 2, 5] differ",
          [&] { kernels::cross_entropy_backward(matrix, loss, statistics, logits, targets); });
  refused("cross_entropy: a loss of [] is not one for each row of [3, 2, 5]",
          [&] { kernels::cross_entropy(loss, statistics, logits, targets, {.reduction = Reduction::none}); });
  refused("cross_entropy: a smoothing of -1 is outside of 0 to 1",
          [&] { kernels::cross_entropy(loss, statistics, logits, targets, {.smoothing = -1}); });
  refused("nll: log-probabilities of i32 have no arithmetic", [&] { kernels::nll(loss, targets, targets); });
  refused("nll: the loss cannot accumulate", [&] { kernels::nll(Out(loss.view(), true), logits, targets); });
}
