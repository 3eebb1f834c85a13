// The gradient checker: right functions pass far below its tolerance, planted faults do not.
#include "attune/autograd/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <cstring>
#include <limits>
#include <vector>

#include "attune/autograd/ops.h"
#include "attune/layers/gpt.h"

using namespace attune;

namespace {

// y = x², whose rule is made wrong in one of several ways.
template <class Rule>
Var square_with(Var x, const Rule& rule) {
  Var y = output(x.shape(), {x});
  kernels::multiply(into(y), x.value(), x.value());
  return record("square", y, [=] { rule(x, y); });
}

Var square_scaled(Var x, double factor) {
  return square_with(x, [=](Var in, Var out) {
    if (Out d = add_to(in)) {
      const View product = scratch(in.shape(), in.dtype());
      kernels::multiply(product, out.grad(), in.value());
      kernels::scale(d, product, 2 * factor);
    }
  });
}

// A view's numbers, bit for bit.
std::vector<char> bits(const Tensor& x) {
  const auto* begin = static_cast<const char*>(std::as_const(x).view().data());
  return {begin, begin + x.count() * size_of(x.dtype())};
}

}  // namespace

TEST_CASE("right functions pass, far below the tolerance") {
  Tensor x = tensor({{0.5, -1.25, 2}, {3, 0.125, -0.75}}, f64),
         w = tensor({{1, 2}, {-0.5, 0.25}, {0, 1}}, f64);
  const auto passes = [](const GradcheckReport& report, double error) {
    CHECK_MESSAGE(report.passed(), report.text());
    CHECK(report.error() <= error);
    CHECK(report.error() >= 0);
  };
  passes(gradcheck([](Var v) { return v * 3; }, x), 1e-11);
  passes(gradcheck([](Var v) { return exp(v); }, x), 1e-10);
  passes(gradcheck([](Var v) { return softmax(v); }, x), 1e-10);
  passes(gradcheck([](Var v) { return gelu(v); }, x), 1e-9);
  passes(gradcheck([](Var a, Var b) { return matmul(a, b); }, x, w), 1e-10);
  passes(gradcheck([](Var a, Var b) { return sum(matmul(exp(a), b) / 7.0); }, x, w), 1e-10);
  passes(gradcheck([](Var v) { return square_scaled(v, 1); }, x), 1e-10);
}

TEST_CASE("B44 c: a gradient that is off by a little is found, whatever the little is") {
  Tensor x = tensor({0.5, -1.25, 2}, f64);
  for (const double factor : {1.01, 0.99, 1.001, 1.00001, -1.0, 0.0, 2.0}) {
    const GradcheckReport report = gradcheck([=](Var v) { return square_scaled(v, factor); }, x);
    CHECK_FALSE(report.passed());
    CHECK_FALSE(report);
    CHECK(report.error() == doctest::Approx(std::abs(factor - 1)).epsilon(1e-5));
    CHECK(report.inputs[0].analytic == doctest::Approx(factor * report.inputs[0].numeric).epsilon(1e-7));
  }
}

TEST_CASE("the worst element is named, with both sides") {
  Tensor x = tensor({{1, 2}, {3, 4}}, f64), other = tensor({1, 2}, f64);
  const auto f = [](Var v, Var w) {
    const Var squares = square_with(v, [](Var in, Var out) {
      if (Out d = add_to(in)) {  // right but for [1, 0], which is 10 where 2 x = 6
        const View dx = scratch({2, 2}, f64);
        kernels::multiply(dx, out.grad(), in.value());
        kernels::scale(dx, dx, 2);
        const View wrong = dx.select(0, 1).select(0, 0);
        kernels::scale(wrong, out.grad().select(0, 1).select(0, 0), 10);
        kernels::copy(d, dx);
      }
    });
    return sum(squares) + sum(w * w);
  };
  const GradcheckReport report = gradcheck(f, x, other);
  REQUIRE(report.inputs.size() == 2);
  const GradcheckInput& wrong = report.inputs[0];
  CHECK_FALSE(wrong.passed);
  CHECK(wrong.name == "input 0");
  CHECK(wrong.shape == Shape{2, 2});
  CHECK(wrong.worst == 2);
  CHECK(wrong.analytic / wrong.numeric == doctest::Approx(10.0 / 6));
  CHECK(report.inputs[1].passed);
  CHECK(report.inputs[1].error < 1e-10);
  const std::string text = report.text();
  CHECK(text.find("\ninput 0        [2, 2]") != std::string::npos);
  CHECK(text.find("WRONG at element 2: analytic ") != std::string::npos);
  CHECK(text.find(", numeric ") != std::string::npos);
  CHECK(text.find("WRONG", text.find("input 1")) == std::string::npos);
}

