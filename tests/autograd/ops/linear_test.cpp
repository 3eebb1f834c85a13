// linear: y = x W + b as one op.
#include "attune/autograd/ops/linear.h"

#include "../../lib/kernel_check.h"
#include "../../support/op_check.h"
#include "attune/autograd/ops/add.h"

using namespace attune;
using namespace attune::check_ops;

namespace {

Plain reference(const Plain& x, const Plain& weight, const Plain& bias) {
  const Index in = weight.shape[0], out = weight.shape[1];
  Shape shape = x.shape;
  shape[shape.rank() - 1] = out;
  Plain y(shape);
  for (Index row = 0; out > 0 && row < shape.count() / out; ++row)
    for (Index j = 0; j < out; ++j) {
      double sum = 0;
      for (Index k = 0; k < in; ++k) sum += x.numbers[static_cast<std::size_t>(row * in + k)] * weight(k, j);
      y.numbers[static_cast<std::size_t>(row * out + j)] = sum + bias(j);
    }
  return y;
}

Inputs sizes(const Shape& x, Index out) { return {real(x), real({x.last(), out}), real({out})}; }

}  // namespace

TEST_CASE("linear") {
  check_op(
      {.name = "linear",
       .f = [](Var x, Var weight, Var bias) { return linear(x, weight, bias); },
       .reference = reference,
       .inputs = {sizes({3, 4}, 5), sizes({7}, 3), sizes({2, 3, 17}, 9), sizes({5, 5}, 5), sizes({2, 0}, 3),
                  sizes({0, 3}, 2), sizes({1, 1}, 1), sizes({2, 2, 3, 16}, 33), sizes({65, 400}, 50)},
       .f32_bound = 1e-6,  // of products with 400 terms
       .errors = {{[] {
                     linear(zeros({2, 5}), zeros({4, 3}), zeros({3}));
                   },
                   "linear: [2, 5] x [4, 3]: inner sizes 5 and 4 differ"},
                  {[] {
                     linear(zeros({}), zeros({4, 3}), zeros({3}));
                   },
                   "linear: [] x [4, 3]: x has an axis or more, and a weight is [in, out]"},
                  {[] {
                     linear(zeros({2, 4}), zeros({4}), zeros({3}));
                   },
                   "linear: [2, 4] x [4]: x has an axis or more, and a weight is [in, out]"},
                  {[] {
                     linear(zeros({2, 4}), zeros({4, 3}), zeros({4}));
                   },
                   "linear: a bias of [4] does not fit a weight of [4, 3]"}}});
}

TEST_CASE("linear: for up to 384 inputs it is a product and a sum, to the bit") {
  for (Index in : {1, 36, 384}) {
    const Tensor x = check_kernels::random({50, in}, f32, 1),
                 weight = check_kernels::random({in, 33}, f32, 2), bias = check_kernels::random({33}, f32, 3);
    const NoGrad scope;
    const Var fused = linear(x, weight, bias), product = matmul(x, weight), sum = product + bias;
    CHECK(check_kernels::same_bits(fused.value(), sum.value()));
  }
}
