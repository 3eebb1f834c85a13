// Wrong rules made on purpose do what they say, and whoever checks gradients finds them: twenty in a model of four layers,
// each named.
#include "attune/autograd/mutant.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "attune/autograd/checkpoint.h"
#include "attune/autograd/gradcheck.h"
#include "attune/autograd/op_checks.h"
#include "attune/autograd/ops.h"
#include "attune/layers/gpt.h"

using namespace attune;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<double> slopes_of(const Tensor& x) {
  Tape tape;
  const Var v = variable(x);
  const Var first = sum(exp(v)), shared = v * 3, second = sum(shared * shared);
  tape.backward(first + second);
  const Tensor gradient = Tensor::copy_of(v.grad());
  return {gradient.data<double>().begin(), gradient.data<double>().end()};
}

}  // namespace

TEST_CASE("a mutant changes what one op's rule writes, and nothing afterwards") {
  const Tensor x = tensor({0, 0}, f64);
  const std::vector<double> right = slopes_of(x);  // exp'(0) + 18 * 0
  CHECK(right == std::vector<double>{1, 1});
  {
    const Mutant mutant({.op = "exp", .change = scaled_by(1.5)});
    CHECK(slopes_of(x) == std::vector<double>{1.5, 1.5});
    CHECK(mutant.count() == 1);
  }
  {
    const Mutant mutant({.op = "exp", .change = without_last_row()});
    CHECK(slopes_of(x) == std::vector<double>{1, 0});
  }
  {
    const Mutant mutant({.op = "exp", .which = 1, .change = scaled_by(2)}), other({.op = "sum", .which = 0, .change = scaled_by(3)});
    CHECK(slopes_of(x) == std::vector<double>{3, 3});
    CHECK(mutant.count() == 0);
    CHECK(other.count() == 1);
  }
  CHECK(slopes_of(x) == right);
}

TEST_CASE("a mutant of a parameter's gradient, of one input, and one that assigns") {
  struct {
    Parameter p{tensor({1, 2}, f64)};
  } model;
  const auto gradient = [&] {
    model.p.zero_grad();
    Tape tape;
    const Var p = model.p, y = p * p, z = p * 10;
    tape.backward(sum(y) + sum(z));
    return std::vector<double>{model.p.grad().at({0}), model.p.grad().at({1})};
  };
  CHECK(gradient() == std::vector<double>{12, 14});
  {
    const Mutant mutant({.op = "mul", .which = 0, .change = scaled_by(-1)});
    CHECK(gradient() == std::vector<double>{8, 6});
  }
  {
    const Mutant mutant({.op = "mul", .which = 0, .assigns = true});  // the second to write
    CHECK(gradient() == std::vector<double>{2, 4});
  }
  const Tensor a = tensor({{1, 2}, {3, 4}}, f64);
  const auto product = [&](Tensor& v, Tensor& w) {
    return gradcheck([](Var left, Var right) { return matmul(left, right); }, v, w);
  };
  Tensor left = a.clone(), right = a.clone();
  const Mutant mutant({.op = "matmul", .input = 1, .change = transposed()});
  const GradcheckReport report = product(left, right);
  CHECK(report.inputs[0].passed);
  CHECK_FALSE(report.inputs[1].passed);
}

