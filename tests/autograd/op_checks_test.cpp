// Every op by itself: right ones pass far below the tolerance, and a wrong one in the middle of a model is named, with its
// place and its worst element.
#include "attune/autograd/op_checks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "attune/autograd/checkpoint.h"
#include "attune/autograd/ops.h"
#include "attune/layers/gpt.h"

using namespace attune;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// y = x, with a rule of one's own.
template <class Rule>
Var identity_with(Var x, const Rule& rule) {
  Var y = output(x.shape(), {x});
  kernels::copy(into(y), x.value());
  return record("identity", y, [=] { rule(x, y); });
}
Var scaled_rule(Var x, double factor) {
  return identity_with(x, [=](Var in, Var out) {
    if (Out d = add_to(in)) kernels::scale(d, out.grad(), factor);
  });
}
// Right but for one element, given by its number.
Var one_wrong_element(Var x, Index element) {
  return identity_with(x, [=](Var in, Var out) {
    if (Out d = add_to(in)) {
      const View dx = scratch(in.shape(), in.dtype());
      kernels::copy(dx, out.grad());
      const View flat = dx.reshape({dx.count()});
      kernels::scale(flat.slice(0, element, element + 1), flat.slice(0, element, element + 1), 1.001);
      kernels::copy(d, dx);
    }
  });
}

Gpt make_gpt(double dropout = 0) {
  return Gpt({.vocab = 11, .context = 6, .layers = 4, .heads = 2, .width = 16, .bias = true, .dropout = dropout,
              .deviation = 0.3},
             Rng(3));
}
const Tensor& tokens() {
  static const Tensor ids = tensor({{1, 2, 3, 4, 10, 0}, {0, 6, 5, 2, 2, 9}}, i32);
  return ids;
}
const Tensor& targets() {
  static const Tensor ids = tensor({{2, 3, 4, 10, 0, 7}, {6, 5, -100, 2, 9, 8}}, i32);
  return ids;
}

}  // namespace

TEST_CASE("every op of a four-layer model is right, with attention fused and step by step, with dropout and checkpoints") {
  Gpt model = make_gpt(), dropping = make_gpt(0.1);
  const OpChecks fused = check_each_op([&] { return cross_entropy(model(tokens()), targets()); }, model);
  CHECK_MESSAGE(fused.passed(), fused.text());
  CHECK(fused.ops > 40);
  CHECK(fused.error < 1e-12);
  const OpChecks dropped = check_each_op([&] { return cross_entropy(dropping(tokens()), targets()); }, dropping);
  CHECK_MESSAGE(dropped.passed(), dropped.text());
  CHECK(dropped.ops > fused.ops);
  const Observer steps([](const TapPoint& at) { return at.name == "scores" ? at.value * 1 : at.value; });
  const OpChecks composed = check_each_op([&] { return cross_entropy(model(tokens()), targets()); }, model);
  CHECK_MESSAGE(composed.passed(), composed.text());
  CHECK(composed.ops > fused.ops);
  MESSAGE("fused: ", fused.text(), "; composed: ", composed.text());

  const TransformerBlock& block = model.blocks[0];
  const auto recomputed = [&] {
    const Var x = model.token(tokens());
    return sum(checkpoint([&block](Var v) { return block(v); }, x));
  };
  const OpChecks looked_into = check_each_op(recomputed, model);
  CHECK_MESSAGE(looked_into.passed(), looked_into.text());
  CHECK(looked_into.ops > 8);
}

TEST_CASE("a rule that is 0.1 % off, in the third of four layers, is named with its layer and its line") {
  Gpt model = make_gpt();
  const Observer fault([](const TapPoint& at) {
    return at.path == "blocks.2" ? scaled_rule(at.value, 1.001) : at.value;
  });
  const OpChecks checks = check_each_op([&] { return cross_entropy(model(tokens()), targets()); }, model);
  CHECK_FALSE(checks);
  REQUIRE(checks.wrong.size() == 2);  // both taps of the layer
  const WrongOp& wrong = checks.wrong.front();
  MESSAGE(checks.text());
  CHECK(wrong.op == "identity");
  CHECK(wrong.shape == Shape{2, 6, 16});
  CHECK(contains(wrong.place, "blocks.2, op_checks_test.cpp:"));
  CHECK(wrong.input == "input 0, add");
  CHECK(wrong.analytic / wrong.numeric == doctest::Approx(1.001).epsilon(1e-10));
}

