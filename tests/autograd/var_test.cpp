// Vars: handles that know their tape, what they borrow and own, views that share memory with what they show,
// and how gradients come together in them.
#include "attune/autograd/var.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "attune/autograd/ops.h"
#include "attune/autograd/parameter.h"
#include "attune/autograd/tape.h"

using namespace attune;

// A tensor is a constant: borrowed where it has a name, taken over where it has none. One that can be neither
// kept alive nor taken over is refused.
static_assert(std::is_convertible_v<Tensor&, Var> && std::is_convertible_v<const Tensor&, Var>);
static_assert(std::is_convertible_v<Tensor, Var>);
static_assert(!std::is_convertible_v<const Tensor, Var> && !std::is_constructible_v<Var, const Tensor&&>);
template <class T>
concept CanBeVariable = requires(T&& x) { variable(std::forward<T>(x)); };
static_assert(CanBeVariable<Tensor&> && CanBeVariable<const Tensor&> && CanBeVariable<Tensor>);
static_assert(!CanBeVariable<const Tensor>);
static_assert(std::is_trivially_copyable_v<Var> && sizeof(Var) == 8);
// What was computed can be read, and not written.
static_assert(std::is_convertible_v<decltype(std::declval<Var>().value()), ConstView>);
static_assert(!std::is_convertible_v<decltype(std::declval<Var>().value()), View>);
static_assert(std::is_convertible_v<decltype(std::declval<Var>().grad()), ConstView>);
static_assert(!std::is_convertible_v<decltype(std::declval<Var>().grad()), View>);

namespace {

std::vector<double> numbers(const ConstView& view) {
  const Tensor copy = Tensor::copy_of(view);
  const Tensor wide = copy.to(f64);
  const auto data = wide.data<double>();
  return {data.begin(), data.end()};
}

using Numbers = std::vector<double>;

// Weights that differ from element to element, so that a gradient in the wrong place shows.
Tensor ramp(const Shape& shape, DType dtype = f64) {
  Tensor result = Tensor(shape, f64);
  double next = 0;
  for (double& number : result.data<double>()) number = ++next;
  return result.to(dtype);
}

// dy/dx where the upstream gradient is 1, 2, 3, ...
Numbers gradient_under_ramp(Tape& tape, Var y, Var x) {
  tape.backward(y, ramp(y.shape(), y.dtype()));
  return numbers(x.grad());
}

// Users of the library, whom its messages name.
void reader(Var x) { x.value(); }
Var constant_of(const Tensor& x) { return x; }
Var variable_of(const Tensor& x) { return variable(x); }
Var leaf_of(const Parameter& p) { return p; }
Var op_of_nothing() { return output({2}, {}); }
struct Layer {
  const Parameter& weight;
  Var operator()() const { return weight; }
};

}  // namespace

TEST_CASE("a Var knows its shape, type, size and numbers") {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  const NoGrad scope;
  const Var v = x;
  CHECK(v.shape() == Shape{2, 3});
  CHECK(v.dtype() == f32);
  CHECK(v.rank() == 2);
  CHECK(v.size(0) == 2);
  CHECK(v.size(-1) == 3);
  CHECK(v.value().at({1, 2}) == 6);
  CHECK(Var(tensor(2.5)).item() == 2.5);
  CHECK(v == v);
  CHECK_FALSE(v == Var(x));
  CHECK_THROWS_WITH_AS(v.size(2), "size: axis 2 does not exist in a tensor of rank 2", std::invalid_argument);
  CHECK_THROWS_WITH_AS(v.item(), "item: [2, 3] has 6 elements, not one", std::invalid_argument);
}

TEST_CASE("a tensor with a name is borrowed, one without is taken over") {
  Tensor named = tensor({1, 2});
  const void* place = std::as_const(named).view().data();
  const NoGrad scope;
  CHECK(Var(named).value().data() == place);
  CHECK(named.count() == 2);
  const Var taken = std::move(named);
  CHECK(taken.value().data() == place);
  CHECK(named.count() == 0);  // NOLINT: what a moved tensor is
  const Var temporary = tensor({3, 4}, f64);
  CHECK(numbers(temporary.value()) == Numbers{3, 4});
}

TEST_CASE("a borrowed tensor may end before its tape") {
  Tape tape;
  const auto from_a_tensor_that_ends = [] {
    const Tensor w = tensor({2, 3}, f64);
    return Var(w);
  };
  const Var w = from_a_tensor_that_ends();
  const Var x = variable(tensor({1, 1}, f64));
  CHECK(gradient_under_ramp(tape, x * w, x) == Numbers{2, 6});
}

