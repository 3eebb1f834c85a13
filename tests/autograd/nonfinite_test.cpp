// tape.find_nonfinite(): which op made the first number that is infinite or NaN, forward and backward; and the places
// that a tape remembers when it is asked to.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "attune/autograd/ops.h"
#include "attune/autograd/parameter.h"
#include "attune/layers/attention.h"
#include "attune/layers/gpt.h"

using namespace attune;

namespace {

constexpr double kInf = INFINITY;

struct Holder {
  Parameter p;
  void each(auto&& visit) { visit("p", p); }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the op that made a NaN out of finite numbers is named, and not those that passed it on") {
  Tape tape({.places = true});
  const Var x = variable(tensor({{1, 4}, {-1, 9}}));
  CHECK_FALSE(tape.find_nonfinite());
  const Var roots = sqrt(x), scaled = roots * 2, loss = sum(scaled);
  const auto found = tape.find_nonfinite();
  REQUIRE(found);
  CHECK(found->phase == NonFinite::Phase::forward);
  CHECK(found->op == "sqrt");
  CHECK(found->shape == Shape{2, 2});
  CHECK(found->element == std::vector<Index>{1, 0});
  CHECK(std::isnan(found->number));
  CHECK(contains(found->place, "sqrt.h:"));
  CHECK(contains(found->text(), "sqrt [2, 2] (sqrt.h:"));
  CHECK(contains(found->text(), "): element [1, 0] is nan"));
  tape.backward(loss);
  CHECK(tape.find_nonfinite()->op == "sqrt");
}

TEST_CASE("what came in with a parameter or a constant is named as such") {
  Holder model{Parameter(tensor({1, kInf}))};
  flatten(model);
  Tape tape;
  sum(Var(model.p) * 2);
  const auto found = tape.find_nonfinite();
  REQUIRE(found);
  CHECK(found->op == "parameter p");
  CHECK(found->number == kInf);
  CHECK(found->place.empty());
  CHECK(found->text() == "parameter p [2]: element [1] is inf");
}

TEST_CASE("scores of minus infinity that a softmax hides are no fault") {
  Tape tape;
  const Var x = variable(tensor({{1, 2}, {3, 4}})), hidden = tensor({{0, -kInf}, {0, 0}});
  const Var loss = sum(softmax(x + hidden));
  CHECK_FALSE(tape.find_nonfinite());
  tape.backward(loss);
  CHECK_FALSE(tape.find_nonfinite());
}

TEST_CASE("a rule that makes an infinite gradient of finite numbers is named, with the input it wrote to") {
  Tape tape({.places = true});
  const Var x = variable(tensor({4, 0}));
  const Var doubled = x * 2, roots = sqrt(doubled), loss = sum(roots * roots);
  tape.backward(loss);
  const Tensor before = Tensor::copy_of(x.grad());
  const auto found = tape.find_nonfinite();
  // The slope of sqrt at 0 is infinite; here it meets a 0, and NaN is what comes of it.
  REQUIRE(found);
  CHECK(found->phase == NonFinite::Phase::backward);
  CHECK(found->op == "sqrt");
  CHECK(found->input == "mul");
  CHECK(found->element == std::vector<Index>{1});
  CHECK(contains(found->text(), "the rule of sqrt [2] (sqrt.h:"));
  CHECK(contains(found->text(), "element [1] of the gradient of mul "));
  CHECK(x.grad().at({0}) == before.at({0}));  // it changes nothing
}

TEST_CASE("in a model the layer is named") {
  Gpt model({.vocab = 5, .context = 3, .layers = 2, .heads = 1, .width = 4}, Rng(1));
  const Observer fault([](const TapPoint& at) {
    return at.path == "blocks.1" && at.name == "residual" ? log(at.value * 0 - 1) : at.value;
  });
  Tape tape({.places = true});
  model(tensor({{0, 4, 2}}, i32));
  const auto found = tape.find_nonfinite();
  REQUIRE(found);
  CHECK(found->op == "log");
  CHECK(contains(found->place, "blocks.1, log.h:"));
}

TEST_CASE("numbers of forward mode count with their tangents") {
  Tensor x({2}, DType::dual);
  x.data<dual>()[0] = {4, 1}, x.data<dual>()[1] = {0, 1};
  const auto first_of = [&](auto f) {
    Tape tape;
    f(variable(x));
    return tape.find_nonfinite();
  };
  const auto slope = first_of([](Var v) { return sqrt(v); });  // at 0 the root is 0, and its slope infinite
  REQUIRE(slope);
  CHECK(slope->op == "sqrt");
  CHECK(slope->element == std::vector<Index>{1});
  CHECK(slope->number == kInf);
  const auto value = first_of([](Var v) { return log(v); });
  REQUIRE(value);
  CHECK(value->number == -kInf);
  CHECK_FALSE(first_of([](Var v) { return exp(v); }));
}

TEST_CASE("a question that cannot be answered is an error") {
  Tape tape;
  const NoGrad inner;
  CHECK_THROWS_WITH_AS(tape.find_nonfinite(),
                       "find_nonfinite: ask this tape while no other scope is open inside of it", std::invalid_argument);
}

TEST_CASE("constants of f32 become f64 where a tape is asked to, on it and inside of it, and others stay") {
  const Tensor single = tensor({0.5, 2}), ids = tensor({1, 0}, i32);
  {
    Tape tape({.constants = f64});
    CHECK(Var(single).dtype() == f64);
    CHECK(Var(ids).dtype() == i32);
    const NoGrad inner;
    CHECK(Var(single).dtype() == f64);
    CHECK(Var(single).value().at({1}) == 2);
  }
  Tape tape;
  CHECK(Var(single).dtype() == f32);
}
