// The gradients of a whole two-layer GPT, cast to f64 in place, four ways: against central differences,
// forward mode against reverse, and exact Hessian-vector products against their symmetry and against
// differences of gradients.
#include <fmt/format.h>

#include "../lib/kernel_check.h"
#include "attune/autograd/forward.h"
#include "attune/autograd/gradcheck.h"
#include "attune/layers/gpt.h"
#include "../support/sanitized.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

// Initial weights large enough that every part of the model has something to say.
Gpt make_gpt(bool bias) {
  Gpt model({.vocab = 11, .context = 6, .layers = 2, .heads = 2, .width = 16, .bias = bias, .deviation = 0.3},
            Rng(3));
  std::uint64_t seed = 100;
  for_each_parameter(model, [&](const std::string&, Parameter& p) {
    if (p.shape().rank() != 1) return;
    const Tensor shift = random(p.shape(), f32, ++seed, -0.2, 0.2);
    kernels::copy(Out(p.mutable_value(), true), shift);  // gains and biases away from 1 and 0
  });
  return model;
}

const Tensor& tokens() {
  static const Tensor ids = tensor({{1, 2, 3, 4, 10, 0}, {0, 6, 5, 2, 2, 9}}, i32);
  return ids;
}
const Tensor& targets() {
  static const Tensor ids = tensor({{2, 3, 4, 10, 0, 7}, {6, 5, -100, 2, 9, 8}}, i32);
  return ids;
}
Var loss_of(const Gpt& model) { return cross_entropy(model(tokens()), targets()); }

// One tensor for each parameter, in the order of each().
using Direction = std::vector<Tensor>;

double dot(const Direction& a, const Direction& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += check_kernels::dot(a[i], b[i]);
  return total;
}

double largest(const Direction& a) {
  double most = 0;
  for (const Tensor& part : a)
    for (const double x : part.data<double>()) most = std::max(most, std::abs(x));
  return most;
}

// The gradient at parameters + shift * v, in f64.
Direction gradient_at(Gpt& model, const Direction& v, double shift) {
  const Cast cast(model, f64);
  std::size_t i = 0;
  for_each_parameter(model, [&](const std::string&, Parameter& p) {
    kernels::scale(Out(p.mutable_value(), true), v[i++], shift);
  });
  Tape tape;
  tape.backward(loss_of(model));
  Direction result;
  for_each_parameter(
      model, [&](const std::string&, const Parameter& p) { result.push_back(Tensor::copy_of(p.grad())); });
  return result;
}

HessianProduct product_of(Gpt& model, const Direction& v) {
  return hvp([&] { return loss_of(model); }, model, v);
}

// While it lives, attention goes step by step: an observer that puts other scores in place makes it.
Observer composed() {
  return Observer([](const TapPoint& at) { return at.name == "scores" ? at.value * 1 : at.value; });
}

// The parameters and their gradients as bytes, and whether there are gradients.
std::string bits(Gpt& model) {
  std::string bytes;
  for_each_parameter(model, [&](const std::string& path, const Parameter& p) {
    bytes += path;
    for (const ConstView& view : {p.value(), p.grad()})
      bytes.append(static_cast<const char*>(view.data()),
                   static_cast<std::size_t>(view.count() * size_of(view.dtype())));
    bytes += p.has_grad() ? '1' : '0';
  });
  return bytes;
}

}  // namespace

TEST_CASE("gpt gradients: every parameter against central differences, in f64") {
  for (const bool bias : {false, true}) {
    Gpt model = make_gpt(bias);
    const Cast cast(model, f64);
    const GradcheckReport report =
        gradcheck_parameters(ParameterList(model), [&] { return loss_of(model); }, {.tolerance = 1e-7, .elements = kSanitized ? 8 : 0});
    CHECK_MESSAGE(report.passed(), report.text());
    REQUIRE(report.inputs.size() == (bias ? 28 : 20));
    for (const GradcheckInput& input : report.inputs) {
      CHECK_FALSE(input.absolute);
      CHECK_FALSE(input.missing);
    }
    MESSAGE("largest relative error ", std::string(bias ? "with" : "without"), " biases: ", report.error());
  }
}