TEST_CASE("an input may be made on the spot") {
  CHECK(gradcheck([](Var v, Var w) { return exp(v) * w; }, tensor({0.5, 2}, f64), tensor({-1, 3}, f64)).passed());
}

TEST_CASE("B44 b: a softmax whose rule returns zeros fails, since the upstream gradient is not all ones") {
  Tensor x = tensor({0.1, 0.9}, f64);
  const auto broken = [](Var v) {
    Var y = output(v.shape(), {v});
    kernels::softmax(into(y), v.value());
    return record("softmax", y, [=] {
      if (Out d = add_to(v)) {
        const View zeros_of_y = scratch(v.shape(), v.dtype());
        kernels::fill(zeros_of_y, 0);
        kernels::copy(d, zeros_of_y);
      }
    });
  };
  const GradcheckReport report = gradcheck(broken, x);
  CHECK_FALSE(report);
  CHECK(report.inputs[0].analytic == 0);
  CHECK(report.inputs[0].largest > 1e-3);
  CHECK(gradcheck([](Var v) { return softmax(v); }, x));
  Tape tape;
  const Var v = variable(x);
  tape.backward(softmax(v), tensor({1, 2}, f64));
  CHECK(v.grad().at({0}) == doctest::Approx(-0.213909697).epsilon(1e-8));
  CHECK(v.grad().at({1}) == doctest::Approx(0.213909697).epsilon(1e-8));
}

TEST_CASE("B44 a: single precision is refused for inputs, and a cast layer passes") {
  Tensor single = tensor({1, 2}), ids = tensor({1, 2}, i32), wide = tensor({1, 2}, f64);
  CHECK_THROWS_WITH_AS(gradcheck([](Var v) { return v; }, single),
                       "gradcheck: input 0 is f32; differences need f64", std::invalid_argument);
  CHECK_THROWS_WITH_AS(gradcheck([](Var v, Var) { return v; }, wide, ids),
                       "gradcheck: input 1 is i32; differences need f64", std::invalid_argument);
  Rng rng(1);
  Linear layer({.in = 2, .out = 3}, rng);
  const ParameterList parameters(layer);
  const auto f = [&] { return layer(tensor({{1, 2}, {-3, 0.5}}, f64)); };
  CHECK_THROWS_WITH_AS(gradcheck_parameters(parameters, f),
                       "gradcheck: parameter weight is f32; differences need f64: Cast(model, f64)",
                       std::invalid_argument);
  const Cast cast(layer, f64);
  const GradcheckReport report = gradcheck_parameters(parameters, f);
  CHECK_MESSAGE(report.passed(), report.text());
  REQUIRE(report.inputs.size() == 2);
  CHECK(report.inputs[0].name == "weight");
  CHECK(report.inputs[1].name == "bias");
  CHECK_FALSE(layer.weight.has_grad());
}

