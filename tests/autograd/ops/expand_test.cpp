// expand: sizes of 1, and missing leading axes, repeated.
#include "attune/autograd/ops/expand.h"

#include "../../support/op_check.h"
#include "attune/autograd/ops/add.h"
#include "attune/autograd/ops/slice.h"
#include "attune/autograd/ops/sum.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

// Adding zeros of the full shape repeats what expand repeats.
Plain repeated(const Plain& x, const Shape& shape) {
  const Reference add = elementwise([](double a, double b) { return a + b; });
  return add(std::vector<Plain>{x, Plain(shape)});
}

}  // namespace

TEST_CASE("expand") {
  const auto check_to = [](const std::string& name, const Shape& to, const std::vector<Inputs>& inputs) {
    check_op({.name = name,
              .f = [=](Var x) { return expand(x, to); },
              .reference = [=](const Plain& x) { return repeated(x, to); },
              .inputs = inputs,
              .any_dtype = true,
              .saves = Saves::nothing,
              .errors = {{[] { expand(zeros({2}), {3}); }, "expand: [2] does not stretch to [3]"},
                         {[] {
                            expand(zeros({2, 3}), {3});
                          },
                          "expand: [2, 3] does not stretch to [3]"},
                         {[] {
                            expand(zeros({2, 1}), {2, 3, 4});
                          },
                          "expand: [2, 1] does not stretch to [2, 3, 4]"},
                         {[] {
                            expand(zeros({2, 1}), {-1, 3});
                          },
                          "expand: a size of -1 is negative"}}});
  };
  check_to("expand", {2, 3, 4},
           {{real({2, 3, 4})},
            {real({1, 3, 4})},
            {real({2, 1, 4})},
            {real({2, 3, 1})},
            {real({1, 1, 4})},
            {real({1, 3, 1})},
            {real({2, 1, 1})},
            {real({1, 1, 1})},
            {real({3, 4})},
            {real({3, 1})},
            {real({4})},
            {real({1})},
            {real({})}});
  check_to("expand, to nothing", {0, 3}, {{real({1, 3})}, {real({3})}, {real({0, 3})}, {real({})}});
  check_to("expand, large", {70, 33, 130}, {{real({33, 1})}, {real({70, 1, 130})}, {real({130})}});
}

TEST_CASE("expand: is the same memory; its gradient is summed, and so is that of a part of it") {
  const Tensor numbers = tensor({{1}, {2}}, f64);
  Tape tape;
  const Var x = variable(numbers), wide = expand(x, {2, 5});
  CHECK(wide.value().data() == x.value().data());
  const Var part = slice(wide, 1, 1, 4), whole = sum(wide);
  tape.backward(whole + sum(part));
  CHECK(Plain(x.grad()).numbers == std::vector<double>{8, 8});
}