TEST_CASE("gpt gradients: the bias of the keys cannot matter, so its gradient is judged absolutely") {
  // It adds the same number to all scores of a query, and softmax does not see that. What is there is
  // rounding.
  Gpt model = make_gpt(true);
  const Cast cast(model, f64);
  Tape tape;
  tape.backward(loss_of(model));
  for (const TransformerBlock& block : model.blocks) {
    const ConstView gradient = block.attention.qkv.bias.grad();
    double of_keys = 0, of_all = 0;
    for (Index i = 0; i < 48; ++i) {
      const double size = std::abs(gradient.at({i}));
      of_all = std::max(of_all, size);
      if (i >= 16 && i < 32) of_keys = std::max(of_keys, size);
    }
    MESSAGE("key bias: at most ", of_keys, ", where queries and values have up to ", of_all);
    CHECK(of_all > 1e-3);
    CHECK(of_keys <= 1e-15);
  }
}

TEST_CASE("gpt gradients: forward mode agrees with reverse mode") {
  for (const bool bias : {false, true}) {
    Gpt model = make_gpt(bias);
    const Direction v = random_direction(model, 7), gradient = gradient_at(model, v, 0);
    const HessianProduct both = product_of(model, v);
    const double expected = dot(gradient, v);
    const double error = std::abs(both.slope - expected) / std::abs(expected);
    MESSAGE("relative difference ", error);
    CHECK(error <= 1e-12);
    for (std::size_t i = 0; i < gradient.size(); ++i)
      check_close(both.gradient[i], values(gradient[i]), 1e-12, 1e-14);
  }
}

TEST_CASE("gpt gradients: the Hessian is symmetric, u·Hv = v·Hu") {
  for (const bool bias : {false, true}) {
    Gpt model = make_gpt(bias);
    const Direction u = random_direction(model, 7), v = random_direction(model, 1007);
    const double uhv = dot(u, product_of(model, v).product);
    const double vhu = dot(v, product_of(model, u).product);
    const double error = std::abs(uhv - vhu) / std::abs(uhv);
    MESSAGE("u·Hv = ", uhv, ", relative difference ", error);
    CHECK(error <= 1e-10);
  }
}

TEST_CASE("gpt gradients: the same with attention step by step, and both forms agree") {
  Gpt model = make_gpt(true);
  const Direction u = random_direction(model, 7), v = random_direction(model, 1007);
  const HessianProduct fused = product_of(model, v);
  const Observer steps = composed();
  const HessianProduct hv = product_of(model, v), hu = product_of(model, u);
  const double uhv = dot(u, hv.product), vhu = dot(v, hu.product);
  CHECK(std::abs(uhv - vhu) <= 1e-10 * std::abs(uhv));
  CHECK(std::abs(hv.slope - fused.slope) <= 1e-12 * std::abs(fused.slope));
  for (std::size_t i = 0; i < v.size(); ++i)
    check_close(hv.product[i], values(fused.product[i]), 1e-10, 1e-12 * largest(fused.product));
}

TEST_CASE("gpt gradients: a Hessian-vector product is what differences of gradients say") {
  Gpt model = make_gpt(true);
  const Direction v = random_direction(model, 7);
  const Direction exact = product_of(model, v).product;
  constexpr double h = 0x1p-12;
  const Direction ahead = gradient_at(model, v, h), behind = gradient_at(model, v, -h);
  const Direction far_ahead = gradient_at(model, v, 2 * h), far_behind = gradient_at(model, v, -2 * h);
  double worst = 0;
  for (std::size_t i = 0; i < v.size(); ++i)
    for (std::size_t j = 0; j < exact[i].data<double>().size(); ++j) {
      const auto at = [&](const Direction& g) { return g[i].data<double>()[j]; };
      const double numeric = (8 * (at(ahead) - at(behind)) - (at(far_ahead) - at(far_behind))) / (12 * h);
      worst = std::max(worst, std::abs(numeric - at(exact)));
    }
  MESSAGE("largest difference ", worst / largest(exact), " of the largest element");
  CHECK(worst <= 1e-8 * largest(exact));
}

TEST_CASE("gpt gradients: afterwards the model has its old bits and gradients") {
  Gpt model = make_gpt(true);
  {
    Tape tape;
    tape.backward(loss_of(model));
  }
  std::get<LayerNorm>(model.norm.kind).bias.zero_grad();
  const std::string before = bits(model);
  const Direction v = random_direction(model, 7);
  gradient_at(model, v, 0.5);
  product_of(model, v);
  {
    const Cast cast(model, f64);
    gradcheck_parameters(ParameterList(model), [&] { return loss_of(model); }, {.elements = 1});
  }
  CHECK(bits(model) == before);
}
