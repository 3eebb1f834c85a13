// compare: a == b, a < b and their like, as conditions.
#include "attune/autograd/ops/compare.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

TEST_CASE("compare: every comparison, of numbers that are often equal") {
  const auto inputs = [] {
    std::vector<Inputs> result = odd_sizes(2);
    for (Inputs& both : result) both[0] = both[1];
    return result;
  }();
  check_op({.name = "equal",
            .f = [](Var a, Var b) { return equal(a, b); },
            .reference = elementwise([](double a, double b) { return a == b; }),
            .inputs = inputs,
            .broadcasts = true,
            .differentiable = false,
            .any_dtype = true,
            .points = {{{1, 2}, 1.0 == 2.0, {0, 0}}, {{2, 2}, 2.0 == 2.0}, {{3, 2}, 3.0 == 2.0}, {{kNan, kNan}, 0}, {{0, -0.0}, 0.0 == -0.0}},
            .errors = {{[] { equal(zeros({2}), zeros({2}, f64)); }, "equal: element types f32 and f64 differ"},
                       {[] { equal(zeros({2}), zeros({3})); },
                        "equal: [2] and [3] do not broadcast: sizes 2 and 3 differ"}}});
  check_op({.name = "equal, with a number",
            .f = [](Var x) { return equal(x, 0.5); },
            .reference = elementwise([](double x) { return x == 0.5; }),
            .inputs = {{real({3, 5})}},
            .differentiable = false,
            .any_dtype = true,
            .points = {{{0.5}, 0.5 == 0.5, {0}}, {{kNan}, 0}}});
  check_op({.name = "less",
            .f = [](Var a, Var b) { return less(a, b); },
            .reference = elementwise([](double a, double b) { return a < b; }),
            .inputs = inputs,
            .broadcasts = true,
            .differentiable = false,
            .any_dtype = true,
            .points = {{{1, 2}, 1.0 < 2.0, {0, 0}}, {{2, 2}, 2.0 < 2.0}, {{3, 2}, 3.0 < 2.0}, {{kNan, kNan}, 0}, {{0, -0.0}, 0.0 < -0.0}},
            .errors = {{[] { less(zeros({2}), zeros({2}, f64)); }, "less: element types f32 and f64 differ"},
                       {[] { less(zeros({2}), zeros({3})); },
                        "less: [2] and [3] do not broadcast: sizes 2 and 3 differ"}}});
  check_op({.name = "less, with a number",
            .f = [](Var x) { return less(x, 0.5); },
            .reference = elementwise([](double x) { return x < 0.5; }),
            .inputs = {{real({3, 5})}},
            .differentiable = false,
            .any_dtype = true,
            .points = {{{0.5}, 0.5 < 0.5, {0}}, {{kNan}, 0}}});
  check_op({.name = "less_equal",
            .f = [](Var a, Var b) { return less_equal(a, b); },
            .reference = elementwise([](double a, double b) { return a <= b; }),
            .inputs = inputs,
            .broadcasts = true,
            .differentiable = false,
            .any_dtype = true,
            .points = {{{1, 2}, 1.0 <= 2.0, {0, 0}}, {{2, 2}, 2.0 <= 2.0}, {{3, 2}, 3.0 <= 2.0}, {{kNan, kNan}, 0}, {{0, -0.0}, 0.0 <= -0.0}},
            .errors = {{[] { less_equal(zeros({2}), zeros({2}, f64)); }, "less_equal: element types f32 and f64 differ"},
                       {[] { less_equal(zeros({2}), zeros({3})); },
                        "less_equal: [2] and [3] do not broadcast: sizes 2 and 3 differ"}}});
  check_op({.name = "less_equal, with a number",
            .f = [](Var x) { return less_equal(x, 0.5); },
            .reference = elementwise([](double x) { return x <= 0.5; }),
            .inputs = {{real({3, 5})}},
            .differentiable = false,
            .any_dtype = true,
            .points = {{{0.5}, 0.5 <= 0.5, {0}}, {{kNan}, 0}}});
  check_op({.name = "greater",
            .f = [](Var a, Var b) { return greater(a, b); },
            .reference = elementwise([](double a, double b) { return a > b; }),
            .inputs = inputs,
            .broadcasts = true,
            .differentiable = false,
            .any_dtype = true,
            .points = {{{1, 2}, 1.0 > 2.0, {0, 0}}, {{2, 2}, 2.0 > 2.0}, {{3, 2}, 3.0 > 2.0}, {{kNan, kNan}, 0}, {{0, -0.0}, 0.0 > -0.0}},
            .errors = {{[] { greater(zeros({2}), zeros({2}, f64)); }, "greater: element types f32 and f64 differ"},
                       {[] { greater(zeros({2}), zeros({3})); },
                        "greater: [2] and [3] do not broadcast: sizes 2 and 3 differ"}}});
  check_op({.name = "greater, with a number",
            .f = [](Var x) { return greater(x, 0.5); },
            .reference = elementwise([](double x) { return x > 0.5; }),
            .inputs = {{real({3, 5})}},
            .differentiable = false,
            .any_dtype = true,
            .points = {{{0.5}, 0.5 > 0.5, {0}}, {{kNan}, 0}}});
  check_op({.name = "greater_equal",
            .f = [](Var a, Var b) { return greater_equal(a, b); },
            .reference = elementwise([](double a, double b) { return a >= b; }),
            .inputs = inputs,
            .broadcasts = true,
            .differentiable = false,
            .any_dtype = true,
            .points = {{{1, 2}, 1.0 >= 2.0, {0, 0}}, {{2, 2}, 2.0 >= 2.0}, {{3, 2}, 3.0 >= 2.0}, {{kNan, kNan}, 0}, {{0, -0.0}, 0.0 >= -0.0}},
            .errors = {{[] { greater_equal(zeros({2}), zeros({2}, f64)); }, "greater_equal: element types f32 and f64 differ"},
                       {[] { greater_equal(zeros({2}), zeros({3})); },
                        "greater_equal: [2] and [3] do not broadcast: sizes 2 and 3 differ"}}});
  check_op({.name = "greater_equal, with a number",
            .f = [](Var x) { return greater_equal(x, 0.5); },
            .reference = elementwise([](double x) { return x >= 0.5; }),
            .inputs = {{real({3, 5})}},
            .differentiable = false,
            .any_dtype = true,
            .points = {{{0.5}, 0.5 >= 0.5, {0}}, {{kNan}, 0}}});
}

TEST_CASE("compare: a number is rounded to f32 beside f32, and kept beside i32") {
  const Tensor tenth = tensor({0.1}), ids = tensor({0, 1}, i32);
  const NoGrad scope;
  CHECK(equal(tenth, 0.1).value().at({0}) == 1);
  CHECK(Plain(greater(ids, 0.5).value()).numbers == std::vector<double>{0, 1});
  CHECK(Plain(less(ids, 1e300).value()).numbers == std::vector<double>{1, 1});
}
