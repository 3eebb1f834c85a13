// What the tape costs: nanoseconds for each op, forward and backward, in a long chain on one element, every check on.
//
//   tape_bench [ops]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "attune/attune.h"

using namespace attune;

namespace {

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// The chain y = op(y), `ops` long, recorded and differentiated.
template <class Op>
double nanoseconds_per_op(int ops, Op op) {
  const Tensor start = tensor(1e-3);
  std::vector<double> times;
  for (int repeat = 0; repeat < 51; ++repeat) {
    const auto before = std::chrono::steady_clock::now();
    Tape tape;
    const Var x = variable(start);
    Var y = x;
    for (int i = 0; i < ops; ++i) y = op(y, x);
    tape.backward(y);
    times.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - before).count() / ops);
  }
  return median(times);
}

}  // namespace

int main(int argc, char** argv) {
  const int ops = argc > 1 ? std::atoi(argv[1]) : 1000;
  fmt::print("a chain of {} ops on one element, forward and backward, medians of 51, {}\n\n", ops, row());
  fmt::print("  op      ns/op\n");
  fmt::print("  add    {:6.1f}\n", nanoseconds_per_op(ops, [](Var y, Var x) { return y + x; }));
  fmt::print("  mul    {:6.1f}\n", nanoseconds_per_op(ops, [](Var y, Var x) { return y * x; }));
  fmt::print("  exp    {:6.1f}\n", nanoseconds_per_op(ops, [](Var y, Var) { return exp(y); }));
  fmt::print("  slice  {:6.1f}\n", nanoseconds_per_op(ops, [](Var y, Var) { return reshape(y, {}); }));
  fmt::print("  tanh   {:6.1f}\n", nanoseconds_per_op(ops, [](Var y, Var) { return tanh(y); }));
  fmt::print("  sigmoid{:6.1f}\n", nanoseconds_per_op(ops, [](Var y, Var) { return sigmoid(y); }));
  fmt::print("  silu   {:6.1f}\n", nanoseconds_per_op(ops, [](Var y, Var) { return silu(y); }));
  fmt::print("  relu   {:6.1f}\n", nanoseconds_per_op(ops, [](Var y, Var) { return relu(y); }));
  fmt::print("  max    {:6.1f}\n", nanoseconds_per_op(ops, [](Var y, Var x) { return maximum(y, x); }));
  fmt::print("  empty  {:6.1f}  (a tape with one variable and one op)\n",
             nanoseconds_per_op(1, [](Var y, Var) { return reshape(y, {}) * 1.0; }));
}
