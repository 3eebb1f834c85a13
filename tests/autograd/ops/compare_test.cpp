// compare: a == b, a < b and their like, as conditions.
#include "attune/autograd/ops/compare.h"

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kNan;

namespace {

struct Comparison {
  std::string name;
  Var (*of)(Var, Var);
  Var (*with_number)(Var, double);
  double (*plain)(double, double);
};
const Comparison kComparisons[] = {
    {"equal", equal, equal, [](double a, double b) { return a == b ? 1.0 : 0; }},
    {"less", less, less, [](double a, double b) { return a < b ? 1.0 : 0; }},
    {"less_equal", less_equal, less_equal, [](double a, double b) { return a <= b ? 1.0 : 0; }},
    {"greater", greater, greater, [](double a, double b) { return a > b ? 1.0 : 0; }},
    {"greater_equal", greater_equal, greater_equal, [](double a, double b) { return a >= b ? 1.0 : 0; }},
};

}  // namespace

TEST_CASE("compare: every comparison") {
  std::vector<Inputs> inputs = odd_sizes(2);
  inputs.push_back({real({17}, 0.5, 0.5), real({17}, 0.5, 0.5)});  // equal numbers
  inputs.push_back(odd_sizes(2).back());
  for (const Comparison& op : kComparisons) {
    std::vector<Point> points;
    for (double a : {1.0, 2.0, -0.0, 0.0, kNan})
      for (double b : {2.0, 0.0, kNan}) points.push_back({{a, b}, op.plain(a, b), {0, 0}});
    check_op({.name = op.name,
              .f = [&](Var a, Var b) { return op.of(a, b); },
              .reference = elementwise(op.plain),
              .inputs = inputs,
              .broadcasts = true,
              .differentiable = false,
              .any_dtype = true,
              .points = points,
              .errors = {{[&] { op.of(zeros({2}), zeros({2}, f64)); }, op.name + ": element types f32 and f64 differ"},
                         {[&] { op.of(zeros({2}), zeros({3})); },
                          op.name + ": [2] and [3] do not broadcast: sizes 2 and 3 differ"}}});
  }
}

TEST_CASE("compare: with a number") {
  for (const Comparison& op : kComparisons)
    check_op({.name = op.name + ", with a number",
              .f = [&](Var x) { return op.with_number(x, 0.5); },
              .reference = elementwise([&](double x) { return op.plain(x, 0.5); }),
              .inputs = {{real({3, 5})}, {real({17}, 0.5, 0.5)}},
              .differentiable = false,
              .any_dtype = true,
              .points = {{{0.5}, op.plain(0.5, 0.5), {0}}, {{kNan}, 0}}});
}

TEST_CASE("compare: a number is rounded to f32 beside f32, and kept beside i32") {
  const Tensor tenth = tensor({0.1}), ids = tensor({0, 1}, i32);
  const NoGrad scope;
  CHECK(equal(tenth, 0.1).value().at({0}) == 1);
  CHECK(Plain(greater(ids, 0.5).value()).numbers == std::vector<double>{0, 1});
  CHECK(Plain(less(ids, 1e300).value()).numbers == std::vector<double>{1, 1});
}