TEST_CASE("B44 d: a function that draws anew at each call is reported as such") {
  Tensor x = tensor({1, 2, 3}, f64);
  int calls = 0;
  const GradcheckReport report = gradcheck([&](Var v) { return v * static_cast<double>(++calls); }, x);
  CHECK_FALSE(report);
  CHECK(report.inputs.empty());
  CHECK(report.failure.find("the function is not deterministic: ") == 0);
  CHECK(report.text().find("gradcheck: the function is not deterministic: ") == 0);
  CHECK(report.text().find(" first, then ") != std::string::npos);

  // A function that draws while training only is still caught: it is evaluated as it is differentiated.
  Rng rng(5);
  const GradcheckReport training = gradcheck([&](Var v) { return is_training() ? v * rng.uniform() : v; }, x);
  CHECK(training.failure.find("the function is not deterministic: ") == 0);
  // And one that scales what it does while training, as dropout does, is checked as it trains.
  CHECK(gradcheck([](Var v) { return is_training() ? v * 2 : v; }, x));
}

TEST_CASE("B44 e: inputs have their bits back, also where the function throws") {
  Tensor x = tensor({0.1, -0.0, 1e-310, 1e300, 3}, f64);
  const std::vector<char> before = bits(x);
  gradcheck([](Var v) { return v * 2; }, x);
  CHECK(bits(x) == before);
  int calls = 0;
  CHECK_THROWS_WITH_AS(gradcheck(
                           [&](Var v) {
                             if (++calls == 9) throw std::runtime_error("the user's own");
                             return v * 2;
                           },
                           x),
                       "the user's own", std::runtime_error);
  CHECK(bits(x) == before);

  Parameter p{x};
  const auto parameter_bits = [&] { return bits(Tensor::copy_of(p.value())); };
  gradcheck_parameters(ParameterList(p), [&] { return Var(p) * 2; });
  CHECK(parameter_bits() == before);
}

TEST_CASE("B44 f: a gradient that is not a number fails, and is shown") {
  Tensor x = tensor({1, 2, 3}, f64);
  const auto not_a_number = [](Var v) {
    return square_with(v, [](Var in, Var) {
      if (Out d = add_to(in)) kernels::fill(d, NAN);
    });
  };
  const GradcheckReport report = gradcheck(not_a_number, x);
  CHECK_FALSE(report);
  CHECK(std::isnan(report.inputs[0].analytic));
  CHECK(report.text().find("analytic nan, numeric ") != std::string::npos);
  CHECK(report.text().find("input 0") != std::string::npos);
  // A value that is not a number leaves nothing to compare with.
  CHECK_FALSE(gradcheck([](Var v) { return v * NAN; }, x));
  Tensor infinite = tensor({INFINITY, 1}, f64);
  CHECK_FALSE(gradcheck([](Var v) { return v * v; }, infinite));
}

TEST_CASE("B44 g: an input that gets no gradient although the result depends on it fails") {
  Tensor x = tensor({1, 2}, f64), y = tensor({3, 4}, f64);
  const GradcheckReport report = gradcheck([](Var a, Var b) { return a * detach(b); }, x, y);
  REQUIRE(report.inputs.size() == 2);
  CHECK(report.inputs[0].passed);
  CHECK_FALSE(report.inputs[1].passed);
  CHECK(report.inputs[1].missing);
  CHECK(report.inputs[1].analytic == 0);
  CHECK(report.text().find("analytic 0 (no gradient reached it), numeric ") != std::string::npos);
  CHECK_FALSE(gradcheck([](Var a) { return detach(a) * 2; }, x));
}

TEST_CASE("an input that does not matter passes, with or without a gradient of zeros") {
  Tensor x = tensor({1, 2}, f64), y = tensor({3, 4}, f64);
  const GradcheckReport unused = gradcheck([](Var a, Var) { return a * a; }, x, y);
  CHECK(unused);
  CHECK(unused.inputs[1].missing);
  CHECK(unused.inputs[1].absolute);
  CHECK(gradcheck([](Var a, Var b) { return a + b * 0; }, x, y));
}

