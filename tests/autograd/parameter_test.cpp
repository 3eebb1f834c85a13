// Parameters, and what one does with all of a model's: walk them, flatten them, collect their gradients
// elsewhere, cast.
#include "attune/autograd/parameter.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "attune/autograd/ops.h"
#include "attune/autograd/tape.h"
#include "attune/layers/gpt.h"

using namespace attune;

static_assert(!std::is_copy_constructible_v<Parameter> && !std::is_copy_assignable_v<Parameter>);
static_assert(std::is_nothrow_move_constructible_v<Parameter> &&
              std::is_nothrow_move_assignable_v<Parameter>);
static_assert(!std::is_copy_constructible_v<Cast> && !std::is_move_constructible_v<Cast>);

namespace {

using Numbers = std::vector<double>;

Numbers numbers(const ConstView& view) {
  const Tensor copy = Tensor::copy_of(view);
  const Tensor wide = copy.to(f64);
  const auto data = wide.data<double>();
  return {data.begin(), data.end()};
}

struct Pair {
  Parameter left{tensor({1, 2, 3})};
  Parameter right{tensor({{4}, {5}})};
  void each(auto&& visit) { visit("left", left), visit("right", right); }
};

struct Model {
  Pair pair;
  Parameter absent;
  Parameter last{tensor({6})};
  void each(auto&& visit) { visit("pair", pair), visit("absent", absent), visit("last", last); }
};

// A parameter that two layers share.
struct Tied {
  Parameter weight{tensor({1, 2})};
  void each(auto&& visit) { visit("encoder", weight), visit("decoder", weight); }
};

struct Mixed {
  Parameter single{tensor({1})}, wide{tensor({1}, f64)};
  void each(auto&& visit) { visit("single", single), visit("wide", wide); }
};

// Layers in all that may hold them.
struct Deep {
  std::vector<Pair> pairs;
  std::array<Parameter, 2> gains{Parameter(tensor({1})), Parameter(tensor({2}))};
  std::optional<Pair> head;
  std::unique_ptr<Parameter> scale = std::make_unique<Parameter>(tensor({3}));
  std::vector<std::vector<Parameter>> grid;
  void each(auto&& visit) {
    visit("pairs", pairs), visit("gains", gains), visit("head", head), visit("scale", scale), visit("grid", grid);
  }
};

struct Nothing {
  void each(auto&&) const {}
};

// d/dp of factor * sum(p²).
void differentiate(const Parameter& p, double factor) {
  Tape tape;
  const Var x = p;
  tape.backward(sum(x * x * factor));
}

const char* bytes(const ConstView& view) { return static_cast<const char*>(view.data()); }

}  // namespace

TEST_CASE("a parameter owns a copy of its value, and a gradient of zeros") {
  Tensor start = tensor({{1, 2}, {3, 4}});
  const Parameter p(start);
  start.set({0, 0}, 9);
  CHECK(numbers(p.value()) == Numbers{1, 2, 3, 4});
  CHECK(numbers(p.grad()) == Numbers{0, 0, 0, 0});
  CHECK_FALSE(p.has_grad());
  CHECK(p.exists());
  CHECK(p.trainable());
  CHECK(p.decay());
  CHECK(p.name().empty());
  CHECK(p.shape() == Shape{2, 2});
  CHECK(p.dtype() == f32);
  CHECK(p.count() == 4);
  const Parameter zero(Shape{3}, f64);
  CHECK(numbers(zero.value()) == Numbers{0, 0, 0});
  CHECK(zero.dtype() == f64);
  CHECK_THROWS_WITH_AS(Parameter(tensor({1, 2}, i32)), "parameter: i32 cannot be trained",
                       std::invalid_argument);
}