TEST_CASE("a mutant changes what a rule reads, or single terms of what it writes, and puts all back") {
  const Tensor a = tensor({1, 2, 3}, f64), b = tensor({10, 20, 30}, f64), seed = tensor({1, 1, 2}, f64);
  struct Slopes {
    std::vector<double> a, b;
    bool operator==(const Slopes&) const = default;
  };
  const auto numbers = [](const Tensor& x) { return std::vector(x.data<double>().begin(), x.data<double>().end()); };
  const auto slopes = [&](const MutantOptions& options) {
    MutantOptions aimed = options;
    aimed.op = "mul";
    const Mutant mutant(aimed);
    Tape tape;
    const Var x = variable(a), y = variable(b), product = x * y;
    keep_grad(product);
    tape.backward(product, seed);
    CHECK(mutant.count() == 1);
    CHECK(numbers(Tensor::copy_of(product.grad())) == numbers(seed));
    return Slopes{numbers(Tensor::copy_of(x.grad())), numbers(Tensor::copy_of(y.grad()))};
  };
  const Slopes right{{10, 20, 60}, {1, 2, 6}};
  CHECK(slopes({}) == right);
  const auto half_gone = [](const View& dy) { kernels::fill(dy.slice(0, 0, 2), 0); };
  CHECK(slopes({.upstream = half_gone}) == Slopes{{0, 0, 60}, {0, 0, 6}});
  CHECK(slopes({.input = 1, .upstream = half_gone}) == Slopes{right.a, {0, 0, 6}});
  CHECK(slopes({.stale = moved_on(), .saved = 0}) == Slopes{right.a, {2, 3, 2}});
  CHECK(slopes({.stale = moved_on(), .saved = 1}) == Slopes{{20, 30, 20}, right.b});
  CHECK(slopes({.stale = moved_on(), .saved = 2}) == right);  // the result, which it does not read
  CHECK(numbers(a) == std::vector<double>{1, 2, 3});
  CHECK(slopes({.input = 0, .swapped_with = 1}) == Slopes{right.b, right.a});
  const auto second_gone = [](const View& written, Index element) {
    if (element == 1) kernels::fill(written, 0);
  };
  CHECK(slopes({.input = 0, .terms = second_gone}) == Slopes{{10, 0, 60}, right.b});
  const auto upstream_itself = [](const View& written, const ConstView& upstream) { kernels::copy(written, upstream); };
  CHECK(slopes({.input = 0, .replace = upstream_itself}) == Slopes{numbers(seed), right.b});
  const Slopes garbage = slopes({.input = 1, .garbage = true});
  CHECK(garbage.a == right.a);
  for (std::size_t i = 0; i < 3; ++i) CHECK(garbage.b[i] != right.b[i]);
}

TEST_CASE("what can be made wrong: each input that a rule writes to, and what it may read") {
  const Tensor x = tensor({{1, 2}, {3, 5}}, f64), w = tensor({1, 2}, f64), constant = tensor({3, 4}, f64);
  const std::vector<MutantTarget> targets = mutant_targets([&] {
    const Var a = variable(x), weight = variable(w), normal = layer_norm(a, weight, constant);
    return normal * normal * weight;
  });
  std::string list;
  for (const MutantTarget& target : targets)
    list += fmt::format("{} {} of {}, input {} of {}: {}\n", target.op, target.which, target.result, target.input,
                        target.shape, fmt::join(target.saved, ", "));
  CHECK(list ==
        "layer_norm 0 of [2, 2], input 0 of [2, 2]: the value of input 0, the value of input 1, the value of input 2, "
        "the result, what layer_norm saved\n"
        "layer_norm 0 of [2, 2], input 1 of [2]: the value of input 0, the value of input 1, the value of input 2, "
        "the result, what layer_norm saved\n"
        "mul 0 of [2, 2], input 0 of [2, 2]: the value of input 0, the result\n"
        "mul 1 of [2, 2], input 0 of [2, 2]: the value of input 0, the value of input 1, the result\n"
        "mul 1 of [2, 2], input 1 of [2]: the value of input 0, the value of input 1, the result\n");
}

TEST_CASE("changes of what was written") {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}}, f64);
  const auto after = [&](const std::function<void(const View&)>& change) {
    Tensor copy = x.clone();
    change(copy.view());
    return std::vector(copy.data<double>().begin(), copy.data<double>().end());
  };
  CHECK(after(transposed()) == std::vector<double>{1, 4, 2, 5, 3, 6});
  CHECK(after(moved_on()) == std::vector<double>{2, 3, 4, 5, 6, 1});
  CHECK(after(rows_shifted()) == std::vector<double>{4, 5, 6, 1, 2, 3});
  CHECK(after(without_last_row()) == std::vector<double>{1, 2, 3, 0, 0, 0});
}

