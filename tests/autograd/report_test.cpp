// tape.report(): which parameters backward reached, which it did not, and where the path ended.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "attune/autograd/ops.h"
#include "attune/autograd/parameter.h"
#include "attune/autograd/tape.h"
#include "attune/layers/attention.h"
#include "attune/layers/data.h"
#include "attune/layers/gpt.h"

using namespace attune;

namespace {

using Gradient = ParameterReport::Gradient;
using Why = ParameterReport::Why;

struct Pair {
  Parameter a{tensor({1, 2}, f64)}, b{tensor({3, 4}, f64)};
  void each(auto&& visit) { visit("a", a), visit("b", b); }
};

// What is said of parameter b, after backward of what f makes of a and b.
template <class F>
ParameterReport report_of_b(F&& f) {
  Pair model;
  flatten(model);
  Tape tape;
  const Var a = model.a, b = model.b;
  tape.backward(sum(f(a, b)));
  const auto lines = tape.report();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].parameter == "a");
  CHECK(lines[0].gradient == Gradient::reached);
  CHECK(lines[0].ended_at.empty());
  CHECK(lines[1].parameter == "b");
  return lines[1];
}

}  // namespace

TEST_CASE("a parameter that was reached has nothing more to say") {
  const ParameterReport b = report_of_b([](Var a_, Var b_) { return a_ * b_; });
  CHECK(b.gradient == Gradient::reached);
  CHECK(b.ended_at.empty());
}

TEST_CASE("a path that ends at a detach") {
  const ParameterReport b = report_of_b([](Var a_, Var b_) { return a_ * detach(b_ * 2); });
  CHECK(b.gradient == Gradient::missing);
  CHECK(b.ended_at == "detach [2]: it passes no gradient back");
}

TEST_CASE("a parameter that no op used") {
  const ParameterReport b = report_of_b([](Var a_, Var) { return a_ * 2; });
  CHECK(b.gradient == Gradient::missing);
  CHECK(b.ended_at == "nothing: no op used it");
}

TEST_CASE("a gradient of zeros, by a multiplication with 0") {
  const ParameterReport b = report_of_b([](Var a_, Var b_) {
    const Var product = reshape(b_, {1, 2}) * tensor({0, 0}, f64);
    return a_ + product;
  });
  CHECK(b.gradient == Gradient::zero);
  CHECK(b.ended_at == "mul [1, 2]: the gradient that it passes back is zero");
}

TEST_CASE("a result that is no part of the loss") {
  const ParameterReport b = report_of_b([](Var a_, Var b_) {
    exp(b_ * 2);
    return a_ * a_;
  });
  CHECK(b.gradient == Gradient::missing);
  CHECK(b.ended_at == "exp [2]: backward started from nothing that depends on it");
}

TEST_CASE("what was computed after the loss is no part of it either") {
  Pair model;
  Tape tape;
  const Var a = model.a, b = model.b;
  const Var loss = sum(a * 2);
  const Var later = loss + sum(b);
  tape.backward(loss);
  const auto lines = tape.report();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].parameter == "[2]");  // no optimizer has named it
  CHECK(lines[1].gradient == Gradient::missing);
  CHECK(lines[1].ended_at == "add []: backward started from nothing that depends on it");
  CHECK(later.item() == 13);
}

TEST_CASE("of several paths, one that arrives is enough") {
  const ParameterReport b = report_of_b([](Var a_, Var b_) {
    const Var cut = detach(b_) * a_;
    const Var zero = b_ * 0;
    const Var open = b_ + zero;
    return cut + open;
  });
  CHECK(b.gradient == Gradient::reached);
}

TEST_CASE("an inner NoGrad and a replaced value end a path") {
  const ParameterReport b = report_of_b([](Var a_, Var b_) {
    const Tensor evaluated = [&] {
      const NoGrad scope;
      return Tensor::copy_of((b_ * 2).value());
    }();
    return a_ * Tensor::copy_of(evaluated);
  });
  CHECK(b.gradient == Gradient::missing);
  CHECK(b.ended_at == "nothing: no op used it");
}

TEST_CASE(
    "a report changes nothing: gradients, kept ones included, are as they were, and it may be asked again") {
  Pair model;
  Tape tape;
  const Var a = model.a, b = model.b, x = variable(tensor({5, 6}, f64));
  const Var product = a * b * x;
  keep_grad(product);
  tape.backward(sum(product));
  const auto text = [](const ConstView& view) { return std::vector<double>{view.at({0}), view.at({1})}; };
  const auto state = [&] {
    return std::vector{text(model.a.grad()), text(model.b.grad()), text(x.grad()), text(product.grad()),
                       text(a.grad())};
  };
  const auto before = state();
  for (int round = 0; round < 2; ++round) {
    const auto lines = tape.report();
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].gradient == Gradient::reached);
    CHECK(lines[1].gradient == Gradient::reached);
    CHECK(state() == before);
  }
  CHECK(before[0] == std::vector<double>{15, 24});
}

TEST_CASE("a report after a backward with a seed, and into a GradientSet") {
  Pair model;
  GradientSet set(model);
  Tape tape;
  const Var a = model.a, b = model.b;
  tape.backward(a * b, tensor({0, 0}, f64), {.into = &set});
  const auto lines = tape.report();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].gradient == Gradient::zero);
  CHECK(lines[1].gradient == Gradient::zero);
  CHECK_FALSE(model.a.has_grad());
  CHECK(set.has_grad(model.a));
}