TEST_CASE("a parameter that was never made is empty, and cannot be written") {
  Parameter none;
  CHECK_FALSE(none.exists());
  CHECK(none.shape() == Shape{0});
  CHECK(none.value().count() == 0);
  CHECK(none.grad().count() == 0);
  CHECK_FALSE(none.has_grad());
  CHECK_FALSE(none.trainable());
  CHECK_FALSE(none.decay());
  CHECK(none.name().empty());
  const char* message =
      "parameter: this one was never made (a bias that is switched off?), or was moved from";
  CHECK_THROWS_WITH_AS(none.mutable_value(), message, std::invalid_argument);
  CHECK_THROWS_WITH_AS(none.mutable_grad(), message, std::invalid_argument);
  CHECK_THROWS_WITH_AS(none.zero_grad(), message, std::invalid_argument);
  CHECK_THROWS_WITH_AS(none.set_trainable(false), message, std::invalid_argument);
  CHECK_THROWS_WITH_AS(none.set_decay(false), message, std::invalid_argument);
  Parameter moved_from{tensor({1})};
  const Parameter moved_to = std::move(moved_from);
  CHECK(moved_to.exists());
  CHECK_THROWS_WITH_AS(moved_from.mutable_value(), message, std::invalid_argument);  // NOLINT: what is left
}

TEST_CASE("a parameter's numbers stay where they are when the model moves") {
  Pair model;
  const char* place = bytes(model.left.value());
  Tape tape;
  const Var x = model.left;
  const Var loss = sum(x * x);
  const Pair moved = std::move(model);
  CHECK(bytes(moved.left.value()) == place);
  tape.backward(loss);
  CHECK(numbers(moved.left.grad()) == Numbers{2, 4, 6});
}

TEST_CASE("gradients of several tapes add up until they are zeroed") {
  Parameter p{tensor({1, 2})};
  differentiate(p, 1);
  CHECK(numbers(p.grad()) == Numbers{2, 4});
  differentiate(p, 10);
  CHECK(numbers(p.grad()) == Numbers{22, 44});
  CHECK(p.has_grad());
  p.zero_grad();
  CHECK(numbers(p.grad()) == Numbers{0, 0});
  CHECK_FALSE(p.has_grad());
  differentiate(p, 1);
  CHECK(numbers(p.grad()) == Numbers{2, 4});
}

TEST_CASE("a part of a parameter that got no gradient keeps zeros, or what stood there") {
  Parameter p{tensor({1, 2, 3})};
  const auto part = [&] {
    Tape tape;
    tape.backward(select(Var(p), 0, 1) * 5);
  };
  kernels::fill(p.mutable_grad(), 7);
  p.zero_grad();
  part();
  CHECK(numbers(p.grad()) == Numbers{0, 5, 0});
  kernels::fill(p.mutable_grad(), 7);
  part();
  CHECK(numbers(p.grad()) == Numbers{7, 12, 7});
}

TEST_CASE("what is not trainable takes no gradient") {
  Parameter buffer{tensor({3})}, weight{tensor({2})};
  buffer.set_trainable(false);
  Tape tape;
  const Var b = buffer, w = weight;
  CHECK_FALSE(b.needs_grad());
  CHECK_FALSE((b * b).needs_grad());
  tape.backward(w * b);
  CHECK_FALSE(buffer.has_grad());
  CHECK(weight.grad().item() == 3);
  buffer.set_trainable(true);
  Tape other;
  other.backward(Var(weight) * buffer);
  CHECK(buffer.grad().item() == 2);
}

TEST_CASE("a model's parameters are walked in order, by their paths, const or not") {
  Model model;
  std::vector<std::string> paths;
  for_each_parameter(std::as_const(model),
                     [&](const std::string& path, const Parameter&) { paths.push_back(path); });
  CHECK(paths == std::vector<std::string>{"pair.left", "pair.right", "last"});
  paths.clear();
  for_each_parameter(model, [&](const std::string& path, Parameter&) { paths.push_back(path); });
  CHECK(paths == std::vector<std::string>{"pair.left", "pair.right", "last"});
  CHECK(parameter_count(model) == 6);
  CHECK(parameter_count(model.last) == 1);

  const ParameterList list(model);
  REQUIRE(list.states().size() == 3);
  CHECK(model.pair.left.name() == "pair.left");
  CHECK(model.last.name() == "last");
}

