// An op of one's own, outside of the library: define it, check its gradient, and see what a wrong one looks like.
//
//   custom_op
//
// The op is swish (Ramachandran, Zoph & Le 2017), y = x * sigmoid(beta x), with a fixed beta.
#include "attune/attune.h"

using namespace attune;

namespace {

Var swish(Var x, double beta) {
  Var y = output(x.shape(), {x});  // room for the result; backward will read x
  kernels::map_each(into(y), x.value(), [=](auto at) { return at * math::sigmoid(beta * at); });
  return record("swish", y, [=] {  // run by backward: what it captures, by value, is what the op saves
    if (Out d = add_to(x))         // dx += dy * (s + beta x s (1 - s)), s = sigmoid(beta x)
      kernels::map_each(d, y.grad(), x.value(), [=](auto dy, auto at) {
        const auto s = math::sigmoid(beta * at);
        return dy * (s + beta * at * s * (1 - s));
      });
  });
}

// The same, but its author forgot that sigmoid depends on x, too.
Var wrong_swish(Var x, double beta) {
  Var y = output(x.shape(), {x});
  kernels::map_each(into(y), x.value(), [=](auto at) { return at * math::sigmoid(beta * at); });
  return record("wrong_swish", y, [=] {
    if (Out d = add_to(x))
      kernels::map_each(d, y.grad(), x.value(), [=](auto dy, auto at) { return dy * math::sigmoid(beta * at); });
  });
}

}  // namespace

int main() {
  constexpr double beta = 1.5;
  Tensor x = tensor({-3, -1, -0.25, 0, 0.5, 2}, f64);

  {
    Tape tape;
    const Var leaf = variable(x), y = swish(leaf, beta);
    tape.backward(sum(y));
    fmt::print("x       {:.4f}\nswish   {:.4f}\nslope   {:.4f}\n\n", x, Tensor::copy_of(y.value()),
               Tensor::copy_of(leaf.grad()));
  }

  fmt::print("Its gradient against differences:\n{}\n", gradcheck([](Var v) { return swish(v, beta); }, x).text());
  fmt::print("A wrong one:\n{}\n", gradcheck([](Var v) { return wrong_swish(v, beta); }, x).text());

  // The lambdas compute with duals as well: the same op, differentiated forward, gives the same slopes.
  const NoGrad scope;
  Tensor moved = x.to(DType::dual);
  for (dual& number : moved.data<dual>()) number.tangent = 1;
  const Var y = swish(variable(moved), beta);
  fmt::print("Forward:");
  for (Index i = 0; i < x.count(); ++i) fmt::print(" {:.4f}", y.value().as<dual>()[i].tangent);
  fmt::print("\n");
}