TEST_CASE("where the true gradient is 0, rounding is the measure, and no more than that passes") {
  // Softmax does not change where all logits move alike, so the gradient of such a shift is 0 up to rounding.
  Tensor logits = tensor({{0.3, 1.7, -0.4}}, f64), shift = tensor({{0.25}}, f64);
  const GradcheckReport report = gradcheck([](Var a, Var b) { return softmax(a + b); }, logits, shift);
  CHECK_MESSAGE(report.passed(), report.text());
  CHECK(report.inputs[1].absolute);
  CHECK_FALSE(report.inputs[0].absolute);
  CHECK(report.text().find("rounding") != std::string::npos);
  CHECK(report.error() < 1e-9);  // of those that are relative

  const auto small_but_wrong = [](Var a, Var b) {
    Var y = output(a.shape(), {a, b}, Saves::nothing);
    kernels::copy(into(y), a.value());
    return record("ignores", y, [=] {
      if (Out d = add_to(a)) kernels::copy(d, y.grad());
      if (Out d = add_to(b)) kernels::fill(d, 1e-6);
    });
  };
  const GradcheckReport wrong = gradcheck(small_but_wrong, logits, shift);
  CHECK_FALSE(wrong);
  CHECK(wrong.inputs[1].absolute);
  CHECK(wrong.inputs[1].analytic == 1e-6);
}

TEST_CASE("one tensor given twice is refused") {
  Tensor x = tensor({1, 2}, f64);
  CHECK_THROWS_WITH_AS(gradcheck([](Var a, Var b) { return a * b; }, x, x),
                       "gradcheck: inputs 0 and 1 are one tensor; give f two uses of one Var",
                       std::invalid_argument);
}

TEST_CASE("some elements of a large input can be checked instead of all") {
  Tensor x = full({100}, 0.5, f64);
  int calls = 0;
  const auto counted = [&](Var v) {
    ++calls;
    return v * v;
  };
  CHECK(gradcheck({.elements = 10}, counted, x));
  CHECK(calls == 2 + 2 + 5 * 10);  // backward twice; each by forward mode once, and by two central differences
  calls = 0;
  CHECK(gradcheck(counted, x));
  CHECK(calls == 2 + 2 + 5 * 100);
}

TEST_CASE("a step that is none is refused") {
  Tensor x = tensor({1, 2}, f64);
  CHECK_THROWS_WITH_AS(gradcheck({.step = 0}, [](Var v) { return exp(v); }, x),
                       "gradcheck: a first step of 0 of an element is none", std::invalid_argument);
}

TEST_CASE("the tolerance is the user's, and the seed changes the upstream gradient only") {
  Tensor x = tensor({0.5, -1.25, 2}, f64);
  const auto off = [](Var v) { return square_scaled(v, 1 + 1e-5); };
  CHECK_FALSE(gradcheck(off, x));
  CHECK_FALSE(gradcheck({.tolerance = 1e-4}, off, x));  // forward mode sees it
  CHECK(gradcheck({.tolerance = 1e-4, .forward_tolerance = 1e-4}, off, x));
  const GradcheckReport first = gradcheck({.seed = 1}, off, x), second = gradcheck({.seed = 2}, off, x);
  CHECK(first.inputs[0].largest != second.inputs[0].largest);
  CHECK(first.error() == doctest::Approx(second.error()).epsilon(1e-3));
}

TEST_CASE("an input without elements, and a result without a gradient, are no failure of their own") {
  Tensor none = Tensor(Shape{0, 3}, f64), x = tensor({1, 2}, f64);
  CHECK(gradcheck([](Var v) { return v * 2; }, none));
  CHECK(gradcheck([](Var) { return Var(tensor({1, 2}, f64)); }, x));
}

