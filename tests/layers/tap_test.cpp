// Taps and observers: what they see, under which names, and that watching changes nothing.
#include "attune/layers/tap.h"

#include <stdexcept>
#include <thread>

#include "../lib/kernel_check.h"
#include "attune/layers/gpt.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

Gpt make_gpt() { return Gpt({.vocab = 7, .context = 5, .layers = 2, .heads = 2, .width = 8}, Rng(1)); }

Tensor tokens() { return tensor({{1, 2, 3, 4}, {0, 6, 5, 2}}, i32); }
Tensor targets() { return tensor({{2, 3, 4, 5}, {6, 5, 2, 1}}, i32); }

// The logits of a step, and all gradients behind them.
Tensor step(Gpt& model) {
  for_each_parameter(model, [](const std::string&, Parameter& p) { p.zero_grad(); });
  Tape tape;
  const Var logits = model(tokens());
  tape.backward(cross_entropy(logits, targets()));
  Tensor all = Tensor::copy_of(logits.value().reshape({-1}));
  for_each_parameter(model, [&](const std::string&, const Parameter& p) {
    const Tensor gradient = Tensor::copy_of(p.grad());
    all = joined({&all, &gradient});
  });
  return all;
}

}  // namespace

TEST_CASE("tap: the taps of a GPT, in order, with the path of their layer") {
  const Gpt model = make_gpt();
  std::vector<std::string> seen;
  std::vector<Shape> shapes;
  const NoGrad scope;
  const Observer watch([&](const TapPoint& at) {
    seen.push_back(at.path + ": " + std::string(at.name));
    shapes.push_back(at.value.shape());
  });
  model(tokens());
  CHECK(seen ==
        std::vector<std::string>{": residual", "blocks.0.attention: queries", "blocks.0.attention: keys", "blocks.0.attention: values", "blocks.0.attention: scores", "blocks.0.attention: weights",
                                 "blocks.0.attention: heads", "blocks.0: residual", "blocks.0: residual",
                                 "blocks.1.attention: queries", "blocks.1.attention: keys", "blocks.1.attention: values", "blocks.1.attention: scores", "blocks.1.attention: weights",
                                 "blocks.1.attention: heads", "blocks.1: residual", "blocks.1: residual"});
  CHECK(shapes[0] == Shape{2, 4, 8});
  for (const std::size_t tap : {1U, 2U, 3U, 4U, 5U}) CHECK(shapes[tap] == Shape{2, 2, 4, 4});
  CHECK(shapes[6] == Shape{2, 4, 2, 4});
  CHECK(shapes[7] == Shape{2, 4, 8});
}

TEST_CASE("attention listener: hears of each call, whose it is and what it was asked, and changes no bit") {
  Gpt model = make_gpt();
  const Tensor unheard = step(model);
  std::vector<std::string> outer_heard, inner_heard;
  const AttentionListener outer([&](const detail::AttentionCall&, Var) { outer_heard.push_back(current_path()); });
  {
    const AttentionListener inner([&](const detail::AttentionCall& call, Var y) {
      CHECK(call.q.shape() == Shape{2, 2, 4, 4});
      CHECK(y.shape() == Shape{2, 2, 4, 4});
      keep_grad(y);
      inner_heard.push_back(current_path());
    });
    CHECK(same_bits(step(model), unheard));
  }
  step(model);
  CHECK(inner_heard == std::vector<std::string>{"blocks.0.attention", "blocks.1.attention"});
  CHECK(outer_heard.size() == 4);
  CHECK(current_path().empty());
}

TEST_CASE("tap: reading changes no bit, forward or backward") {
  Gpt model = make_gpt();
  const Tensor unwatched = step(model);
  double total = 0;
  const Observer watch([&](const TapPoint& at) {
    const Tensor copy = Tensor::copy_of(at.value.value());
    total += kernels::squared_norm(copy);
    const Var double_of_it =
        at.value + at.value;  // computing on the tape that is watched changes nothing either
    total += double_of_it.value().count() > 0 ? 1 : 0;
  });
  CHECK(same_bits(step(model), unwatched));
  CHECK(total > 0);
}

TEST_CASE("tap: without an observer it is the identity itself") {
  const NoGrad scope;
  const Var x = ones({2});
  CHECK(tap("anything", x) == x);
}

TEST_CASE("tap: uniform weights in place of the softmax's make every output the mean of the values") {
  const Tensor q = random({2, 3, 4}, f64, 1), k = random({2, 4, 4}, f64, 2), v = random({2, 4, 5}, f64, 3);
  const NoGrad scope;
  const Observer replace([](const TapPoint& at) -> Var {
    return at.name == "weights" ? Var(full(at.value.shape(), 0.25, f64)) : at.value;
  });
  const ConstView y = attention(q, k, v).value();
  for (Index head = 0; head < 2; ++head)
    for (Index i = 0; i < 3; ++i)
      for (Index c = 0; c < 5; ++c) {
        double mean = 0;
        for (Index j = 0; j < 4; ++j) mean += v.at({head, j, c}) / 4;
        CHECK(y.at({head, i, c}) == doctest::Approx(mean).epsilon(1e-14));
      }
}