TEST_CASE("signs, missing terms, garbage, forgotten sums and single elements") {
  const Tensor x = tensor({{0.5, -1.25, 2}, {3, 0.125, -0.75}}, f64);
  const auto refuted = [&](const char* what, auto f) {
    const OpChecks checks = check_each_op(f, x);
    CHECK_MESSAGE(!checks.passed(), what);
    return checks.wrong.empty() ? WrongOp{} : checks.wrong.front();
  };
  CHECK(check_each_op([](Var v) { return scaled_rule(v, 1); }, x));
  CHECK(refuted("sign", [](Var v) { return exp(scaled_rule(v * 2, -1)); }).numeric != 0);
  CHECK(refuted("nothing", [](Var v) { return exp(identity_with(v, [](Var, Var) {})); }).analytic == 0);
  refuted("assigns instead of adding", [](Var v) {
    return identity_with(v, [](Var in, Var out) {
      if (Out d = add_to(in)) kernels::copy(d.view, out.grad());
    });
  });
  refuted("adds to garbage", [](Var v) {
    return identity_with(v, [](Var in, Var out) {
      if (Out d = add_to(in)) kernels::copy(Out(d.view, true), out.grad());
    });
  });
  refuted("not a number", [](Var v) {
    return identity_with(v, [](Var in, Var) {
      if (Out d = add_to(in)) kernels::fill(d, NAN);
    });
  });
  refuted("one input of two", [](Var v) {
    const Var w = exp(v);
    Var y = output(v.shape(), {v, w});
    kernels::multiply(into(y), v.value(), w.value());
    return record("product", y, [=] {
      if (Out d = add_to(v)) kernels::multiply(d, y.grad(), w.value());
    });
  });
  const WrongOp one = refuted("one element", [](Var v) { return one_wrong_element(v * 3, 4); });
  CHECK(one.element == std::vector<Index>{1, 1});
  CHECK(one.analytic / one.numeric == doctest::Approx(1.001).epsilon(1e-10));
  CHECK(one.input == "input 0, mul");
}

TEST_CASE("a small input is not hidden behind a large one") {
  const Tensor x = tensor({1e-9, 2e-9}, f64);
  const auto f = [](Var v) {
    const Tensor million = tensor({1e6, 1e6}, f64);
    const Var large = v + Tensor::copy_of(million), small = scaled_rule(v, 1);
    Var y = output(v.shape(), {large, small});
    kernels::multiply(into(y), large.value(), small.value());
    return record("product", y, [=] {
      if (Out d = add_to(large)) {  // dlarge = dy * small, which is a hundred thousand billionths of dsmall
        const View product = scratch(d.view.shape(), d.view.dtype());
        kernels::multiply(product, y.grad(), small.value());
        kernels::scale(d, product, 1.01);
      }
      if (Out d = add_to(small)) kernels::multiply(d, y.grad(), large.value());
    });
  };
  CHECK_FALSE(check_each_op(f, x, {.draws = 8}));
}

TEST_CASE("the worst of many elements is found by halves") {
  const Tensor x = full({40, 50}, 0.5, f64);
  const OpChecks checks = check_each_op([](Var v) { return one_wrong_element(v * 2, 1234); }, x, {.elements = 8});
  REQUIRE(checks.wrong.size() == 1);
  CHECK(checks.wrong[0].element == std::vector<Index>{24, 34});
}

TEST_CASE("views, shared buffers, stretched operands and one Var twice are right") {
  const Tensor x = tensor({{0.5, -1.25, 2, 1}, {3, 0.125, -0.75, -2}}, f64);
  const auto f = [](Var v) {
    const Var buffer = v * 2, left = slice(buffer, 1, 0, 2), right = slice(buffer, 1, 2, 4);
    const Var stretched = expand(reshape(left, {2, 1, 2}), {2, 3, 2}), twice = right * right;
    const Var sums = sum(stretched, 1) + twice, turned = matmul(left, t(right));
    return concat({softmax(sums), turned}, 1);
  };
  const OpChecks checks = check_each_op(f, x);
  CHECK_MESSAGE(checks.passed(), checks.text());
}

TEST_CASE("a computation that is not the same each time is a failure of its own") {
  const Tensor x = tensor({1, 2}, f64);
  int calls = 0;
  const OpChecks checks = check_each_op([&](Var v) { return ++calls % 2 ? exp(v) : sin(v); }, x);
  CHECK_FALSE(checks);
  CHECK(checks.text() == "each op: the computation does not record the same ops each time");
}

TEST_CASE("afterwards a model has its bits, and nothing of it is marked") {
  Gpt model = make_gpt();
  const Tensor before = Tensor::copy_of(model.token.weight.value());
  check_each_op([&] { return cross_entropy(model(tokens()), targets()); }, model);
  CHECK(model.token.weight.dtype() == f32);
  CHECK(std::equal(before.data<float>().begin(), before.data<float>().end(),
                   model.token.weight.value().as<float>()));
  CHECK_FALSE(model.token.weight.has_grad());
}