TEST_CASE("variable is a leaf with a gradient, a constant is one without") {
  const Tensor x = tensor({1, 2}, f64);
  Tape tape;
  const Var constant = x, leaf = variable(x), owned = variable(tensor({3, 4}, f64));
  CHECK_FALSE(constant.needs_grad());
  CHECK(leaf.needs_grad());
  CHECK(owned.needs_grad());
  CHECK((constant * leaf).needs_grad());
  CHECK_FALSE((constant * 2).needs_grad());
  CHECK_FALSE(leaf.has_grad());
  tape.backward(sum(leaf * owned));
  CHECK(numbers(leaf.grad()) == Numbers{3, 4});
  CHECK(numbers(owned.grad()) == Numbers{1, 2});
  CHECK_FALSE(constant.has_grad());
  CHECK_THROWS_WITH_AS(variable(tensor({1}, i32)), "variable: i32 has no gradient", std::invalid_argument);
}

TEST_CASE("the gradient has the shape and the type of the value") {
  for (DType dtype : {f32, f64, DType::dual}) {
    const Tensor tall = ones({3, 1}, dtype), wide = ones({2}, dtype), scalar_like = ones({}, dtype);
    Tape tape;
    const Var a = variable(tall), b = variable(wide), c = variable(scalar_like);
    tape.backward(sum(a * b * c));
    for (Var leaf : {a, b, c}) {
      CHECK(leaf.grad().shape() == leaf.shape());
      CHECK(leaf.grad().dtype() == dtype);
    }
    CHECK(numbers(a.grad()) == Numbers{2, 2, 2});
    CHECK(numbers(b.grad()) == Numbers{3, 3});
    CHECK(numbers(c.grad()) == Numbers{6});
  }
}

// -- Dead handles. These are release builds' errors too.

TEST_CASE("a Var of a tape that has ended is refused, and the op is named") {
  const auto dead = [] {
    Tape tape;
    return Var(tensor({1, 2}));
  }();
  const std::string why = ": a Var was used after its tape had ended, or on another thread";
  CHECK_THROWS_WITH_AS(exp(dead), "exp: a Var was used after its tape had ended, or on another thread",
                       std::invalid_argument);
  const Tape tape;
  const Var fresh = tensor({1, 2});
  const auto refused = [&](const char* op, auto&& use) {
    CHECK_THROWS_WITH_AS(use(), (op + why).c_str(), std::invalid_argument);
  };
  refused("exp", [&] { exp(dead); });
  refused("gelu", [&] { gelu(dead); });
  refused("softmax", [&] { softmax(dead); });
  refused("add", [&] { fresh + dead; });
  refused("mul", [&] { dead* fresh; });
  refused("mul", [&] { dead * 2; });
  refused("add", [&] { dead + 1; });
  refused("matmul", [&] { matmul(dead, fresh); });
  refused("slice", [&] { slice(dead, 0, 0, 1); });
  refused("reshape", [&] { reshape(dead, {2, 1}); });
  CHECK(numbers((fresh + 1).value()) == Numbers{2, 3});
}

TEST_CASE("reading a dead Var is refused in the name of who reads it") {
  std::vector<Var> dead;
  {
    const NoGrad scope;
    dead.push_back(tensor({1}));
  }
  CHECK_THROWS_WITH_AS(reader(dead[0]),
                       "reader: a Var was used after its tape had ended, or on another thread",
                       std::invalid_argument);
  const NoGrad scope;  // whose first Var has the old one's place
  const Var other = tensor({2});
  CHECK(other.item() == 2);
  CHECK_THROWS_AS(dead[0].shape(), std::invalid_argument);
  CHECK_THROWS_AS(dead[0].dtype(), std::invalid_argument);
  CHECK_THROWS_AS(dead[0].item(), std::invalid_argument);
  CHECK_THROWS_AS(dead[0].grad(), std::invalid_argument);
  CHECK_THROWS_AS(dead[0].has_grad(), std::invalid_argument);
  CHECK_THROWS_AS(dead[0].needs_grad(), std::invalid_argument);
}

TEST_CASE("a Var of another thread is refused, and stays good on its own") {
  Tape tape;
  const Var x = variable(tensor({1, 2}, f64));
  std::string without_scope, with_scope;
  std::thread([&] {
    try {
      exp(x);
    } catch (const std::invalid_argument& error) {
      without_scope = error.what();
    }
    const Tape own;
    [[maybe_unused]] const Var first = tensor({7}, f64);
    try {
      exp(x);
    } catch (const std::invalid_argument& error) {
      with_scope = error.what();
    }
  }).join();
  CHECK(without_scope == "exp: a Var was used after its tape had ended, or on another thread");
  CHECK(with_scope == "exp: a Var was used after its tape had ended, or on another thread");
  tape.backward(sum(x * x));
  CHECK(numbers(x.grad()) == Numbers{2, 4});
}