TEST_CASE("containers are walked by their elements' numbers, and what is optional where it is there") {
  Deep model;
  const auto paths = [&] {
    std::vector<std::string> list;
    for_each_parameter(std::as_const(model), [&](const std::string& path, const Parameter&) { list.push_back(path); });
    return list;
  };
  CHECK(paths() == std::vector<std::string>{"gains.0", "gains.1", "scale"});
  model.pairs.resize(2), model.head.emplace(), model.grid.resize(1);
  model.grid[0].emplace_back(tensor({4}));
  CHECK(paths() == std::vector<std::string>{"pairs.0.left", "pairs.0.right", "pairs.1.left", "pairs.1.right", "gains.0",
                                            "gains.1", "head.left", "head.right", "scale", "grid.0.0"});
  CHECK(parameter_count(model) == 3 * 5 + 2 + 1 + 1);
}

TEST_CASE("a parameter that is shared is listed once") {
  Tied model;
  CHECK(ParameterList(model).states().size() == 1);
  GradientSet set(model);
  Tape tape;
  const Var w = model.weight;
  tape.backward(sum(w * w), set);
  set.add_to_parameters();
  CHECK(numbers(model.weight.grad()) == Numbers{2, 4});
}

TEST_CASE("flatten brings values and gradients together, each padded to 64 bytes, and changes no number") {
  Model model;
  differentiate(model.pair.left, 1);
  differentiate(model.last, 1);
  flatten(model);
  const char* first = bytes(model.pair.left.value());
  CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
  CHECK(bytes(model.pair.right.value()) == first + 64);
  CHECK(bytes(model.last.value()) == first + 128);
  const char* gradient = bytes(model.pair.left.grad());
  CHECK(bytes(model.pair.right.grad()) == gradient + 64);
  CHECK(bytes(model.last.grad()) == gradient + 128);
  CHECK(numbers(model.pair.left.value()) == Numbers{1, 2, 3});
  CHECK(numbers(model.pair.right.value()) == Numbers{4, 5});
  CHECK(numbers(model.last.value()) == Numbers{6});
  CHECK(numbers(model.pair.left.grad()) == Numbers{2, 4, 6});
  CHECK(numbers(model.pair.right.grad()) == Numbers{0, 0});
  CHECK(numbers(model.last.grad()) == Numbers{12});
  CHECK(model.pair.left.has_grad());
  CHECK_FALSE(model.pair.right.has_grad());
  const auto* padded = reinterpret_cast<const float*>(first);
  for (int i = 3; i < 16; ++i) CHECK(padded[i] == 0);

  SUBCASE("again, or a part of it: nothing moves") {
    flatten(model);
    flatten(model.pair);
    CHECK(bytes(model.pair.left.value()) == first);
    CHECK(bytes(model.pair.left.grad()) == gradient);
  }
  SUBCASE("a part first, then the whole") {
    Model other;
    flatten(other.pair);
    flatten(other);
    CHECK(bytes(other.last.value()) == bytes(other.pair.left.value()) + 128);
    CHECK(numbers(other.pair.right.value()) == Numbers{4, 5});
  }
}

// -- GradientSet.

TEST_CASE("a GradientSet takes the gradients, and adds them to the parameters when asked: the same bits") {
  Rng rng(3);
  Gpt direct({.vocab = 5, .context = 4, .layers = 1, .heads = 2, .width = 8}, Rng(1));
  Gpt model({.vocab = 5, .context = 4, .layers = 1, .heads = 2, .width = 8}, Rng(1));
  const Tensor tokens = tensor({{0, 1, 2, 3}, {4, 4, 1, 0}}, i32),
               targets = tensor({{1, 2, 3, 4}, {4, 1, 0, 2}}, i32);
  const auto backward = [&](Gpt& m, GradientSet* set) {
    Tape tape;
    const Var logits = m(tokens);
    tape.backward(cross_entropy(logits, targets), {.into = set});
  };
  backward(direct, nullptr);
  GradientSet set(model);
  backward(model, &set);
  for_each_parameter(model, [&](const std::string&, const Parameter& p) {
    CHECK(set.has_grad(p));
    CHECK_FALSE(p.has_grad());
    CHECK(numbers(p.grad()) == Numbers(static_cast<std::size_t>(p.count()), 0.0));
  });
  set.add_to_parameters();
  std::vector<Numbers> expected, got;
  for_each_parameter(direct,
                     [&](const std::string&, const Parameter& p) { expected.push_back(numbers(p.grad())); });
  for_each_parameter(model, [&](const std::string&, const Parameter& p) {
    got.push_back(numbers(p.grad()));
    CHECK_FALSE(set.has_grad(p));
    CHECK(numbers(set.grad(p)) == Numbers(static_cast<std::size_t>(p.count()), 0.0));
  });
  CHECK(got == expected);
}

