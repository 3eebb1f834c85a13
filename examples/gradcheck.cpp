// A gradient that is wrong by a tenth of a percent, found; and what a careless check would have said of it.
//
//   gradcheck
//
// The op is a softmax whose rule is a thousandth too steep, hidden behind two right ones. Three things fool those who
// check by hand: differences with one fixed step, f32, and an upstream gradient of all ones.
#include <cmath>

#include "attune/attune.h"

using namespace attune;

namespace {

// softmax with dx = 1.001 p (dy - <p, dy>).
Var steep_softmax(Var x) {
  Var y = output(x.shape(), {x});
  kernels::softmax(into(y), x.value());
  return record("steep_softmax", y, [=] {
    if (Out d = add_to(x)) {
      Tensor steeper(y.shape(), y.dtype());
      kernels::scale(steeper, y.grad(), 1.001);
      kernels::softmax_backward(d, steeper, y.value());
    }
  });
}

// d sum(y) / dx[0], forward by one step of h.
template <class F>
double difference(F f, const Tensor& at, double h) {
  const NoGrad scope;
  Tensor moved = at.clone();
  moved.set({0}, at.at({0}) + h);
  return (sum(f(moved)).item() - sum(f(at)).item()) / h;
}

template <class F>
double reverse(F f, const Tensor& at) {
  Tape tape;
  const Var x = variable(at);
  tape.backward(sum(f(x)));
  return x.grad().at({0});
}

}  // namespace

int main() {
  Tensor x = tensor({0.3, -1.2, 0.8, 2.1}, f64);
  const auto right = [](Var v) { return softmax(exp(v) * v); };
  const auto wrong = [](Var v) { return steep_softmax(exp(v) * v); };

  fmt::print("softmax(exp(x) x):\n{}\n", gradcheck(right, x).text());
  fmt::print("The same with a softmax rule that is 0.1 % too steep:\n{}\n", gradcheck(wrong, x).text());

  fmt::print("What sum(y) says of it: the weights of a softmax sum to 1, whatever x is, and there is nothing to see.\n");
  fmt::print("  reverse {:.1e}, difference {:.1e}\n\n", reverse(wrong, x), difference(wrong, x, 1e-5));

  const auto cubes = [](Var v) { return v * v * v; };
  const double exact = reverse(cubes, x);
  fmt::print("One fixed step: the digits of d x³ / dx = {:.4f} that (f(x + h) - f(x)) / h gets right, by h:\n", exact);
  for (const DType dtype : {f64, f32}) {
    fmt::print("  {}  ", dtype);
    for (int power = 1; power <= 12; ++power) {
      const double error = std::abs(difference(cubes, x.to(dtype), std::pow(10.0, -power)) / exact - 1);
      fmt::print(" {:4.1f}", error > 0 ? std::max(0.0, -std::log10(error)) : 15.9);
    }
    fmt::print("\n");
  }
  fmt::print("   h   ");
  for (int power = 1; power <= 12; ++power) fmt::print(" {:>4}", fmt::format("e-{}", power));
  fmt::print("\ngradcheck, which uses four points: {:.1f} digits.\n", -std::log10(gradcheck(cubes, x).error()));
}
