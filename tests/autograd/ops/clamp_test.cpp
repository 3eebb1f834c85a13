// clamp: min(max(x, low), high).
#include "attune/autograd/ops/clamp.h"

#include <cmath>

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"

using namespace attune;
using namespace attune::check_ops;
using attune::check_kernels::kInf, attune::check_kernels::kNan;

TEST_CASE("clamp") {
  check_op({.name = "clamp",
            .f = [](Var x) { return clamp(x, -0.5, 1); },
            .reference = elementwise([](double x) { return std::fmin(std::fmax(x, -0.5), 1); }),
            .inputs = {{real({17}, -0.375, 0.875)},
                       {real({3, 33}, 1.25, 4)},
                       {real({2, 5}, -4, -0.75)},
                       {real({0})},
                       {real({41, 53, 67}, 2, 3)}},
            .points = {{{0.25}, 0.25, {1}},
                       {{2}, 1, {0}},
                       {{-2}, -0.5, {0}},
                       {{1}, 1, {1}},
                       {{-0.5}, -0.5, {1}},
                       {{kInf}, 1, {0}},
                       {{kNan}, kNan}}});
}

TEST_CASE("clamp: bounds that are infinite, equal, or the wrong way round") {
  check_op(
      {.name = "clamp, from below",
       .f = [](Var x) { return clamp(x, 0, kInf); },
       .reference = elementwise([](double x) { return std::fmax(x, 0); }),
       .inputs = {{real({3, 5}, 0.25, 4)}},
       .points = {{{-2}, 0, {0}}, {{kInf}, kInf, {1}}},
       .errors = {
           {[] { clamp(zeros({2}), 2, 1); }, "clamp: the lower bound 2 is above the upper bound 1"},
           {[] { clamp(zeros({2}), kNan, 1); }, "clamp: the lower bound nan is above the upper bound 1"}}});
  const Tensor x = tensor({0.5, 3});
  const NoGrad scope;
  CHECK(Plain(clamp(x, 2, 2).value()).numbers == std::vector<double>{2, 2});
}