TEST_CASE(
    "a GradientSet accumulates, adds to what parameters have, and leaves those without a gradient alone") {
  Pair model;
  GradientSet set(model);
  differentiate(model.left, 1);
  for (int round = 0; round < 2; ++round) {
    Tape tape;
    const Var x = model.left;
    tape.backward(sum(x * 100), set);
  }
  CHECK(numbers(set.grad(model.left)) == Numbers{200, 200, 200});
  CHECK_FALSE(set.has_grad(model.right));
  set.add_to_parameters();
  CHECK(numbers(model.left.grad()) == Numbers{202, 204, 206});
  CHECK_FALSE(model.right.has_grad());
  set.add_to_parameters();  // nothing is left
  CHECK(numbers(model.left.grad()) == Numbers{202, 204, 206});
  {
    Tape tape;
    tape.backward(sum(Var(model.right)), set);
  }
  set.zero();
  CHECK_FALSE(set.has_grad(model.right));
  CHECK(numbers(set.grad(model.right)) == Numbers{0, 0});
}

TEST_CASE("a GradientSet knows the parameters it was made for, and backward asks before it starts") {
  Pair model;
  const Parameter other{tensor({{1, 2}})};
  GradientSet set(model);
  const char* message = "gradient set: a parameter of shape [1, 2] is not in it";
  CHECK_THROWS_WITH_AS(set.grad(other), message, std::invalid_argument);
  CHECK_THROWS_WITH_AS(set.has_grad(other), message, std::invalid_argument);
  CHECK_THROWS_WITH_AS(set.grad(Parameter()), "gradient set: a parameter of shape [0] is not in it",
                       std::invalid_argument);
  Tape tape;
  const Var known = model.left, unknown = other;
  const Var product = sum(unknown * 2);
  const Var loss = sum(known) + product;
  CHECK_THROWS_WITH_AS(tape.backward(loss, set), message, std::invalid_argument);
  CHECK_FALSE(set.has_grad(model.left));
  CHECK_FALSE(other.has_grad());
  tape.backward(loss);
  CHECK(numbers(other.grad()) == Numbers{2, 2});
}

TEST_CASE("a GradientSet of another element type is refused") {
  Pair model;
  GradientSet set(model);
  {
    const Cast wide(model, f64);
    Tape tape;
    const Var loss = sum(Var(model.left));
    CHECK_THROWS_WITH_AS(
        tape.backward(loss, set),
        "backward: the gradient set was made for f32, and a parameter of shape [3] is f64 now",
        std::invalid_argument);
  }
  CHECK_FALSE(set.has_grad(model.left));
  Mixed mixed;
  CHECK_THROWS_WITH_AS(GradientSet{mixed}, "gradient set: parameters of f32 and of f64",
                       std::invalid_argument);
}

TEST_CASE("a model without parameters has an empty GradientSet") {
  Nothing nothing;
  GradientSet set(nothing);
  set.add_to_parameters();
  set.zero();
  flatten(nothing);
  CHECK(parameter_count(nothing) == 0);
}

// -- Cast.

