// dropout: in training some elements are 0 and the others grow.
#include "attune/autograd/ops/dropout.h"

#include <limits>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using check_kernels::same_bits;

namespace {

constexpr double kShare = 0.4;
kernels::DropoutMask fixed_mask() { return kernels::dropout_mask(Rng(11), kShare); }

Plain dropped_reference(const Plain& x) {
  Tensor factors(x.shape, f64);
  kernels::dropout_factors(factors.view(), fixed_mask());
  Plain y = x;
  for (std::size_t i = 0; i < y.numbers.size(); ++i) y.numbers[i] *= factors.data<double>()[i];
  return y;
}

// y and dx of a dropout under the upstream gradient of ones.
struct Dropped {
  Tensor y, gradient;
};
Dropped run(const Tensor& x, double p, Rng random) {
  Tape tape({.random = &random});
  const Var leaf = variable(x);
  const Var y = dropout(leaf, p);
  tape.backward(y, ones(x.shape(), x.dtype()));
  return {Tensor::copy_of(y.value()), Tensor::copy_of(leaf.grad())};
}

}  // namespace

TEST_CASE("dropout") {
  check_op({.name = "dropout",
            .f = [](Var x) { return dropout(x, fixed_mask()); },
            .reference = dropped_reference,
            .inputs = odd_sizes(1),
            .saves = Saves::nothing,
            .errors = {{[] { dropout(zeros({2}), -0.1); }, "dropout: a share of -0.1 is not between 0 and 1"},
                       {[] { dropout(zeros({2}), 1.5); }, "dropout: a share of 1.5 is not between 0 and 1"},
                       {[] { dropout(zeros({2}), std::numeric_limits<double>::quiet_NaN()); },
                        "dropout: a share of nan is not between 0 and 1"},
                       {[] { dropout(zeros({2}), 0.5); },
                        "dropout: it needs random numbers, Tape tape({.random = &rng})"}}});
}

TEST_CASE("B18: outside of training, and for p = 0, dropout is the identity") {
  const Tensor x = check_kernels::random({100}, f32, 1);
  Rng random(1);
  {
    const NoGrad scope;
    CHECK(same_bits(dropout(x, 0.5).value(), x));
    CHECK(same_bits(dropout(x, 0.5).value(), x));
  }
  {
    const Tape tape({.training = false, .random = &random});
    CHECK(same_bits(dropout(x, 0.5).value(), x));
  }
  const Tape tape({.random = &random});
  CHECK(same_bits(dropout(x, 0).value(), x));
  CHECK(random == Rng(1));  // nothing was drawn
}

TEST_CASE("B18: p = 1 leaves zeros, and a gradient of zeros") {
  const Tensor x = check_kernels::random({1000}, f32, 1);
  const Dropped all = run(x, 1, Rng(1));
  CHECK(check_kernels::values(all.y) == std::vector<double>(1000, 0));
  CHECK(check_kernels::values(all.gradient) == std::vector<double>(1000, 0));
}

TEST_CASE("B18: the gradient knows what was dropped, even of zeros") {
  const Dropped half = run(zeros({10000}), 0.5, Rng(1));
  double sum = 0;
  for (double g : check_kernels::values(half.gradient)) {
    CHECK((g == 0 || g == 2));
    sum += g;
  }
  CHECK(sum / 10000 == doctest::Approx(1).epsilon(0.05));
}

TEST_CASE("B18: the gradient is y / x wherever x is not 0") {
  const Tensor x = check_kernels::random({1000}, f64, 1, 0.5, 2);
  const Dropped half = run(x, 0.5, Rng(1));
  const std::vector<double> at = check_kernels::values(x), y = check_kernels::values(half.y),
                            dx = check_kernels::values(half.gradient);
  for (std::size_t i = 0; i < at.size(); ++i) CHECK(dx[i] == y[i] / at[i]);  // factors 0 and 2 round nothing
}

TEST_CASE("B18: one seed, one mask; and each dropout of a tape has its own") {
  const Tensor x = ones({1000});
  CHECK(same_bits(run(x, 0.5, Rng(1)).y, run(x, 0.5, Rng(1)).y));
  CHECK_FALSE(same_bits(run(x, 0.5, Rng(1)).y, run(x, 0.5, Rng(2)).y));
  Rng random(1);
  const Tape tape({.random = &random});
  const Var first = dropout(x, 0.5);
  const Var second = dropout(x, 0.5);
  CHECK_FALSE(same_bits(first.value(), second.value()));
  CHECK(random.position() == 2);
}