TEST_CASE("without a scope nothing is computed, and the message says what to open") {
  const Tensor x = tensor({1, 2});
  const Parameter p{tensor({1, 2})};
  const std::string why =
      ": no tape is open on this thread: open a Tape (to differentiate) or a NoGrad (to evaluate)";
  CHECK_THROWS_WITH_AS(constant_of(x), ("constant_of" + why).c_str(), std::invalid_argument);
  CHECK_THROWS_WITH_AS(variable_of(x), ("variable_of" + why).c_str(), std::invalid_argument);
  CHECK_THROWS_WITH_AS(leaf_of(p), ("leaf_of" + why).c_str(), std::invalid_argument);
  CHECK_THROWS_WITH_AS(is_training(), ("is_training" + why).c_str(), std::invalid_argument);
  CHECK_THROWS_WITH_AS(op_of_nothing(), ("op_of_nothing" + why).c_str(), std::invalid_argument);
}

TEST_CASE("ops refuse what they cannot compute with, by name") {
  const Tape tape;
  const Var single = tensor({1, 2}), wide = tensor({1, 2}, f64), ids = tensor({1, 2}, i32);
  CHECK_THROWS_WITH_AS(single + wide, "add: element types f32 and f64 differ", std::invalid_argument);
  CHECK_THROWS_WITH_AS(matmul(tensor({{1}}, f64), tensor({{1}}, DType::dual)),
                       "matmul: element types f64 and dual differ", std::invalid_argument);
  CHECK_THROWS_WITH_AS(exp(ids), "exp: it computes with f32, f64 or dual, and got i32",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(ids + 1, "add: it computes with f32, f64 or dual, and got i32", std::invalid_argument);
  CHECK_THROWS_WITH_AS(ids + ids, "add: it computes with f32, f64 or dual, and got i32",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(op_of_nothing(),
                       "op_of_nothing: it computes with f32, f64 or dual, and got no operand",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS((tensor({1, 2, 3}) + Var(tensor({1, 2}))),
                       "add: [3] and [2] do not broadcast: sizes 3 and 2 differ", std::invalid_argument);
}

TEST_CASE("a parameter that does not exist is no Var") {
  const Parameter none;
  const Tape tape;
  CHECK_THROWS_WITH_AS(leaf_of(none), "leaf_of: a parameter that does not exist was used",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(Layer{none}(), "Layer: a parameter that does not exist was used",
                       std::invalid_argument);
}

// -- Gradients that come together.

TEST_CASE("B37: a node that is used several times collects all its gradients before it passes them on") {
  Tape tape;
  const Var x = variable(tensor(3, f64));
  const Var u = x * x, v = u + x, w = u * v, y = w + v;
  tape.backward(y);
  CHECK(y.item() == 120);
  CHECK(x.grad().item() == 142);  // 4x³ + 3x² + 2x + 1
}

TEST_CASE("B37: one Var as every operand") {
  const auto derivative = [](double at, auto&& f) {
    Tape tape;
    const Var x = variable(tensor(at, f64));
    tape.backward(f(x));
    return x.grad().item();
  };
  CHECK(derivative(2, [](Var a) { return a * a * a; }) == 12);
  CHECK(derivative(2, [](Var x) { return x - x; }) == 0);
  CHECK(derivative(2, [](Var x) { return x / x; }) == 0);
  CHECK(derivative(2, [](Var x) { return x + x; }) == 2);
  CHECK(derivative(1, [](Var a) {
          const Var b = a + a;
          return b + b;
        }) == 4);
}

TEST_CASE("an op of one Var twice, and of views of one Var, adds both gradients") {
  Tape tape;
  const Var x = variable(tensor({{1, 2}, {3, 4}}, f64));
  // y = x xᵀ: dy = ramp gives dx = (ramp + rampᵀ) x.
  CHECK(gradient_under_ramp(tape, matmul(x, t(x)), x) ==
        Numbers{2 * 1 + 5 * 3, 2 * 2 + 5 * 4, 5 * 1 + 8 * 3, 5 * 2 + 8 * 4});

  Tape other;
  const Var z = variable(tensor({{1, 2}, {3, 4}}, f64));
  CHECK(gradient_under_ramp(other, matmul(z, z), z) ==
        Numbers{1 * 1 + 2 * 2 + 1 * 1 + 3 * 3, 1 * 3 + 2 * 4 + 1 * 2 + 3 * 4, 3 * 1 + 4 * 2 + 2 * 1 + 4 * 3,
                3 * 3 + 4 * 4 + 2 * 2 + 4 * 4});
}

TEST_CASE("a kernel that writes three gradients at once may be given one Var three times") {
  const auto x_numbers = tensor({0.5, -1, 2}, f64), g_numbers = tensor({1, 2, 3}, f64);
  Numbers dgain, dshift, apart_x;
  {
    Tape tape;
    const Var x = variable(x_numbers), gain = variable(g_numbers), shift = variable(g_numbers);
    apart_x = gradient_under_ramp(tape, layer_norm(x, gain, shift), x);
    dgain = numbers(gain.grad());
    dshift = numbers(shift.grad());
  }
  {
    Tape tape;
    const Var x = variable(x_numbers), g = variable(g_numbers);
    CHECK(gradient_under_ramp(tape, layer_norm(x, g, g), x) == apart_x);
    const Numbers both = numbers(g.grad());
    for (std::size_t i = 0; i < both.size(); ++i) CHECK(both[i] == dgain[i] + dshift[i]);
  }
  {  // Views of one root are one place too.
    Tape tape;
    const Var x = variable(x_numbers), pair = variable(tensor({{1, 2, 3}, {1, 2, 3}}, f64));
    CHECK(gradient_under_ramp(tape, layer_norm(x, select(pair, 0, 0), select(pair, 0, 1)), x) == apart_x);
    Numbers expected = dgain;
    expected.insert(expected.end(), dshift.begin(), dshift.end());
    CHECK(numbers(pair.grad()) == expected);
  }
  {  // All three.
    Tape tape;
    const Var x = variable(x_numbers);
    const Numbers all = gradient_under_ramp(tape, layer_norm(x, x, x), x);
    Numbers sum_of_parts(3);
    {
      Tape apart;
      const Var a = variable(x_numbers), b = variable(x_numbers), c = variable(x_numbers);
      gradient_under_ramp(apart, layer_norm(a, b, c), a);
      for (Var part : {a, b, c})
        for (std::size_t i = 0; i < 3; ++i) sum_of_parts[i] += numbers(part.grad())[i];
    }
    for (std::size_t i = 0; i < 3; ++i) CHECK(all[i] == doctest::Approx(sum_of_parts[i]).epsilon(1e-14));
  }
}

TEST_CASE("a constant among three operands, of this tape or of one around it, takes no gradient") {
  const auto x_numbers = tensor({0.5, -1, 2}, f64), g_numbers = tensor({1, 2, 3}, f64);
  const Tape outer;
  const Var g = variable(g_numbers);
  Numbers expected;
  {
    Tape tape;
    const Var x = variable(x_numbers);
    expected = gradient_under_ramp(tape, layer_norm(x, g_numbers, g_numbers), x);
  }
  Tape tape;
  const Var x = variable(x_numbers);
  CHECK(gradient_under_ramp(tape, layer_norm(x, g, g), x) == expected);
  CHECK_FALSE(g.has_grad());
}

// -- Views.

TEST_CASE("a view shares the memory of what it shows, and nothing is copied") {
  const Tensor x = ramp({2, 3, 4});
  const NoGrad scope;
  const Var v = x;
  const auto* first = static_cast<const double*>(v.value().data());
  CHECK(slice(v, 1, 1, 3).value().data() == first + 4);
  CHECK(slice(v, -1, -2, 4).value().data() == first + 2);
  CHECK(select(v, 0, -1).value().data() == first + 12);
  CHECK(t(v).value().data() == first);
  CHECK(permute(v, {2, 0, 1}).value().data() == first);
  CHECK(reshape(v, {6, -1}).value().data() == first);
  CHECK(expand(v, {5, 2, 3, 4}).value().data() == first);
  CHECK(detach(v).value().data() == first);
  CHECK(contiguous(v) == v);
}

TEST_CASE("a gradient that arrives through a view stands where the view's elements are") {
  const Tensor x = ramp({2, 3});
  const auto through = [&](auto&& view) {
    Tape tape;
    const Var v = variable(x);
    return gradient_under_ramp(tape, view(v) * 1, v);
  };
  CHECK(through([](Var v) { return slice(v, 1, 1, 2); }) == Numbers{0, 1, 0, 0, 2, 0});
  CHECK(through([](Var v) { return slice(v, -1, 0, 3, 2); }) == Numbers{1, 0, 2, 3, 0, 4});
  CHECK(through([](Var v) { return slice(v, -2, -1, 2); }) == Numbers{0, 0, 0, 1, 2, 3});
  CHECK(through([](Var v) { return select(v, -1, 2); }) == Numbers{0, 0, 1, 0, 0, 2});
  CHECK(through([](Var v) { return t(v); }) == Numbers{1, 3, 5, 2, 4, 6});
  CHECK(through([](Var v) { return permute(v, {-1, 0}); }) == Numbers{1, 3, 5, 2, 4, 6});
  CHECK(through([](Var v) { return reshape(v, {3, 2}); }) == Numbers{1, 2, 3, 4, 5, 6});
  CHECK(through([](Var v) { return reshape(v, Shape{6}); }) == Numbers{1, 2, 3, 4, 5, 6});
  CHECK(through([](Var v) { return t(slice(t(v), 0, 0, 2)); }) == Numbers{1, 2, 0, 3, 4, 0});
  CHECK(through([](Var v) { return slice(slice(v, 1, 0, 3, 2), 1, 1, 2); }) == Numbers{0, 0, 1, 0, 0, 2});
  CHECK(through([](Var v) { return slice(v, 0, 1, 1); }) == Numbers{0, 0, 0, 0, 0, 0});
}

TEST_CASE("the first gradient writes everything, or leaves zeros in the rest, and later ones add") {
  const Tensor x = ramp({2, 2});
  const auto gradient = [&](auto&& f) {
    Tape tape;
    const Var v = variable(x);
    tape.backward(sum(f(v)));
    return numbers(v.grad());
  };
  // Rules run in reverse: the last op that is written here is the first to touch the gradient of v.
  const auto part = [](Var v) { return sum(slice(v, 0, 0, 1) * 10); };
  const auto whole = [](Var v) { return sum(t(v) * 1); };
  CHECK(gradient([&](Var v) { return part(v); }) == Numbers{10, 10, 0, 0});
  CHECK(gradient([&](Var v) { return whole(v); }) == Numbers{1, 1, 1, 1});
  CHECK(gradient([&](Var v) {
          const Var first = part(v), second = whole(v);
          return first + second;
        }) == Numbers{11, 11, 1, 1});
  CHECK(gradient([&](Var v) {
          const Var first = whole(v), second = part(v);
          return first + second;
        }) == Numbers{11, 11, 1, 1});
  CHECK(gradient([&](Var v) {
          const Var first = part(v), second = part(v), third = whole(v);
          return first + second + third;
        }) == Numbers{21, 21, 1, 1});
}

TEST_CASE("the three slices of one buffer take their gradients back to it") {
  const Tensor x = ramp({2, 3});
  Tape tape;
  const Var v = variable(x);
  const Var qkv = v * 1;  // [2, 3]: three columns side by side
  keep_grad(qkv);
  const Var q = slice(qkv, -1, 0, 1), k = slice(qkv, -1, 1, 2), w = slice(qkv, -1, 2, 3);
  const Var scores = matmul(q, t(k));
  tape.backward(sum(matmul(scores, w)));
  // y = q (kᵀ w): with sums of ones, dq = kᵀw for each row, dk = w sum(q), dw = k sum(q).
  const double kw = 2 * 3 + 5 * 6, total = 1 + 4;
  CHECK(numbers(qkv.grad()) == Numbers{kw, 3 * total, 2 * total, kw, 6 * total, 5 * total});
  CHECK(numbers(v.grad()) == numbers(qkv.grad()));
  CHECK(numbers(q.grad()) == Numbers{kw, kw});
  CHECK(numbers(k.grad()) == Numbers{15, 30});
}

TEST_CASE("an unused slice has a gradient of zeros where another was used") {
  Tape tape;
  const Var buffer = variable(ramp({2, 2})) * 1;
  const Var used = slice(buffer, 0, 0, 1), unused = slice(buffer, 0, 1, 2);
  keep_grad(buffer);
  tape.backward(sum(used));
  CHECK(numbers(unused.grad()) == Numbers{0, 0});
}

TEST_CASE("slices that overlap add where they do") {
  Tape tape;
  const Var v = variable(ramp({5}));
  const Var y = slice(v, 0, 0, 3) + slice(v, 0, 1, 4) * 10 + slice(v, 0, 2, 5) * 100;
  tape.backward(sum(y));
  CHECK(numbers(v.grad()) == Numbers{1, 11, 111, 110, 100});
}

TEST_CASE("expand repeats the value, and its gradient is summed; views of it too") {
  const Tensor x = tensor({{1}, {2}}, f64);
  const auto gradient = [&](auto&& f) {
    Tape tape;
    const Var v = variable(x);
    return gradient_under_ramp(tape, f(v), v);
  };
  CHECK(gradient([](Var v) { return expand(v, {2, 3}) * 1; }) == Numbers{6, 15});
  CHECK(gradient([](Var v) { return expand(v, {2, 2, 1}) * 1; }) == Numbers{4, 6});
  CHECK(gradient([](Var v) { return expand(v, {2, 1}) * 1; }) == Numbers{1, 2});
  // Views of an expand: the gradient below is laid out without gaps, unlike the value.
  CHECK(gradient([](Var v) { return slice(expand(v, {2, 3}), 1, 1, 3) * 1; }) == Numbers{3, 7});
  CHECK(gradient([](Var v) { return t(expand(v, {2, 3})) * 1; }) == Numbers{1 + 3 + 5, 2 + 4 + 6});
  CHECK(gradient([](Var v) { return select(expand(v, {2, 3}), 0, 1) * 1; }) == Numbers{0, 6});
  CHECK(gradient([](Var v) { return permute(expand(v, {2, 2, 1}), {2, 0, 1}) * 1; }) == Numbers{4, 6});
  CHECK(gradient([](Var v) {
          return reshape(slice(expand(v, {2, 4}), 1, 0, 4, 2), {2, 2, 1}) * 1;
        }) == Numbers{3, 7});
  CHECK(gradient([](Var v) { return contiguous(expand(v, {2, 3})); }) == Numbers{6, 15});
  CHECK(gradient([](Var v) { return expand(t(v), {3, 2}) * 1; }) == Numbers{9, 12});
  CHECK(gradient([](Var v) {
          const Var stretched = expand(v, {2, 2});
          const Var left = select(stretched, 1, 0), right = select(stretched, 1, 1);
          return left * right;
        }) == Numbers{2, 8});
}

TEST_CASE("a view may be differentiated itself, also of a leaf") {
  Tape tape;
  const Var v = variable(ramp({2, 3}));
  tape.backward(select(reshape(v, {6}), 0, 4));
  CHECK(numbers(v.grad()) == Numbers{0, 0, 0, 0, 1, 0});

  Tape other;
  const Var w = variable(ramp({2, 3}));
  CHECK(gradient_under_ramp(other, t(w), w) == Numbers{1, 3, 5, 2, 4, 6});
}

TEST_CASE("views refuse what is no view, in their own name") {
  const Tape tape;
  const Var v = variable(ramp({2, 3}));
  CHECK_THROWS_WITH_AS(reshape(t(v), {6}),
                       "reshape: [3, 2] with strides [1, 3] is no view of [6]: copy it with "
                       "contiguous() first",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(slice(v, 0, 0, 3), "slice: 0 to 3 is not inside axis 0 of [2, 3]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(permute(v, {0, 0}), "permute: (0, 0) does not name each axis of [2, 3] once",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(expand(v, {3, 3}), "expand: [2, 3] does not stretch to [3, 3]", std::invalid_argument);
  CHECK_THROWS_WITH_AS(t(select(v, 0, 0)), "t: [3] has no two axes to swap", std::invalid_argument);
}

TEST_CASE("detach shows the value and passes no gradient") {
  Tape tape;
  const Var x = variable(tensor({2, 3}, f64));
  const Var y = detach(x) * x;
  CHECK_FALSE(detach(x).needs_grad());
  tape.backward(sum(y));
  CHECK(numbers(x.grad()) == Numbers{2, 3});
}

// -- How long gradients live.

TEST_CASE("gradients of intermediate results are freed, unless kept") {
  Tape tape;
  const Var x = variable(tensor({1, 2}, f64));
  const Var freed = x * 3, kept = freed * x, viewed = kept * 2;
  const Var view = reshape(viewed, {2, 1});
  keep_grad(kept);
  keep_grad(view);
  tape.backward(sum(view));
  CHECK(numbers(x.grad()) == Numbers{12, 24});
  CHECK(numbers(kept.grad()) == Numbers{2, 2});
  CHECK(numbers(viewed.grad()) == Numbers{1, 1});  // whoever shares the memory is kept with it
  CHECK(view.grad().shape() == Shape{2, 1});
  CHECK_FALSE(freed.has_grad());
  CHECK_THROWS_WITH_AS(freed.grad(),
                       "grad: mul of shape [2] has no gradient: backward has not run or did not reach it, "
                       "or it was freed: keep_grad(x) before backward keeps it",
                       std::invalid_argument);
}

TEST_CASE("a gradient that was not computed cannot be read") {
  Tape tape;
  const Var x = variable(tensor({1, 2}, f64)), aside = variable(tensor({{1}}, f64)),
            constant = tensor({1, 2}, f64);
  CHECK_THROWS_WITH_AS(
      x.grad(),
      "grad: variable of shape [2] has no gradient: backward has not run or did not reach it, "
      "or it was freed: keep_grad(x) before backward keeps it",
      std::invalid_argument);
  tape.backward(sum(x * constant));
  CHECK_THROWS_WITH_AS(aside.grad(),
                       "grad: variable of shape [1, 1] has no gradient: backward has not run or did not "
                       "reach it, or it was freed: keep_grad(x) before backward keeps it",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(constant.grad(),
                       "grad: constant of shape [2] has no gradient: backward has not run or did not "
                       "reach it, or it was freed: keep_grad(x) before backward keeps it",
                       std::invalid_argument);
}

TEST_CASE("only what depends on something with a gradient can keep one") {
  const Tape tape;
  const Var constant = tensor({1, 2}, f64);
  CHECK_THROWS_WITH_AS(keep_grad(constant),
                       "keep_grad: constant of shape [2] depends on nothing that has a gradient",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(keep_grad(constant * 2),
                       "keep_grad: mul of shape [2] depends on nothing that has a gradient",
                       std::invalid_argument);
  const NoGrad scope;
  CHECK_THROWS_WITH_AS(keep_grad(variable(tensor({1}))),
                       "keep_grad: variable of shape [1] depends on nothing that has a gradient",
                       std::invalid_argument);
}

TEST_CASE("the gradients of a long chain do not live all at once") {
  const Tensor x = ones({1024}, f64);
  const auto peak_of_chain = [&](int length) {
    release_tape_memory();
    const std::uint64_t before = memory_use().bytes;
    Tape tape;
    Var y = variable(x);
    for (int i = 0; i < length; ++i) y = y * 1;
    const std::uint64_t values = memory_use().bytes;
    tape.backward(sum(y));
    CHECK(values > before);
    return memory_use().bytes - values;
  };
  CHECK(peak_of_chain(2000) == peak_of_chain(20));
}

// -- Changed under the tape.

TEST_CASE(
    "B41: a tensor that a rule still needs, and that has changed, is an error that names the op and the "
    "shape") {
  const char* message =
      "backward: a tensor of shape [2], which mul still needs, was changed after this tape had used it";
  SUBCASE("a variable, as x += 7 after y = x * x") {
    Tensor numbers_of_x = tensor({3, 3}, f64);
    Tape tape;
    const Var x = variable(numbers_of_x), y = x * x;
    kernels::add(numbers_of_x, numbers_of_x, tensor({7, 7}, f64));
    CHECK_THROWS_WITH_AS(tape.backward(sum(y)), message, std::invalid_argument);
    CHECK_FALSE(x.has_grad());
  }
  SUBCASE("a constant factor") {
    Tensor factor = tensor({3, 3}, f64);
    Tape tape;
    const Var x = variable(tensor({1, 2}, f64)), y = x * factor;
    factor.set({0}, 5);
    CHECK_THROWS_WITH_AS(tape.backward(sum(y)), message, std::invalid_argument);
    CHECK_FALSE(x.has_grad());
  }
  SUBCASE("seen through a view, an expand and a detach") {
    const auto views = {+[](Var v) { return slice(v, 0, 0, 2); }, +[](Var v) { return expand(v, {2}); },
                        +[](Var v) { return detach(v); },
                        +[](Var v) {
                          return reshape(expand(detach(v), {1, 2}), {2});
                        }};
    for (auto* view : views) {
      Tensor factor = tensor({3, 3}, f64);
      Tape tape;
      const Var x = variable(tensor({1, 2}, f64)), y = x * view(factor);
      factor.set({0}, 5);
      CHECK_THROWS_WITH_AS(tape.backward(sum(y)), message, std::invalid_argument);
      CHECK_FALSE(x.has_grad());
    }
  }
  SUBCASE("by the op that needs it, not by one that does not") {
    Tensor factor = tensor({3, 3}, f64);
    Tape tape;
    const Var f = factor, x = variable(tensor({1, 2}, f64));
    const Var before = x + f, y = x * f;
    factor.set({0}, 5);
    CHECK_THROWS_WITH_AS(tape.backward(sum(y + before)), message, std::invalid_argument);
  }
  SUBCASE("borrowed by a tape around, and needed by the one inside") {
    Tensor factor = tensor({3, 3}, f64);
    const Tape outer;
    const Var f = factor;
    for (const bool through_view : {false, true}) {
      Tape tape;
      const Var x = variable(tensor({1, 2}, f64)), y = x * (through_view ? slice(f, 0, 0, 2) : f);
      factor.set({0}, 5);
      CHECK_THROWS_WITH_AS(tape.backward(sum(y)), message, std::invalid_argument);
    }
    Tape tape;  // which sees the new numbers only
    const Var x = variable(tensor({1, 2}, f64)), y = x * f;
    tape.backward(sum(y));
    CHECK(numbers(x.grad()) == Numbers{5, 3});
  }
}

TEST_CASE("B41: what no rule needs may change") {
  SUBCASE("y = x + 1") {
    Tensor numbers_of_x = tensor({3}, f64);
    Tape tape;
    const Var x = variable(numbers_of_x), y = x + 1;
    numbers_of_x.set({0}, 10);
    tape.backward(y);
    CHECK(x.grad().item() == 1);
    CHECK(y.item() == 4);
  }
  SUBCASE("the argument of an exp, whose rule reads the result") {
    Tensor numbers_of_x = tensor({3}, f64);
    Tape tape;
    const Var x = variable(numbers_of_x), y = exp(x);
    numbers_of_x.set({0}, 10);
    tape.backward(y);
    CHECK(x.grad().item() == y.item());
  }
  SUBCASE("what only an inner tape needed") {
    Tensor factor = tensor({3}, f64);
    Tape outer;
    const Var x = variable(tensor({2}, f64)), f = factor;
    const Var y = x + f;
    {
      Tape inner;
      const Var z = variable(tensor({1}, f64));
      inner.backward(z * f);
      CHECK(z.grad().item() == 3);
    }
    factor.set({0}, 7);
    outer.backward(y);
    CHECK(x.grad().item() == 1);
  }
}

TEST_CASE("B41: the result of an op cannot be written any more") {
  Tape tape;
  const Var x = variable(tensor({3}, f64)), y = exp(x);
  CHECK_THROWS_WITH_AS(kernels::fill(into(y), 0),
                       "into: exp of shape [1] is finished, and rules may need its numbers",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(into(x), "into: variable of shape [1] is finished, and rules may need its numbers",
                       std::invalid_argument);
  tape.backward(y);
  CHECK(x.grad().item() == doctest::Approx(20.085536923187668).epsilon(1e-15));
}

// -- Dual.

TEST_CASE("a variable keeps its tangent, a constant and a detached Var have none") {
  Tensor x = tensor({3}, DType::dual);
  x.data<dual>()[0].tangent = 1;
  const Tape tape;
  const auto tangent = [](Var v) { return v.value().as<dual>()->tangent; };
  CHECK(tangent(variable(x)) == 1);
  CHECK(tangent(Var(x)) == 0);
  CHECK(tangent(detach(variable(x))) == 0);
  CHECK(tangent(variable(x) * variable(x)) == 6);
  CHECK(tangent(variable(x) * detach(variable(x))) == 3);
  CHECK(std::as_const(x).data<dual>()[0].tangent == 1);
  const NoGrad scope;
  CHECK(tangent(variable(x) * variable(x)) == 6);
}

TEST_CASE("the tangent of a gradient is a Hessian times a direction") {
  Tensor x = tensor({1, 2}, DType::dual);
  x.data<dual>()[0].tangent = 3;
  x.data<dual>()[1].tangent = 5;
  Tape tape;
  const Var v = variable(x);
  tape.backward(sum(v * v * v));
  const auto* g = v.grad().as<dual>();
  CHECK(g[0].value == 3);
  CHECK(g[1].value == 12);
  CHECK(g[0].tangent == 18);  // 6 x t
  CHECK(g[1].tangent == 60);
}

TEST_CASE("in dual a tape cannot use what is differentiated around it") {
  const Tensor two = tensor({2}, DType::dual);
  const Tape outer;
  const Var x = variable(two), constant = two;
  const std::string why =
      ": in dual a tape cannot use variable of shape [1] from the tape around it: forward and reverse "
      "mode would differ";
  {
    const Tape inner;
    const Var w = variable(two);
    CHECK_THROWS_WITH_AS(w * x, ("mul" + why).c_str(), std::invalid_argument);
    CHECK_THROWS_WITH_AS(w + x, ("add" + why).c_str(), std::invalid_argument);
    CHECK_THROWS_WITH_AS(reshape(x, {1, 1}), ("reshape" + why).c_str(), std::invalid_argument);
    CHECK_THROWS_WITH_AS(expand(x, {3}), ("expand" + why).c_str(), std::invalid_argument);
    CHECK((w * constant).item() == 4);
    CHECK((w * detach(x)).item() == 4);
  }
  const NoGrad inner;
  CHECK((x * x).item() == 4);
}