TEST_CASE("a model can be cast for a while, and has its bits back afterwards") {
  Gpt model({.vocab = 5, .context = 4, .layers = 1, .heads = 2, .width = 8}, Rng(1));
  // Numbers that no detour through another type would bring back.
  auto* odd = static_cast<float*>(std::get<LayerNorm>(model.norm.kind).weight.mutable_value().data());
  odd[0] = -0.0f;
  odd[1] = 1e-41f;
  const std::uint32_t nan_bits = 0x7fa12345;
  std::memcpy(&odd[2], &nan_bits, 4);
  flatten(model);
  struct Place {
    const char *value, *gradient;
    std::vector<char> bits, gradient_bits;
    bool operator==(const Place&) const = default;
  };
  const auto places = [&] {
    std::vector<Place> all;
    for_each_parameter(std::as_const(model), [&](const std::string&, const Parameter& p) {
      const auto size = static_cast<std::size_t>(p.count()) * 4;
      const char *value = bytes(p.value()), *gradient = bytes(p.grad());
      all.push_back({value, gradient, {value, value + size}, {gradient, gradient + size}});
    });
    return all;
  };
  kernels::fill(model.token.weight.mutable_grad(), 3);
  const auto before = places();
  for (DType dtype : {f64, DType::dual}) {
    {
      const Cast cast(model, dtype);
      for_each_parameter(std::as_const(model), [&](const std::string&, const Parameter& p) {
        CHECK(p.dtype() == dtype);
        CHECK(p.grad().dtype() == dtype);
        CHECK_FALSE(p.has_grad());
        CHECK(numbers(p.grad()) == Numbers(static_cast<std::size_t>(p.count()), 0.0));
      });
      CHECK(model.position.weight.value().at({1, 1}) ==
            static_cast<double>(reinterpret_cast<const float*>(before[1].bits.data())[9]));
      kernels::fill(model.token.weight.mutable_value(), 0);
      kernels::fill(model.token.weight.mutable_grad(), 1);
    }
    CHECK(places() == before);
    CHECK(model.token.weight.has_grad());
    CHECK_FALSE(model.position.weight.has_grad());
  }
}

TEST_CASE("a cast is undone where an exception passes, and casts nest") {
  Pair model;
  try {
    const Cast cast(model, f64);
    throw std::runtime_error("the user's own");
  } catch (const std::runtime_error&) {
  }
  CHECK(model.left.dtype() == f32);
  {
    const Cast wide(model, f64);
    {
      const Cast both(model, DType::dual);
      CHECK(model.left.dtype() == DType::dual);
    }
    CHECK(model.left.dtype() == f64);
  }
  CHECK(numbers(model.left.value()) == Numbers{1, 2, 3});
  CHECK_THROWS_WITH_AS((Cast{model, i32}), "cast: i32 cannot be trained", std::invalid_argument);
  CHECK(model.left.dtype() == f32);
}

TEST_CASE("a cast counts as a change: a tape that began before it refuses its backward") {
  Pair model;
  Tape tape;
  const Var loss = sum(Var(model.left));
  {
    const Cast cast(model, f64);
    CHECK_THROWS_WITH_AS(tape.backward(loss),
                         "backward: parameter left of shape [3] was changed after this tape had "
                         "used it: step after backward",
                         std::invalid_argument);
  }
  CHECK_THROWS_AS(tape.backward(loss), std::invalid_argument);
  CHECK_FALSE(model.left.has_grad());
}

TEST_CASE("forward and reverse mode agree: a cast to dual gives Hessian-vector products") {
  Pair model;
  const Cast cast(model, DType::dual);
  for_each_parameter(model, [&](const std::string&, Parameter& p) {
    auto* value = static_cast<dual*>(p.mutable_value().data());
    for (Index i = 0; i < p.count(); ++i) value[i].tangent = 1 + static_cast<double>(i);
  });
  Tape tape;
  const Var left = model.left, right = model.right;
  const Var total = sum(right);
  const Var loss = sum(left * left * left) * total;
  double along = 0;  // the derivative along the direction, in reverse mode
  tape.backward(loss);
  for_each_parameter(model, [&](const std::string&, const Parameter& p) {
    const auto* g = p.grad().as<dual>();
    for (Index i = 0; i < p.count(); ++i) along += g[i].value * (1 + static_cast<double>(i));
  });
  CHECK(loss.value().as<dual>()->tangent == doctest::Approx(along).epsilon(1e-14));
  // d²/dl² = 6 l s, d²/dl ds = 3 l², with s = 9, ds = 1 + 2.
  const auto* g = model.left.grad().as<dual>();
  for (Index i = 0; i < 3; ++i) {
    const double l = 1 + static_cast<double>(i), dl = l;
    CHECK(g[i].tangent == doctest::Approx(6 * l * 9 * dl + 3 * l * l * 3).epsilon(1e-14));
  }
}
