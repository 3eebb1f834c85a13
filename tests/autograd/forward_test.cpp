// Forward mode and Hessian-vector products, by known answers, golden files, and the errors.
#include "attune/autograd/forward.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "../support/golden.h"
#include "attune/autograd/ops.h"
#include "attune/layers/attention.h"
#include "attune/layers/linear.h"

using namespace attune;

namespace {

std::vector<double> numbers(const Tensor& x) { return {x.data<double>().begin(), x.data<double>().end()}; }

struct Pair {
  Parameter a{tensor({1, 2})}, b{tensor({3, 4})};
  void each(auto&& visit) { visit("a", a), visit("b", b); }
};

std::vector<Tensor> list(Tensor a, Tensor b) {
  std::vector<Tensor> result;
  result.push_back(std::move(a)), result.push_back(std::move(b));
  return result;
}

}  // namespace

TEST_CASE("the tangent of a function is its Jacobian times the direction") {
  const Tensor x = tensor({1, 2, 4}, f64), v = tensor({1, -1, 0.5}, f64);
  const Derivative d = jvp([](Var u) { return u * u; }, x, v);
  CHECK(numbers(d.value) == std::vector<double>{1, 4, 16});
  CHECK(numbers(d.tangent) == std::vector<double>{2, -4, 4});
  CHECK(x.dtype() == f64);
}

TEST_CASE("functions of several inputs, of f32 inputs, and with f32 data inside") {
  const Tensor data = tensor({10, 20});
  const auto x = list(tensor({1, 2}), tensor({3, 4})), v = list(tensor({1, 0}), tensor({0, 1}));
  const Derivative d = jvp([&](std::span<const Var> in) { return in[0] * in[1] + data; }, x, v);
  CHECK(d.value.dtype() == f64);
  CHECK(numbers(d.value) == std::vector<double>{13, 28});
  CHECK(numbers(d.tangent) == std::vector<double>{3, 2});
}

TEST_CASE("tangents are cut at detach and at constants, and pass a NoGrad") {
  const Tensor x = tensor({1, 2}, f64), v = tensor({1, 1}, f64);
  CHECK(numbers(jvp([](Var u) { return u * detach(u); }, x, v).tangent) == std::vector<double>{1, 2});
  const auto inside = [](Var u) {
    Tensor evaluated;
    {
      const NoGrad scope;
      evaluated = Tensor::copy_of((u * 3).value());
    }
    CHECK(numbers(tangents_of(evaluated)) == std::vector<double>{3, 3});
    const Var constant = std::move(evaluated);
    return u + constant;
  };
  CHECK(numbers(jvp(inside, x, v).tangent) == std::vector<double>{1, 1});
}

TEST_CASE("a Hessian-vector product of a function") {
  // f = sum(x³): the gradient is 3 x², the Hessian diagonal, 6 x.
  const Tensor x = tensor({1, 2, -1}, f64), v = tensor({1, 0.5, 2}, f64);
  const HessianProduct h = hvp([](Var u) { return sum(u * u * u); }, x, v);
  CHECK(h.loss == 8);
  CHECK(h.slope == 3 + 6 + 6);
  CHECK(numbers(h.gradient[0]) == std::vector<double>{3, 12, 3});
  CHECK(numbers(h.product[0]) == std::vector<double>{6, 6, -12});
}

