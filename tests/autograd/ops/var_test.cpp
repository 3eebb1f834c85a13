// var: the variance over some axes, or over all.
#include "attune/autograd/ops/var.h"

#include "reduced.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

// Two passes in long double.
double variance(const Numbers& x, int correction) {
  long double mean = 0, total = 0;
  for (double number : x) mean += number;
  mean /= static_cast<long double>(x.size());
  for (double number : x) total += (number - mean) * (number - mean);
  return static_cast<double>(total / static_cast<long double>(static_cast<int>(x.size()) - correction));
}

template <int... axes>
void check_axes(const std::string& name) {
  for (int correction : {0, 1})
    for (Axes kind : {Axes::go, Axes::stay})
      check_op({.name = "var, " + name + ", correction " + std::to_string(correction) +
                        (kind == Axes::go ? "" : ", kept"),
                .f = [=](Var x) { return var(x, {axes...}, {.correction = correction, .reduced = kind}); },
                .reference =
                    [=](const Plain& x) {
                      return over_axes(x, {axes...}, kind,
                                       [=](const Numbers& group) { return variance(group, correction); });
                    },
                .inputs = {{real({2, 3, 4})}, {real({2, 17, 33})}, {real({9, 40, 70})}},
                .saves = Saves::nothing});
}

double var_of(const Tensor& x, int correction = 0) {
  const NoGrad scope;
  return var(x, {}, {.correction = correction}).item();
}

}  // namespace

TEST_CASE("var: over sets of axes, of numbers and of samples") {
  check_axes<>("all");
  check_axes<0>("axis 0");
  check_axes<1>("axis 1");
  check_axes<-1>("the last");
  check_axes<2, 0>("axes 2 and 0");
}

TEST_CASE("var: known answers") {
  CHECK(var_of(tensor({1, 2, 3, 4})) == 1.25);
  CHECK(var_of(tensor({1, 2, 3, 4}), 1) == doctest::Approx(5.0 / 3));
  CHECK(var_of(tensor({7})) == 0);
  CHECK(std::isnan(var_of(tensor({1, std::nan("")}))));
}

TEST_CASE("var: B52, a mean far above the deviation") {
  CHECK(var_of(tensor({40000, 40001, 40002, 40003})) == 1.25);
  CHECK(var_of(full({256}, 1234)) == 0);
  Tensor noise({64});
  for (Index i = 0; i < 64; ++i) noise.set({i}, 1e4 + 1.6e-2 * std::sin(static_cast<double>(i * i)));
  CHECK(var_of(noise) == doctest::Approx(var_of(noise.to(f64))).epsilon(1e-6));
}

TEST_CASE("var: what is refused") {
  check_op({.name = "var",
            .f = [](Var x) { return var(x); },
            .reference =
                [](const Plain& x) {
                  return over_axes(x, {}, Axes::go, [](const Numbers& group) { return variance(group, 0); });
                },
            .inputs = {{real({3, 4})}},
            .saves = Saves::nothing,
            .errors = {{[] {
                          var(zeros({2, 1}), 1, {.correction = 1});
                        },
                        "var: [2, 1] with 1 elements for each result, and a correction of 1"},
                       {[] {
                          var(zeros({2, 0}), 1);
                        },
                        "var: [2, 0] with 0 elements for each result, and a correction of 0"},
                       {[] {
                          var(zeros({2, 3}), 1, {.correction = -1});
                        },
                        "var: a correction of -1 is negative"},
                       {[] {
                          var(zeros({2, 3}), 2);
                        },
                        "var: axis 2 does not exist in a tensor of rank 2"}}});
}