TEST_CASE("twenty faults in a four-layer model: each is found, and the right op is named, in the right layer") {
  Gpt model({.vocab = 11, .context = 6, .layers = 4, .heads = 2, .width = 16, .bias = true, .deviation = 0.3}, Rng(3));
  const Tensor tokens = tensor({{1, 2, 3, 4, 10, 0}, {0, 6, 5, 2, 2, 9}}, i32);
  const Tensor targets = tensor({{2, 3, 4, 10, 0, 7}, {6, 5, -100, 2, 9, 8}}, i32);
  const auto checks = [&] { return check_each_op([&] { return cross_entropy(model(tokens), targets); }, model, {.elements = 8}); };
  struct Fault {
    const char* op;
    int which, input;
    std::function<void(const View&)> change;
    const char* layer;
  };
  const std::vector<Fault> faults = {
      {"attention", 2, -1, scaled_by(1.001), "blocks.2.attention"},
      {"attention", 0, 0, scaled_by(-1), "blocks.0.attention"},
      {"attention", 3, -1, without_last_row(), "blocks.3.attention"},
      {"gelu", 2, 0, scaled_by(1.001), "blocks.2.mlp"},
      {"gelu", 0, 0, scaled_by(-1), "blocks.0.mlp"},
      {"gelu", 1, 0, rows_shifted(), "blocks.1.mlp"},
      {"linear", 4, 0, scaled_by(2), "blocks.1.attention"},
      {"linear", 6, 1, scaled_by(1.001), "blocks.1.mlp"},
      {"linear", 9, 2, scaled_by(0), "blocks.2.attention"},
      {"linear", 12, 1, rows_shifted(), "blocks.3.attention"},
      {"linear", 0, 0, without_last_row(), "blocks.0.attention"},
      {"layer_norm", 0, 0, scaled_by(1.001), ""},
      {"layer_norm", 3, 1, scaled_by(-1), ""},
      {"layer_norm", 5, 2, scaled_by(0), ""},
      {"layer_norm", 8, 0, rows_shifted(), ""},
      {"add", 3, 1, scaled_by(1.001), ""},
      {"add", 1, 0, scaled_by(0), ""},
      {"embedding", 0, 0, scaled_by(1.001), ""},
      {"matmul", 0, 1, rows_shifted(), ""},
      {"cross_entropy", 0, 0, scaled_by(1.001), ""},
  };
  REQUIRE(faults.size() == 20);
  CHECK(checks());
  for (const Fault& fault : faults) {
    CAPTURE(fault.op);
    CAPTURE(fault.which);
    const Mutant mutant({.op = fault.op, .which = fault.which, .input = fault.input, .change = fault.change});
    const OpChecks found = checks();
    CHECK(mutant.count() > 0);
    REQUIRE_MESSAGE(found.wrong.size() == 1, found.text());
    CHECK(found.wrong[0].op == fault.op);
    CHECK_MESSAGE(contains(found.wrong[0].place, fault.layer), found.text());
    CHECK(found.wrong[0].analytic != found.wrong[0].numeric);
  }
}

TEST_CASE("a softmax rule that is 0.1 % off in layer 3, with attention step by step") {
  Gpt model({.vocab = 11, .context = 6, .layers = 4, .heads = 2, .width = 16, .deviation = 0.3}, Rng(3));
  const Tensor tokens = tensor({{1, 2, 3, 4, 10, 0}}, i32), targets = tensor({{2, 3, 4, 10, 0, 7}}, i32);
  const Observer steps([](const TapPoint& at) { return at.name == "scores" ? at.value * 1 : at.value; });
  // Watching computes the weights a second time, for nobody; the last of each pair is the one that is used.
  const Mutant mutant({.op = "attention_weights", .which = 3, .change = scaled_by(1.001)});
  const OpChecks found = check_each_op([&] { return cross_entropy(model(tokens), targets); }, model, {.elements = 8});
  REQUIRE(found.wrong.size() == 1);
  CHECK(found.wrong[0].op == "attention_weights");
  CHECK(contains(found.wrong[0].place, "blocks.3.attention, composed_attention.cpp:"));
  CHECK(found.wrong[0].analytic / found.wrong[0].numeric == doctest::Approx(1.001).epsilon(1e-9));
}
