// checkpoint: computed again instead of remembered, with the same bits.
#include "attune/autograd/checkpoint.h"

#include "../lib/kernel_check.h"
#include "attune/autograd/gradcheck.h"
#include "attune/autograd/ops.h"
#include "attune/autograd/parameter.h"
#include "attune/lib/memory.h"

using namespace attune;
using check_kernels::random;
using check_kernels::same_bits;
using check_kernels::values;

namespace {

// Some computation with two parameters and dropout, of several ops.
struct Small {
  Parameter weight{random({4, 4}, f64, 1)}, gain{random({4}, f64, 2)};

  Var operator()(Var x) const {
    const Var mixed = matmul(x, weight);
    const Var dropped = dropout(exp(mixed), 0.3);
    return dropped * gain + x;
  }
  void each(auto&& visit) { visit("weight", weight), visit("gain", gain); }
};

struct Run {
  Tensor y, dx, dweight, dgain;
};

template <class F>
Run run(Small& model, const Tensor& x, F&& f) {
  Rng rng(7);
  Run result;
  {
    Tape tape({.random = &rng});
    const Var leaf = variable(x);
    const Var first = leaf * 2;
    const Var y = f(first);
    const Var loss = sum(y * y);
    result.y = Tensor::copy_of(y.value());
    tape.backward(loss);
    result.dx = Tensor::copy_of(leaf.grad());
  }
  result.dweight = Tensor::copy_of(model.weight.grad());
  result.dgain = Tensor::copy_of(model.gain.grad());
  CHECK(rng.position() == 2);
  for_each_parameter(model, [](const std::string&, Parameter& p) { p.zero_grad(); });
  return result;
}

void check_same(const Run& a, const Run& b) {
  CHECK(same_bits(a.y, b.y));
  CHECK(same_bits(a.dx, b.dx));
  CHECK(same_bits(a.dweight, b.dweight));
  CHECK(same_bits(a.dgain, b.dgain));
}

}  // namespace

TEST_CASE("checkpoint: value and gradients have the bits that they have without, dropout included") {
  Small model;
  const Tensor x = random({3, 4}, f64, 3);
  const Run plain = run(model, x, [&](Var v) {
    const Var once = model(v);
    return model(once);
  });
  check_same(plain, run(model, x, [&](Var v) {
    const Var once = checkpoint([&](Var u) { return model(u); }, v);
    return checkpoint([&](Var u) { return model(u); }, once);
  }));
  check_same(plain, run(model, x, [&](Var v) {  // one inside of another
    return checkpoint(
        [&](Var u) {
          const Var once = checkpoint([&](Var w) { return model(w); }, u);
          return model(once);
        },
        v);
  }));
}

TEST_CASE("checkpoint: gradients and tangents are right, with several inputs and one of them twice") {
  Tensor a = random({3}, f64, 1), b = random({3}, f64, 2);
  CHECK(gradcheck([](Var x, Var y) { return checkpoint([](Var u, Var v, Var w) { return exp(u) * v + w * w; }, x, y, x); },
                  a, b));
  // The tangent of the gradient along a direction, against the gradient's own.
  const auto gradient = [](const Tensor& at, bool kept) {
    Tape tape;
    const Var x = variable(at);
    const auto f = [](Var u) {
      const Var e = exp(u);
      return sum(e * e * u);
    };
    tape.backward(kept ? f(x) : checkpoint(f, x));
    return Tensor::copy_of(x.grad());
  };
  const Tensor at = random({5}, DType::dual, 4);
  CHECK(same_bits(gradient(at, true), gradient(at, false)));
}

TEST_CASE("checkpoint: an input that is used outside, and more than once inside, or given twice, has the bits of without") {
  Tensor x({64});
  Rng rng(1);
  fill_normal(x, rng);
  const auto gradient = [&](auto f) {
    Tape tape;
    const Var v = variable(x);
    tape.backward(sum(f(v)));
    const Tensor copy = Tensor::copy_of(v.grad());
    const auto numbers = copy.data<float>();
    return std::vector<float>(numbers.begin(), numbers.end());
  };
  const auto inside = [](Var a) { return a * exp(a) + a * 0.3; };
  const auto two = [](Var a, Var b) { return a * exp(b) + sin(a) * b; };
  CHECK(gradient([&](Var v) { return v * checkpoint(inside, v) + v * 0.7; }) ==
        gradient([&](Var v) { return v * inside(v) + v * 0.7; }));
  CHECK(gradient([&](Var v) { return v * checkpoint(two, v, v); }) == gradient([&](Var v) { return v * two(v, v); }));
}