TEST_CASE("a model: values cast in place and put back, frozen parameters cut, also where the loss throws") {
  Pair model;
  const auto v = list(tensor({1, 1}, f64), tensor({1, -1}, f64));
  const auto product = [&] {
    const Var a = model.a, b = model.b;
    return a * b;
  };
  const Derivative d = jvp(product, model, v);
  CHECK(numbers(d.tangent) == std::vector<double>{4, 2});
  const HessianProduct h = hvp([&] { return sum(product()); }, model, v);
  CHECK(numbers(h.gradient[0]) == std::vector<double>{3, 4});
  CHECK(numbers(h.product[0]) == std::vector<double>{1, -1});
  CHECK(numbers(h.product[1]) == std::vector<double>{1, 1});
  CHECK(hvp([&] { return sum(product()); }, ParameterList(model), v).slope == h.slope);

  model.b.set_trainable(false);
  CHECK(numbers(jvp(product, model, v).tangent) == std::vector<double>{3, 4});
  const auto broken = [&]() -> Var { throw std::runtime_error("the user's own"); };
  CHECK_THROWS_WITH_AS(hvp(broken, model, v), "the user's own", std::runtime_error);
  CHECK(model.a.dtype() == f32);
  CHECK(model.a.value().at({1}) == 2);
  CHECK_FALSE(model.a.has_grad());
}

TEST_CASE("dropout drops what the seed says") {
  const Tensor x = full({64}, 1, f64), v = full({64}, 1, f64);
  const auto f = [](Var u) { return dropout(u, 0.5); };
  const std::vector<double> once = numbers(jvp(f, x, v).tangent);
  CHECK(numbers(jvp(f, x, v).tangent) == once);
  CHECK(numbers(jvp(f, x, v, {.seed = 1}).tangent) != once);
  CHECK(numbers(jvp(f, x, v, {.training = false}).tangent) == std::vector<double>(64, 1.0));
  for (const double slope : once) CHECK((slope == 0 || slope == 2));
}

TEST_CASE("what does not fit is an error") {
  const Tensor x = tensor({1, 2}, f64), v = tensor({1}, f64);
  const auto f = [](Var u) { return u * u; };
  CHECK_THROWS_WITH_AS(jvp(f, x, v), "jvp: input 0 is [2], and its direction [1]", std::invalid_argument);
  CHECK_THROWS_WITH_AS(hvp(f, x, x), "hvp: a loss is one number, not [2]", std::invalid_argument);
  Pair model;
  CHECK_THROWS_WITH_AS(jvp([&] { return Var(model.a); }, model, std::span(&x, 1)), "jvp: 2 inputs and 1 directions",
                       std::invalid_argument);
}

TEST_CASE("golden second derivatives: attention, fused and composed, layer norm, cross-entropy") {
  if (!golden::available()) return;
  const auto compare = [](const golden::File& file, const std::vector<std::string>& inputs, const FunctionOfVars& f) {
    const std::string output = file.has("out.y") ? "y" : "loss";
    std::vector<Tensor> x, v;
    for (const std::string& name : inputs) {
      x.push_back(file.as((file.has("in." + name) ? "in." : "param.") + name, f64));
      v.push_back(file.as("dir." + name, f64));
    }
    const Derivative d = jvp(f, x, v);
    file.compare("out." + output, d.value);
    file.compare("jvp." + output, d.tangent);
    const Tensor up = file.as("up." + output, f64);
    const auto loss = [&](std::span<const Var> in) {  // ½ sum(up * out²)
      const Var out = f(in);
      const Var weighted = out * up;
      return sum(weighted * out) * 0.5;
    };
    const HessianProduct h = hvp(loss, x, v);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      file.compare("grad." + inputs[i], h.gradient[i]);
      file.compare("hvp." + inputs[i], h.product[i]);
    }
  };
  const golden::File attend("second_sdpa"), norm("second_layer_norm"), entropy("second_cross_entropy");
  const auto call = [](std::span<const Var> in) {
    return attention(in[0], in[1], in[2], {.mask = Mask::causal(), .scale = 0.5});
  };
  compare(attend, {"q", "k", "v"}, call);
  {
    const Observer composed([](const TapPoint& at) { return at.name == "scores" ? at.value * 1 : at.value; });
    compare(attend, {"q", "k", "v"}, call);
  }
  compare(norm, {"x", "weight", "bias"},
          [](std::span<const Var> in) { return layer_norm(in[0], in[1], in[2], 1e-5); });
  const Tensor& targets = entropy["in.targets"];
  compare(entropy, {"logits"}, [&](std::span<const Var> in) { return cross_entropy(in[0], targets); });
}