TEST_CASE("the report is a table with a line for each input") {
  Tensor x = tensor({{1, 2}}, f64);
  const GradcheckReport report = gradcheck([](Var v) { return v * 3; }, x);
  const std::string text = report.text();
  CHECK(text.find("input           shape     max |n|  differences      bar  forward\ninput 0        [1, 2]  ") == 0);
  CHECK(text.find("right, 16 digits") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
}

TEST_CASE("gradients of a whole model's parameters, frozen ones left out") {
  Gpt model({.vocab = 5, .context = 3, .layers = 1, .heads = 2, .width = 4, .bias = true, .deviation = 0.5},
            Rng(2));
  model.position.weight.set_trainable(false);
  const Cast cast(model, f64);
  const ParameterList parameters(model);
  const Tensor tokens = tensor({{0, 4, 2}}, i32), targets = tensor({{4, 2, 1}}, i32);
  const GradcheckReport report = gradcheck_parameters(
      parameters, [&] { return cross_entropy(model(tokens), targets); }, {.elements = 6});
  CHECK_MESSAGE(report.passed(), report.text());
  CHECK(report.inputs.size() == parameters.states().size() - 1);
  for (const GradcheckInput& input : report.inputs) CHECK(input.name != "position.weight");
}

namespace {

bool has_note(const GradcheckReport& report, const std::string& part) {
  for (const std::string& note : report.notes)
    if (note.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("a slope by Ridders' extrapolation: thirteen digits, and a bar that covers the error") {
  for (const double x : {0.3, 1.0, 5.0}) {
    const Slope s = differentiate([=](double h) { return std::sin(x + h) * std::exp(x + h); }, 1.0 / 16);
    const double truth = std::exp(x) * (std::sin(x) + std::cos(x));
    CHECK(std::abs(s.value - truth) <= 1e-12 * std::exp(x));
    CHECK(std::abs(s.value - truth) <= 10 * s.bar);
    CHECK(s.bar <= 1e-10 * std::exp(x));
  }
  CHECK(differentiate([](double h) { return 3 * h + 1; }, 0.5).value == doctest::Approx(3).epsilon(1e-14));
  // Where a step leaves the domain, smaller ones are taken.
  const Slope logarithm = differentiate([](double h) { return std::log(1e-3 + h); }, 1.0 / 16);
  CHECK(logarithm.value == doctest::Approx(1e3).epsilon(1e-10));
  CHECK(logarithm.step < 1e-3);
  // A noisy function has a large bar.
  int calls = 0;
  const Slope noisy = differentiate([&](double h) { return h + 1e-3 * (++calls % 3); }, 1.0 / 16);
  CHECK(noisy.bar > 1e-4);
}

TEST_CASE("reverse mode agrees with forward mode to rounding, and with differences to their bar") {
  Tensor x = tensor({{0.5, -1.25, 2}, {3, 0.125, -0.75}}, f64);
  const GradcheckReport report = gradcheck([](Var v) { return softmax(gelu(v) * v); }, x);
  CHECK(report.verdict() == Verdict::right);
  const GradcheckInput& input = report.inputs[0];
  CHECK(input.forward_error < 1e-14);
  CHECK(input.error < 1e-11);
  CHECK(input.digits() > 13);
  CHECK(input.bar < 1e-9);
  CHECK(input.compared == 6);
  CHECK(report.notes.empty());
}

TEST_CASE("a rule that is right to nine digits is wrong in the tenth: differences pass it, forward mode does not") {
  Tensor x = tensor({0.5, -1.25, 2}, f64);
  const GradcheckReport report = gradcheck([](Var v) { return square_scaled(v, 1 + 1e-9); }, x);
  CHECK(report.inputs[0].error < 1e-8);
  CHECK(report.inputs[0].forward_error == doctest::Approx(1e-9).epsilon(1e-4));
  CHECK(report.verdict() == Verdict::wrong);
}

TEST_CASE("an op that knows f64 alone is checked by differences, and the report says so") {
  Tensor x = tensor({0.5, -1.25, 2}, f64);
  const auto cube = [](double factor) {
    return [=](Var v) {
      Var y = output(v.shape(), {v});
      const Tensor in = Tensor::copy_of(v.value());
      double* to = into(y).view.as<double>();
      for (const double number : in.data<double>()) *to++ = number * number * number;
      return record("cube", y, [=] {
        if (Out d = add_to(v)) {
          const View slopes = scratch(v.shape(), v.dtype());
          kernels::multiply(slopes, v.value(), v.value());
          kernels::multiply(slopes, slopes, y.grad());
          kernels::scale(d, slopes, 3 * factor);
        }
      });
    };
  };
  const GradcheckReport report = gradcheck(cube(1), x);
  CHECK(report.verdict() == Verdict::right);
  CHECK(std::isnan(report.inputs[0].forward_error));
  CHECK(has_note(report, "no forward mode, differences alone: view: an element of dual was read as f64"));
  CHECK(report.inputs[0].digits() > 9);
  CHECK(gradcheck(cube(1.001), x).verdict() == Verdict::wrong);
}

TEST_CASE("an element at a kink is left out, and the op is named") {
  Tensor x = tensor({0.5, 0, -2, 1e-12, 1}, f64);
  const auto check = [&](auto f, const char* op, Index excluded) {
    const GradcheckReport report = gradcheck(f, x);
    CHECK_MESSAGE(report.passed(), report.text());
    CHECK(report.inputs[0].excluded == excluded);
    if (excluded > 0) CHECK(report.inputs[0].kinks == std::vector<std::string>{op});
    if (excluded > 0) CHECK(has_note(report, "at a kink of " + std::string(op) + " "));
  };
  check([](Var v) { return relu(v) * v + relu(v); }, "relu", 2);
  check([](Var v) { return abs(v); }, "abs", 1);  // at 0 its slope is the mean of both sides, as differences have it
  check([](Var v) { return leaky_relu(v, 0.1); }, "leaky_relu", 2);
  check([](Var v) { return clamp(v, 0, 0.75); }, "clamp", 2);
  check([](Var v) { return maximum(v, 1); }, "maximum", 0);  // so is that of a tie
  check([](Var v) { return where(greater(v, 0), v * 2, v); }, "greater", 2);
  Tensor close = tensor({1, 3, 3 - 1e-12, 2}, f64);
  const GradcheckReport report = gradcheck([](Var v) { return max(v); }, close);
  CHECK_MESSAGE(report.passed(), report.text());
  CHECK(report.inputs[0].excluded == 2);
  CHECK(report.inputs[0].kinks == std::vector<std::string>{"max"});
}

TEST_CASE("a kink in an op of one's own is seen by its two slopes; a wrong slope beside one is still wrong") {
  const auto hinge = [](double factor) {
    return [=](Var v) {
      Var y = output(v.shape(), {v});
      kernels::relu(into(y), v.value());
      return record("hinge", y, [=] {
        if (Out d = add_to(v)) {
          const View dx = scratch(v.shape(), v.dtype());
          kernels::relu_backward(dx, y.grad(), v.value());
          kernels::scale(d, dx, factor);
        }
      });
    };
  };
  Tensor x = tensor({0.5, 0, -2}, f64);
  const GradcheckReport report = gradcheck(hinge(1), x);
  CHECK_MESSAGE(report.passed(), report.text());
  CHECK(report.inputs[0].excluded == 1);
  CHECK(has_note(report, "an op whose two slopes differ"));
  CHECK_FALSE(gradcheck(hinge(1.001), x));
}

TEST_CASE("a kink near by is stepped around, and the element is compared") {
  Tensor x = tensor({0.5, 1e-4, -2}, f64);
  const GradcheckReport report = gradcheck([](Var v) { return relu(v) * v; }, x);
  CHECK_MESSAGE(report.passed(), report.text());
  CHECK(report.inputs[0].compared == 3);
  CHECK(report.inputs[0].excluded == 0);
  CHECK_FALSE(gradcheck([](Var v) { return square_scaled(relu(v), 1.001); }, x));
}

TEST_CASE("a function that turns many times within a step: smaller ones are tried") {
  for (const double frequency : {10., 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}) {
    Tensor x = tensor({0.5, 1.25, -3}, f64);
    const auto fast = [&](Var v) { return sin(v * frequency); };
    const GradcheckReport report = gradcheck(fast, x);
    INFO(report.text());
    CHECK(report.verdict() == Verdict::right);
    CHECK(report.inputs[0].forward_error < 1e-12);
    CHECK(gradcheck([&](Var v) { return fast(square_scaled(v, 1.001)); }, x).verdict() == Verdict::wrong);
  }
}

TEST_CASE("a function that differences cannot follow: forward mode decides, and the report says so") {
  Tensor x = tensor({0.5, 1.25}, f64);
  const GradcheckReport report = gradcheck([](Var v) { return sin(v * 1e13); }, x);
  CHECK_MESSAGE(report.verdict() == Verdict::right, report.text());
  CHECK(has_note(report, "elements the error bar of differences is too large to judge by"));
}

TEST_CASE("numbers of steps that are whole periods do not deceive") {
  Tensor x = tensor({0.5, 1.25, -3}, f64);
  const GradcheckReport report = gradcheck([](Var v) { return sin(v * (2 * std::numbers::pi * 1024)); }, x);
  CHECK_MESSAGE(report.verdict() == Verdict::right, report.text());
}

TEST_CASE("a domain that ends near by: smaller steps stay inside") {
  Tensor x = tensor({0.9, 1e-7, 0.1, 4e-12}, f64);
  for (const GradcheckReport& report : {gradcheck([](Var v) { return log(v); }, x),
                                        gradcheck([](Var v) { return sum(log(v) * v); }, x),
                                        gradcheck([](Var v) { return sqrt(v); }, x)})
    CHECK_MESSAGE(report.verdict() == Verdict::right, report.text());
  CHECK(gradcheck([](Var v) { return square_scaled(log(v), 1.001); }, x).verdict() == Verdict::wrong);
}

// Half of the slope is hidden from both modes, and the function rounds far more than its result shows.
TEST_CASE("what is lost on the way to a result is no excuse for a gradient that is half of what it should be") {
  Tensor x = tensor({0.7, -0.4, 1.3}, f64);
  const auto half = [](Var v) { return v * detach(v); };
  for (const double offset : {0., 1e3, 1e5, 1e6, 1e7}) {
    INFO(offset);
    CHECK(gradcheck([&](Var v) { return (half(v) + offset) - offset; }, x).verdict() == Verdict::wrong);
    CHECK(gradcheck([&](Var v) { return softmax(half(v) + offset); }, x).verdict() == Verdict::wrong);
    CHECK(gradcheck([&](Var v) { return layer_norm(half(v) + offset); }, x).verdict() == Verdict::wrong);
    const GradcheckReport right = gradcheck([&](Var v) { return (v * v + offset) - offset; }, x);
    CHECK_MESSAGE(right.verdict() == Verdict::right, right.text());
  }
}

TEST_CASE("a saturated softmax: 0 against 0 proves nothing, and the verdict is that it cannot be told") {
  Tensor x = tensor({{0, 1000}, {2000, 0}}, f64);
  const GradcheckReport report = gradcheck([](Var v) { return softmax(v); }, x);
  CHECK(report.passed());
  CHECK(report.verdict() == Verdict::cannot_tell);
  CHECK(report.text().find("cannot tell: the true gradient is 0, to rounding") != std::string::npos);
  CHECK(has_note(report, "softmax [2, 2]: 2 of 2 rows are saturated"));
  Tensor mixed = tensor({{0, 1000}, {0.5, 0}}, f64);
  const GradcheckReport half = gradcheck([](Var v) { return softmax(v); }, mixed);
  CHECK(half.verdict() == Verdict::right);
  CHECK(has_note(half, "softmax [2, 2]: 1 of 2 rows are saturated"));
  // A row of one element is no saturated one, nor is one whose others are hidden.
  Tensor alone = tensor({{3}, {4}}, f64);
  CHECK_FALSE(has_note(gradcheck([](Var v) { return softmax(v); }, alone), "saturated"));
}

TEST_CASE("a gradient that is mostly zeros is said to be") {
  Tensor x = tensor({1, -1, -2, -3, -4}, f64);
  const GradcheckReport report = gradcheck([](Var v) { return relu(v); }, x);
  CHECK(report.verdict() == Verdict::right);
  CHECK(report.inputs[0].zeros == 4);
  CHECK(has_note(report, "input 0: the true gradient is 0 in 4 of 5 elements"));
}

TEST_CASE("dropout is replayed, so a function with dropout is checked as it trains") {
  Tensor x = full({16}, 0.5, f64);
  const GradcheckReport report = gradcheck([](Var v) { return dropout(v * v, 0.5); }, x);
  CHECK_MESSAGE(report.verdict() == Verdict::right, report.text());
  CHECK(report.inputs[0].zeros > 0);
  CHECK(report.inputs[0].zeros < 16);
  CHECK_FALSE(gradcheck([](Var v) { return dropout(square_scaled(v, 1.001), 0.5); }, x));
}

TEST_CASE("a value that is not finite is a failure that names the op") {
  Tensor x = tensor({1, -2}, f64);
  const GradcheckReport report = gradcheck([](Var v) { return log(v) * 2; }, x);
  CHECK_FALSE(report);
  CHECK(report.failure.find("the function's value is not finite: log [2] (log.h:") == 0);
}

TEST_CASE("a row of sparsemax at the edge of its support is a kink, and one that is one-hot passes nothing") {
  Tensor edge = tensor({1, 0}, f64), apart = tensor({{3, 0}, {0.25, 0}}, f64);
  const GradcheckReport report = gradcheck([](Var v) { return sparsemax(v) * v; }, edge);
  CHECK_MESSAGE(report.passed(), report.text());
  CHECK(report.inputs[0].excluded == 2);
  CHECK(report.inputs[0].kinks == std::vector<std::string>{"sparsemax"});
  const GradcheckReport half = gradcheck([](Var v) { return sparsemax(v); }, apart);
  CHECK_MESSAGE(half.passed(), half.text());
  CHECK(has_note(half, "sparsemax [2, 2]: 1 of 2 rows are saturated"));
}

// y = 3 x, whose rule forgets that somebody may have been there before.
Var thrice_assigning(Var x) {
  Var y = output(x.shape(), {x});
  kernels::scale(into(y), x.value(), 3);
  return record("thrice", y, [=] {
    if (Out d = add_to(x)) kernels::scale(d.view, y.grad(), 3);
  });
}

struct OneParameter {
  Parameter p{tensor({1, -2, 3}, f64)};
  void each(auto&& visit) { visit("p", p); }
  void each(auto&& visit) const { visit("p", p); }
};

TEST_CASE("a rule that assigns instead of adding is wrong, also where its input is used once") {
  Tensor x = tensor({1, -2, 3}, f64);
  const GradcheckReport report = gradcheck(thrice_assigning, x);
  REQUIRE(report.inputs.size() == 1);
  CHECK(report.inputs[0].overwritten);
  CHECK(report.inputs[0].forward_error == 0);
  CHECK(report.verdict() == Verdict::wrong);
  CHECK(report.text().find("WRONG: a rule writes over what the gradient holds, instead of adding to it") !=
        std::string::npos);

  OneParameter model;
  const GradcheckReport of_model =
      gradcheck_parameters(ParameterList(model), [&] { return thrice_assigning(model.p); });
  REQUIRE(of_model.inputs.size() == 1);
  CHECK(of_model.inputs[0].overwritten);
  CHECK_FALSE(of_model.passed());
  CHECK_FALSE(
      gradcheck_parameters(ParameterList(model), [&] { return square_scaled(model.p, 1); }).inputs[0].overwritten);
}