TEST_CASE("a report needs a backward, open ears and unchanged parameters") {
  Pair model;
  const char* message = "report: run backward on this tape first, and ask it before other scopes open";
  Tape tape;
  const Var loss = sum(Var(model.a) * 2);
  CHECK_THROWS_WITH_AS(tape.report(), message, std::invalid_argument);
  tape.backward(loss);
  {
    const NoGrad inner;
    CHECK_THROWS_WITH_AS(tape.report(), message, std::invalid_argument);
  }
  CHECK(tape.report().size() == 1);
  model.a.mutable_value();
  CHECK_THROWS_AS(tape.report(), std::invalid_argument);
}

TEST_CASE("a whole model: every parameter has a line, under its path, and a frozen one says so") {
  Gpt model({.vocab = 11, .context = 12, .layers = 1, .heads = 2, .width = 16}, Rng(1));
  flatten(model);
  model.position.weight.set_trainable(false);
  const Batch batch = CopyTask({.symbols = 10, .length = 6}).batch(0, 4);
  Tape tape;
  const Var logits = model(batch.inputs);
  tape.backward(cross_entropy(logits, batch.targets));
  std::size_t frozen = 0;
  const auto lines = tape.report();
  CHECK(lines.size() == ParameterList(model).states().size());
  for (const ParameterReport& line : lines) {
    if (line.parameter == "position.weight") {
      ++frozen;
      CHECK(line.gradient == Gradient::missing);
      CHECK(line.ended_at == "its start: it is not trainable");
    } else {
      CHECK_MESSAGE(line.gradient == Gradient::reached, line.parameter);
    }
  }
  CHECK(frozen == 1);
}

TEST_CASE("a report says why: one word for each way to lose a gradient") {
  const auto why = [](auto f) { return report_of_b(f).why; };
  CHECK(why([](Var a, Var b) { return a * b; }) == Why::reached);
  CHECK(why([](Var a, Var) { return a * 2; }) == Why::unused);
  CHECK(why([](Var a, Var b) { return exp(b) == a ? a : a * 2; }) == Why::not_in_loss);
  CHECK(why([](Var a, Var b) { return a * detach(b); }) == Why::detached);
  CHECK(why([](Var a, Var b) { return a + relu(b * -1); }) == Why::dead);
  CHECK(why([](Var a, Var b) {
          const Tensor two = tensor({1, 1000}, f64);
          const Var apart = b * Tensor::copy_of(two);
          return a + softmax(apart);
        }) == Why::saturated);
  CHECK(why([](Var a, Var b) {
          const Var none = tensor({0, 0}, i32);
          return where(none, b, a);
        }) == Why::masked);
  CHECK(why([](Var a, Var b) { return a + b * 0; }) == Why::zeroed);
  const ParameterReport chosen = report_of_b([](Var a, Var b) {
    const Var place = argmax(reshape(b, {1, 2}), 1);
    const Var table = reshape(a, {2, 1});
    return embedding(table, place);
  });
  CHECK(chosen.why == Why::integers);
  CHECK(chosen.ended_at == "argmax [1]: integers have no gradient");
  CHECK(chosen.text() == "b: no gradient: its path ended at argmax [1]: integers have no gradient");
  const ParameterReport compared = report_of_b([](Var a, Var b) { return where(less(b, 3.5), a, a * 2); });
  CHECK(compared.why == Why::integers);
  const ParameterReport dead = report_of_b([](Var a, Var b) { return a + relu(b * -1); });
  CHECK(dead.ended_at == "relu [2]: the gradient that it passes back is zero: none of its inputs is above 0");
}

TEST_CASE("attention that sees one key, or nothing") {
  Pair model;  // b makes the queries
  flatten(model);
  const auto about_b = [&](const Mask& mask, bool as_value) {
    Tape tape({.places = true});
    const Var a = model.a, b = model.b;
    const Var k = reshape(a, {2, 1}), q = reshape(b, {2, 1});
    const Var y = as_value ? attention(k, k, q, {.mask = mask}) : attention(q, k, k, {.mask = mask});
    tape.backward(sum(y) + sum(a));
    const ParameterReport line = tape.report()[1];
    CHECK(line.parameter == "b");
    CHECK(line.place.find("attention.cpp:") != std::string::npos);
    return line.why;
  };
  CHECK(about_b(Mask::window(1), false) == Why::saturated);
  CHECK(about_b(Mask::allow(tensor({{0, 0}, {0, 0}}, i32)), true) == Why::masked);
}

TEST_CASE("a report names the layer and the line where a tape remembers them") {
  Gpt model({.vocab = 11, .context = 4, .layers = 2, .heads = 2, .width = 8}, Rng(1));
  flatten(model);
  const Observer cut([](const TapPoint& at) {
    return at.path == "blocks.1.attention" && at.name == "heads" ? detach(at.value) : at.value;
  });
  Tape tape({.places = true});
  tape.backward(sum(model(tensor({{1, 2, 3, 4}}, i32))));
  for (const ParameterReport& line : tape.report()) {
    if (line.parameter == "blocks.1.attention.qkv.weight") {
      CHECK(line.why == Why::detached);
      CHECK(line.place.find("blocks.1.attention, detach.h:") == 0);
    }
  }
}

TEST_CASE("where no layer says its path, a report names the last parameter before the op") {
  Pair model;
  flatten(model);
  Tape tape({.places = true});
  const Var a = model.a;
  const Var cut = detach(a * 2);
  tape.backward(sum(cut) + sum(Var(model.b)));
  const ParameterReport line = tape.report()[0];
  CHECK(line.parameter == "a");
  CHECK(line.place.find("after a, ") == 0);
}
