// An op from outside of the library: map_each, and what a user's own op gets from it.
#include <cmath>

#include "../lib/kernel_check.h"
#include "../support/op_check.h"
#include "attune/autograd/gradcheck.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf;

namespace {

// max(x, 0)² (So et al. 2021).
Var squared_relu(Var x) {
  Var y = output(x.shape(), {x});
  kernels::map_each(into(y), x.value(), [](auto at) { return at > 0 ? at * at : 0 * at; });
  return record("squared_relu", y, [=] {
    if (Out d = add_to(x))
      kernels::map_each(d, y.grad(), x.value(),
                        [](auto dy, auto at) { return at > 0 ? 2 * dy * at : 0 * dy; });
  });
}

// x sigmoid(beta x), as in examples/custom_op.cpp.
Var swish(Var x, double beta) {
  Var y = output(x.shape(), {x});
  kernels::map_each(into(y), x.value(), [=](auto at) { return at * math::sigmoid(beta * at); });
  return record("swish", y, [=] {
    if (Out d = add_to(x))
      kernels::map_each(d, y.grad(), x.value(), [=](auto dy, auto at) {
        const auto s = math::sigmoid(beta * at);
        return dy * (s + beta * at * s * (1 - s));
      });
  });
}

// a^b of two operands that broadcast.
Var power(Var a, Var b) {
  const Shape shape = broadcast(a.shape(), b.shape(), "power");
  Var y = output(shape, {a, b});
  kernels::map_each(into(y), a.value(), b.value(), [](auto x, auto e) { return math::pow(x, e); });
  return record("power", y, [=] {
    add_to_stretched(a, shape, [=](const Out& d) {
      kernels::map_each(d, y.grad(), a.value(), b.value(),
                        [](auto dy, auto x, auto e) { return dy * e * math::pow(x, e - 1); });
    });
    add_to_stretched(b, shape, [=](const Out& d) {
      kernels::map_each(d, y.grad(), y.value(), a.value(),
                        [](auto dy, auto z, auto x) { return dy * z * math::log(x); });
    });
  });
}

}  // namespace

TEST_CASE("a user's op passes the check of the library's own") {
  check_op({.name = "squared_relu",
            .f = squared_relu,
            .reference = elementwise([](double x) { return x > 0 ? x * x : 0; }),
            .inputs = odd_sizes(1, 0.25, 4),
            .points = {{{2}, 4, {4}}, {{-3}, 0, {0}}, {{0}, 0, {0}}}});
  check_op({.name = "swish",
            .f = [](Var x) { return swish(x, 1.5); },
            .reference = elementwise([](double x) { return x / (1 + std::exp(-1.5 * x)); }),
            .inputs = odd_sizes(1, -4, 4)});
}

TEST_CASE("a user's op of two operands passes it too") {
  std::vector<Inputs> inputs = odd_sizes(2);
  for (Inputs& both : inputs) both[0] = real(both[0].shape, 0.5, 2);
  check_op({.name = "power",
            .f = power,
            .reference = elementwise([](double x, double e) { return std::pow(x, e); }),
            .inputs = inputs,
            .broadcasts = true});
}

TEST_CASE("a user's op is checked by gradcheck, which finds a wrong one") {
  Tensor x = tensor({-3, -1, -0.25, 0.5, 2}, f64);
  CHECK(gradcheck([](Var v) { return swish(v, 1.5); }, x));
  const auto wrong = [](Var v) {
    Var y = output(v.shape(), {v});
    kernels::map_each(into(y), v.value(), [](auto at) { return at * math::sigmoid(at); });
    return record("wrong", y, [=] {
      if (Out d = add_to(v))
        kernels::map_each(d, y.grad(), v.value(), [](auto dy, auto at) { return dy * math::sigmoid(at); });
    });
  };
  CHECK_FALSE(gradcheck(wrong, x));
}