TEST_CASE("checkpoint: an input beside a view of it, or that is a parameter which f reads by itself, loses no part") {
  const Tensor x = tensor({0.5, -1, 2, 0.25}, f64);
  const auto f = [](Var a, Var b) { return a * exp(b) + b; };
  const auto gradient = [&](auto of) {
    Tape tape;
    const Var v = variable(x);
    tape.backward(sum(of(v)));
    return Tensor::copy_of(v.grad());
  };
  const auto part = [](Var v) { return slice(v, 0, 1, 2); };
  const auto close = [](const Tensor& a, const Tensor& b) {
    for (Index i = 0; i < a.count(); ++i) CHECK(a.at({i}) == doctest::Approx(b.at({i})).epsilon(1e-14));
  };
  close(gradient([&](Var v) { return checkpoint(f, part(v), v) * v; }), gradient([&](Var v) { return f(part(v), v) * v; }));
  close(gradient([&](Var v) { return checkpoint(f, v, part(v)) * v; }), gradient([&](Var v) { return f(v, part(v)) * v; }));

  const auto of_parameter = [&](bool again) {
    Parameter p(x);
    const auto product = [&](Var a) { return a * exp(Var(p)); };
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      Tape tape;
      const Var leaf(p);
      tape.backward(sum((again ? checkpoint(product, leaf) : product(leaf)) * leaf));
    }
    return Tensor::copy_of(p.grad());
  };
  close(of_parameter(true), of_parameter(false));
}

TEST_CASE("checkpoint: under NoGrad, and of what needs no gradient, it is f") {
  Small model;
  const Tensor x = random({3, 4}, f64, 3);
  const auto f = [&](Var u) { return model(u); };
  const NoGrad scope;
  CHECK(same_bits(checkpoint(f, Var(x)).value(), model(x).value()));
}

TEST_CASE("checkpoint: a parameter's gradient is complete only after the rule") {
  Small model;
  std::vector<std::string> ready;
  flatten(model);
  Rng rng(1);
  Tape tape({.random = &rng});
  const Var x = random({3, 4}, f64, 3);
  const auto f = [&](Var u) { return model(u); };
  const Var y = checkpoint(f, x);
  tape.backward(sum(y), {.ready = [&](const Parameter& p) {
                           CHECK(p.has_grad());
                           ready.push_back(p.name());
                         }});
  CHECK(ready == std::vector<std::string>{"gain", "weight"});
}

TEST_CASE("checkpoint: the report sees the parameters inside") {
  Small model;
  flatten(model);
  Rng rng(1);
  Tape tape({.random = &rng});
  const Var x = random({3, 4}, f64, 3);
  const Var y = checkpoint([&](Var u) { return model(u); }, x);
  tape.backward(sum(y));
  const Tensor before = Tensor::copy_of(model.weight.grad());
  for (const ParameterReport& line : tape.report()) CHECK(line.gradient == ParameterReport::Gradient::reached);
  CHECK(same_bits(before, model.weight.grad()));
}

TEST_CASE("checkpoint: it says when it is computing again") {
  static int again, first;
  again = first = 0;
  Tape tape;
  const Var x = variable(ones({2}));
  const Var y = checkpoint(
      [](Var u) {
        ++(is_recomputing() ? again : first);
        return exp(u);
      },
      x);
  CHECK((first == 1 && again == 0));
  tape.backward(sum(y));
  CHECK((first == 1 && again == 1));
}

TEST_CASE("checkpoint: it holds less memory") {
  const Tensor x = ones({1 << 16});
  const auto deep = [](Var u) {
    for (int i = 0; i < 50; ++i) u = exp(u * 0.1);
    return u;
  };
  // A thread keeps what its tapes have needed at most.
  const auto needed = [&](bool kept) {
    release_tape_memory();
    const std::uint64_t before = memory_use().bytes;
    {
      Tape tape;
      Var u = variable(x);
      for (int i = 0; i < 10; ++i) u = kept ? deep(u) : checkpoint(deep, u);
      tape.backward(sum(u));
    }
    return memory_use().bytes - before;
  };
  CHECK(needed(false) < needed(true) / 4);
}

TEST_CASE("checkpoint: a Var that f took from the tape around it is an error") {
  Tape tape;
  const Var x = variable(ones({2}));
  const Var other = variable(ones({2}));
  const auto f = [other](Var u) { return u * other; };
  CHECK_THROWS_WITH_AS(checkpoint(f, x),
                       "mul: inside of a checkpoint, variable of shape [2] is used but not given to it: its gradient "
                       "would be lost",
                       std::invalid_argument);
  const Var constant = ones({2});
  const auto g = [constant](Var u) { return u * constant; };
  CHECK(values(checkpoint(g, x).value()) == std::vector<double>{1, 1});
}