TEST_CASE("tap: an ablated head is one whose rows of the output map are zero") {
  Rng rng(1);
  MultiHeadAttention layer({.width = 6, .heads = 2, .bias = false}, rng);
  const Tensor x = random({1, 3, 6}, f32, 2);
  const NoGrad scope;
  const Tensor whole = Tensor::copy_of(layer(x).value());
  Tensor ablated;
  {
    const Observer ablate([](const TapPoint& at) -> Var {
      if (at.name != "heads") return at.value;
      Tensor heads = Tensor::copy_of(at.value.value());
      kernels::fill(heads.view().select(2, 0), 0);
      return Var(std::move(heads));
    });
    ablated = Tensor::copy_of(layer(x).value());
  }
  CHECK_FALSE(same_bits(ablated, whole));
  CHECK(same_bits(layer(x).value(), whole));
  kernels::fill(layer.out.weight.mutable_value().slice(0, 0, 3), 0);
  CHECK(same_bits(layer(x).value(), ablated));
}

TEST_CASE("tap: the gradient flows through what stands in its place, and through nothing else") {
  const Tensor numbers = tensor({1, 2, 3});
  Tape tape;
  const Var x = variable(numbers);
  const Var other = variable(tensor({5, 5, 5}));
  const Observer replace(
      [&](const TapPoint& at) -> Var { return at.name == "twice" ? at.value * 2 : other; });
  const Var twice = tap("twice", x);
  const Var gone = tap("gone", x);
  tape.backward(sum(twice + gone));
  CHECK(values(x.grad()) == std::vector<double>{2, 2, 2});
  CHECK(values(other.grad()) == std::vector<double>{1, 1, 1});
}

TEST_CASE("tap: what does not fit is refused, and names the tap") {
  const Tensor q = random({2, 3, 4}, f32, 1);
  const NoGrad scope;
  const auto replaced_by = [&](Tensor (*instead)()) {
    const Observer replace(
        [&](const TapPoint& at) -> Var { return at.name == "weights" ? Var(instead()) : at.value; });
    attention(q, q, q);
  };
  CHECK_THROWS_WITH_AS(replaced_by([] {
                         return zeros({2, 3, 4});
                       }),
                       "tap: weights of f32 [2, 3, 3] cannot be replaced by f32 [2, 3, 4]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(replaced_by([] {
                         return zeros({2, 3, 3}, f64);
                       }),
                       "tap: weights of f32 [2, 3, 3] cannot be replaced by f64 [2, 3, 3]",
                       std::invalid_argument);
}

TEST_CASE("tap: the innermost observer sees a tap first, and the others what it made of it") {
  const NoGrad scope;
  const Var x = tensor({1});
  std::vector<double> outer_saw, inner_saw;
  const Observer outer([&](const TapPoint& at) -> Var {
    outer_saw.push_back(at.value.item());
    return at.value * 10;
  });
  const Observer inner([&](const TapPoint& at) -> Var {
    inner_saw.push_back(at.value.item());
    return at.value + tensor({1});
  });
  CHECK(tap("x", x).item() == 20);
  CHECK(inner_saw == std::vector<double>{1});
  CHECK(outer_saw == std::vector<double>{2});
}

TEST_CASE("tap: an observer sees nothing behind the end of its scope") {
  const NoGrad scope;
  const Var x = tensor({1});
  int outer_calls = 0, inner_calls = 0;
  const Observer outer([&](const TapPoint&) { ++outer_calls; });
  {
    const Observer inner([&](const TapPoint&) { ++inner_calls; });
    tap("x", x);
  }
  tap("x", x);
  CHECK(inner_calls == 1);
  CHECK(outer_calls == 2);
}

TEST_CASE("tap: what an observer computes is seen by those around it, not by itself") {
  const Tensor q = random({3, 4}, f32, 1);
  const NoGrad scope;
  int outer_calls = 0, inner_calls = 0;
  const Observer outer([&](const TapPoint&) { ++outer_calls; });
  const Observer inner([&](const TapPoint& at) {
    ++inner_calls;
    if (at.name == "weights") attention(q, q, q);
  });
  attention(q, q, q);
  CHECK(inner_calls == 2);
  CHECK(outer_calls == 4);
}

TEST_CASE("tap: after an observer has thrown, everything is as before") {
  Gpt model = make_gpt();
  const Tensor expected = step(model);
  std::vector<std::string> paths;
  {
    const Observer outer([&](const TapPoint& at) { paths.push_back(at.path); });
    {
      const Observer thrower([](const TapPoint& at) {
        if (at.path == "blocks.1.attention") throw std::runtime_error("enough");
      });
      const NoGrad scope;
      CHECK_THROWS_WITH_AS(model(tokens()), "enough", std::runtime_error);
    }
    paths.clear();
    CHECK(same_bits(step(model), expected));
  }
  CHECK(paths.size() == 17);
  CHECK(paths.front() == "");  // no step of the path was left behind
}

TEST_CASE("tap: observers belong to their thread") {
  int calls = 0;
  const Observer watch([&](const TapPoint&) { ++calls; });
  std::thread other([] {
    const NoGrad scope;
    tap("x", tensor({1}));
  });
  other.join();
  CHECK(calls == 0);
}
