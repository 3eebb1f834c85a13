// Schedules: tables to compare with, and phases of no length.
#include "attune/layers/schedule.h"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

using namespace attune;

namespace {

// Up, then never up again, never below the least, and never a NaN.
template <class Schedule>
void check_form(const Schedule& schedule, Index warmup, double least) {
  CHECK(schedule(0) > 0);
  for (Index step = 1; step < warmup; ++step) CHECK(schedule(step) > schedule(step - 1));
  for (Index step = warmup + 1; step < 80; ++step) {
    CHECK(schedule(step) <= schedule(step - 1));
    CHECK(schedule(step) >= least);
  }
}

}  // namespace

TEST_CASE("B57: warm-up and cosine: a table to compare with") {
  const WarmupCosine schedule{.lr = 0.1, .min_lr = 0.01, .warmup = 4, .total = 12};
  const double expected[] = {0.025,       0.05,        0.075,       0.1,   0.1,
                             0.096574579, 0.086819805, 0.072220754, 0.055, 0.037779246,
                             0.023180195, 0.013425421, 0.01};
  for (Index step = 0; step <= 12; ++step) CHECK(std::abs(schedule(step) - expected[step]) <= 5e-10);
  for (const Index step : {13, 100, 1000000}) CHECK(schedule(step) == 0.01);
  const WarmupCosine resumed{.lr = 0.1, .min_lr = 0.01, .warmup = 4, .total = 12};
  for (Index step = 7; step <= 12; ++step) CHECK(resumed(step) == schedule(step));
}

TEST_CASE("B57: warm-up and cosine: without a warm-up it starts at the top") {
  const WarmupCosine schedule{.lr = 0.1, .min_lr = 0.01, .warmup = 0, .total = 10};
  CHECK(schedule(0) == doctest::Approx(0.1).epsilon(1e-15));
  CHECK(schedule(5) == doctest::Approx(0.055).epsilon(1e-14));
  CHECK(schedule(10) == 0.01);
}

TEST_CASE("B57: with nothing but a warm-up, a schedule falls to the least at once") {
  const auto falls = [](const auto& schedule) {
    CHECK(schedule(3) == doctest::Approx(0.1).epsilon(1e-15));
    CHECK(schedule(4) == 0.01);
  };
  falls(WarmupCosine{.lr = 0.1, .min_lr = 0.01, .warmup = 4, .total = 4});
  falls(WarmupLinear{.lr = 0.1, .min_lr = 0.01, .warmup = 4, .total = 4});
  falls(WarmupCosine{.lr = 0.1, .min_lr = 0.01, .warmup = 4, .total = 2});  // less than the warm-up
  falls(WarmupLinear{.lr = 0.1, .min_lr = 0.01, .warmup = 4, .total = 2});
}

TEST_CASE("B57: phases of no length, widths of nothing and steps below 0 give no NaN") {
  CHECK(WarmupCosine{.lr = 0.1, .min_lr = 0.01, .warmup = 0, .total = 0}(0) == 0.01);
  CHECK(WarmupLinear{.lr = 0.1, .min_lr = 0.01, .warmup = 0, .total = 0}(0) == 0.01);
  CHECK(WarmupCosine{.lr = 0.1, .warmup = 4, .total = 8}(-5) == 0.025);
  CHECK(InverseSquareRoot{.factor = 1, .width = 4, .warmup = 0}(0) == 0.5);
  CHECK(InverseSquareRoot{.factor = 1, .width = 4, .warmup = 0}(3) == 0.25);
  CHECK(InverseSquareRoot{.factor = 1, .width = 0, .warmup = -1}(0) == 1);
  CHECK(StepDecay{.lr = 0.1, .factor = 0.5, .every = 0}(10) == 0.1);
  CHECK(StepDecay{.lr = 0.1, .factor = 0.5, .every = 10}(-1) == 0.1);
}

TEST_CASE("schedules go up in their warm-up, then down, and stay at their least") {
  check_form(WarmupCosine{.lr = 0.3, .min_lr = 0.02, .warmup = 7, .total = 50}, 7, 0.02);
  check_form(WarmupLinear{.lr = 0.3, .min_lr = 0.02, .warmup = 7, .total = 50}, 7, 0.02);
  check_form(InverseSquareRoot{.factor = 1, .width = 64, .warmup = 7}, 7, 0);
  check_form(StepDecay{.lr = 0.1, .factor = 0.5, .every = 10}, 0, 0);
}

TEST_CASE("warm-up and line: a table to compare with") {
  const WarmupLinear schedule{.lr = 0.1, .min_lr = 0.02, .warmup = 2, .total = 6};
  const double expected[] = {0.05, 0.1, 0.1, 0.08, 0.06, 0.04, 0.02, 0.02};
  for (Index step = 0; step < 8; ++step)
    CHECK(schedule(step) == doctest::Approx(expected[step]).epsilon(1e-14));
}

TEST_CASE("inverse square root: the largest rate is at the end of the warm-up") {
  const InverseSquareRoot schedule{.factor = 2, .width = 64, .warmup = 100};
  CHECK(schedule(0) == doctest::Approx(2 / 8.0 / 1000).epsilon(1e-14));
  CHECK(schedule(99) == doctest::Approx(2 / 8.0 / 10).epsilon(1e-14));
  CHECK(schedule(399) == doctest::Approx(2 / 8.0 / 20).epsilon(1e-14));
}

TEST_CASE("constant, and steps down") {
  CHECK(Constant{.lr = 0.3}(0) == 0.3);
  CHECK(Constant{.lr = 0.3}(1000000) == 0.3);
  const StepDecay schedule{.lr = 1, .factor = 0.5, .every = 10};
  CHECK(schedule(0) == 1);
  CHECK(schedule(9) == 1);
  CHECK(schedule(10) == 0.5);
  CHECK(schedule(39) == 0.125);
  CHECK(schedule(100) == 0x1p-10);
}
