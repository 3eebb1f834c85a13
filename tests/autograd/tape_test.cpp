// Tapes: scopes and how they nest, backward and what it refuses, rules, threads, and memory.
#include "attune/autograd/tape.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "../support/count_new.h"
#include "attune/attune.h"

using namespace attune;

static_assert(!std::is_copy_constructible_v<Tape> && !std::is_move_constructible_v<Tape>);
static_assert(!std::is_copy_constructible_v<NoGrad> && !std::is_move_constructible_v<NoGrad>);

namespace {

using Numbers = std::vector<double>;

Numbers numbers(const ConstView& view) {
  const Tensor copy = Tensor::copy_of(view);
  const Tensor wide = copy.to(f64);
  const auto data = wide.data<double>();
  return {data.begin(), data.end()};
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

// f(stop) on a thread whose stack has this many bytes.
void on_a_small_stack(std::size_t bytes, std::function<void()> f) {
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, bytes) == 0);
  pthread_t thread;
  const auto run = [](void* object) -> void* {
    (*static_cast<std::function<void()>*>(object))();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, run, &f) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

struct SmallModel {
  Parameter weight{tensor({{1, 2}, {3, 4}}, f64)};
  Parameter bias{tensor({0.5, -0.5}, f64)};
  Var operator()(Var x) const {
    const Var product = matmul(x, weight);
    return gelu(product + bias);
  }
  void each(auto&& visit) { visit("weight", weight), visit("bias", bias); }
};

Gpt small_gpt(std::uint64_t seed = 1) {
  return Gpt({.vocab = 11, .context = 12, .layers = 2, .heads = 2, .width = 16}, Rng(seed));
}

// All parameters' bits.
std::vector<float> weights_of(Gpt& model) {
  std::vector<float> all;
  for_each_parameter(model, [&](const std::string&, const Parameter& p) {
    const Tensor copy = Tensor::copy_of(p.value());
    const auto data = copy.data<float>();
    all.insert(all.end(), data.begin(), data.end());
  });
  return all;
}

}  // namespace

// -- Scopes.

TEST_CASE("a scope has a mode: a tape trains unless told otherwise, NoGrad evaluates") {
  const Tape outer;
  CHECK(is_training());
  {
    const NoGrad scope;
    CHECK_FALSE(is_training());
    const Tape inner;
    CHECK(is_training());
    const Tape evaluating({.training = false});
    CHECK_FALSE(is_training());
  }
  CHECK(is_training());
}

TEST_CASE("NoGrad computes the same numbers and records nothing") {
  const SmallModel model;
  const Tensor x = tensor({{1, -1}}, f64);
  Numbers evaluated;
  {
    const NoGrad scope;
    const Var y = model(x);
    CHECK_FALSE(y.needs_grad());
    CHECK_FALSE(variable(x).needs_grad());
    CHECK_FALSE(Var(model.weight).needs_grad());
    evaluated = numbers(y.value());
  }
  const Tape tape;
  const Var y = model(x);
  CHECK(y.needs_grad());
  CHECK(numbers(y.value()) == evaluated);
}

TEST_CASE("an inner tape sees the Vars of outer ones as constants") {
  Tape outer;
  const Var x = variable(tensor({2}, f64));
  const Var y = x * x;
  {
    Tape inner;
    const Var w = variable(tensor({3}, f64));
    const Var z = w * y * reshape(x, {1});
    CHECK(z.item() == 24);
    CHECK_FALSE((x * y).needs_grad());
    CHECK_FALSE(t(reshape(x, {1, 1})).needs_grad());
    CHECK_FALSE(expand(x, {3}).needs_grad());
    inner.backward(z);
    CHECK(w.grad().item() == 8);
    CHECK_FALSE(x.has_grad());
  }
  outer.backward(y);
  CHECK(x.grad().item() == 4);
}

TEST_CASE("a parameter is a leaf of every tape that uses it, and each tape has one") {
  const Parameter p{tensor({2}, f64)};
  Tape outer;
  const Var first = p, second = p;
  CHECK(first == second);
  {
    Tape inner;
    const Var third = p;
    CHECK_FALSE(third == first);
    inner.backward(third * third * third);
    CHECK(p.grad().item() == 12);
  }
  outer.backward(first * second);
  CHECK(p.grad().item() == 16);
}

TEST_CASE("results of NoGrad inside of a tape are constants, and end with it") {
  Tape tape;
  const Var x = variable(tensor({2}, f64));
  std::vector<Var> ended;
  Var y = x;
  {
    const NoGrad scope;
    ended.push_back(x * x);
    CHECK(ended[0].item() == 4);
  }
  CHECK_THROWS_AS(ended[0].item(), std::invalid_argument);
  y = x * 3;
  tape.backward(y);
  CHECK(x.grad().item() == 3);
}

TEST_CASE("an exception while recording leaves the tape, and tapes after it, as good as before") {
  Parameter p{tensor({1, 2}, f64)};
  for (int round = 0; round < 3; ++round) {
    try {
      const Tape tape;
      const Var y = Var(p) * 2;
      const Tape inner;
      const Var z = y + 1;
      if (z.size(0) == 2) throw std::runtime_error("the user's own");
    } catch (const std::runtime_error&) {
    }
    CHECK_THROWS_AS(is_training(), std::invalid_argument);
    CHECK_FALSE(p.has_grad());
  }
  Tape tape;
  const Var x = p;
  CHECK_THROWS_AS(matmul(x, ones({3})), std::invalid_argument);
  CHECK_THROWS_AS(embedding(reshape(x, {2, 1}), tensor({2}, i32)), std::invalid_argument);
  CHECK_THROWS_AS(cross_entropy(x, tensor(5, i32)), std::invalid_argument);
  tape.backward(sum(x * x));
  CHECK(numbers(p.grad()) == Numbers{2, 4});
}

TEST_CASE("a tape that ends before the tapes inside of it stops the program, and says why") {
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(pipe_ends[1], STDERR_FILENO);
    std::signal(SIGABRT, SIG_DFL);
    auto* outer = new Tape;
    [[maybe_unused]] auto* inner = new Tape;
    delete outer;
    _exit(0);
  }
  close(pipe_ends[1]);
  std::string said(4096, '\0');
  const ssize_t length = read(pipe_ends[0], said.data(), said.size());
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(said.substr(0, static_cast<std::size_t>(std::max<ssize_t>(length, 0)))
            .find("attune: a tape must end on its own thread, and before the tapes around it\n") !=
        std::string::npos);
}

// -- Backward, and what it refuses. Where it refuses, no gradient has changed.

TEST_CASE("backward gives the gradient of a scalar, whatever its rank") {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{1, 1}}) {
    Tape tape;
    const Var x = variable(full(shape, 3, f64));
    tape.backward(x * x);
    CHECK(x.grad().item() == 6);
  }
}

TEST_CASE("a seed is the upstream gradient of a result of any shape") {
  Tape tape;
  const Var x = variable(tensor({{1, 2}, {3, 4}}, f64));
  const Tensor seed = tensor({{1, 10}, {100, 1000}}, f64);
  tape.backward(x * x, seed);
  CHECK(numbers(x.grad()) == Numbers{2, 40, 600, 8000});

  Tape strided;
  const Var y = variable(tensor({{1, 2}, {3, 4}}, f64));
  strided.backward(y * 1, seed.view().t());
  CHECK(numbers(y.grad()) == Numbers{1, 100, 10, 1000});
}

TEST_CASE("a dual seed may carry a tangent; the one that is not given has none") {
  Tensor x = tensor({2}, DType::dual), seed = tensor({1}, DType::dual);
  seed.data<dual>()[0].tangent = 5;
  Tape tape;
  const Var v = variable(x);
  tape.backward(v * 3, seed);
  CHECK(v.grad().as<dual>()->value == 3);
  CHECK(v.grad().as<dual>()->tangent == 15);
  Tape other;
  const Var w = variable(x);
  other.backward(w * 3);
  CHECK(w.grad().as<dual>()->tangent == 0);
}

TEST_CASE("what backward refuses, it refuses before any gradient has changed") {
  Parameter p{tensor({1, 2}, f64)};
  {
    Tape tape;
    tape.backward(sum(Var(p) * 7));
  }
  const auto unchanged = [&] { return p.has_grad() && numbers(p.grad()) == Numbers{7, 7}; };
  SUBCASE("a loss that is no scalar") {
    Tape tape;
    const Var y = Var(p) * 2;
    CHECK_THROWS_WITH_AS(tape.backward(y),
                         "backward: a loss of shape [2] is not a scalar: reduce it, or give a seed",
                         std::invalid_argument);
    CHECK(unchanged());
    tape.backward(sum(y));  // which may be tried again
    CHECK(numbers(p.grad()) == Numbers{9, 9});
  }
  SUBCASE("a seed that does not fit") {
    Tape tape;
    const Var y = Var(p) * 2;
    CHECK_THROWS_WITH_AS(tape.backward(y, tensor({1, 2, 3}, f64)),
                         "backward: a seed of f64 [3] does not fit a result of f64 [2]",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(tape.backward(y, tensor({1, 2}, f32)),
                         "backward: a seed of f32 [2] does not fit a result of f64 [2]",
                         std::invalid_argument);
    CHECK(unchanged());
  }
  SUBCASE("a second time") {
    Tape tape;
    const Var loss = sum(Var(p) * 2);
    tape.backward(loss);
    CHECK_THROWS_WITH_AS(tape.backward(loss),
                         "backward: this tape was differentiated before: compute again on a new Tape, "
                         "where the gradients of parameters add up until the optimizer steps",
                         std::invalid_argument);
    CHECK(numbers(p.grad()) == Numbers{9, 9});
  }
  SUBCASE("a loss that depends on nothing") {
    Tape tape;
    const Var x = p;
    const Var loss = sum(detach(x) * 2);
    const char* message =
        "backward: the loss of shape [] depends on no parameter and no variable of this tape (those of a "
        "tape around it are constants here)";
    CHECK_THROWS_WITH_AS(tape.backward(loss), message, std::invalid_argument);
    Tape inner;
    CHECK_THROWS_WITH_AS(inner.backward(sum(x * 2)), message, std::invalid_argument);
    CHECK(unchanged());
  }
  SUBCASE("a loss of NoGrad, and of a tape around this one") {
    const char* message =
        "backward: the loss of shape [] was made in another scope (a NoGrad, or a tape around this one)";
    const NoGrad outer;
    const Var evaluated = sum(Var(p));
    Tape tape;
    CHECK_THROWS_WITH_AS(tape.backward(evaluated), message, std::invalid_argument);
    const Var loss = sum(Var(p) * 2);
    Tape inner;
    CHECK_THROWS_WITH_AS(inner.backward(loss), message, std::invalid_argument);
    CHECK(unchanged());
  }
  SUBCASE("a loss of a scope that has ended") {
    Tape tape;
    const Var x = p;
    const Var ended = [&] {
      const NoGrad scope;
      return sum(x);
    }();
    CHECK_THROWS_WITH_AS(tape.backward(ended),
                         "backward: a Var was used after its tape had ended, or on another thread",
                         std::invalid_argument);
    CHECK(unchanged());
  }
  SUBCASE("while a scope inside is open") {
    const char* message = "backward: a scope inside of this tape is still open, or this is another thread";
    Tape tape;
    const Var loss = sum(Var(p) * 2);
    {
      const NoGrad scope;
      CHECK_THROWS_WITH_AS(tape.backward(loss), message, std::invalid_argument);
    }
    {
      const Tape scope;
      CHECK_THROWS_WITH_AS(tape.backward(loss), message, std::invalid_argument);
    }
    std::string elsewhere;
    std::thread([&] {
      Tape own;
      elsewhere = message_of([&] { tape.backward(variable(tensor({1}))); });
    }).join();
    CHECK(elsewhere == message);
    CHECK(unchanged());
    tape.backward(loss);
    CHECK(numbers(p.grad()) == Numbers{9, 9});
  }
  SUBCASE("a parameter that has changed since") {
    Tape tape;
    const Var loss = sum(Var(p) * 2);
    p.mutable_value();
    CHECK_THROWS_WITH_AS(tape.backward(loss),
                         "backward: parameter (unnamed) of shape [2] was changed after this tape had "
                         "used it: step after backward",
                         std::invalid_argument);
    CHECK(unchanged());
  }
  SUBCASE("a tensor that has changed since") {
    Tensor factor = tensor({1, 2}, f64);
    Tape tape;
    const Var x = variable(tensor({1, 1}, f64)), loss = sum(Var(p) * factor + x);
    factor.set({0}, 3);
    CHECK_THROWS_AS(tape.backward(loss), std::invalid_argument);
    CHECK(unchanged());
    CHECK_FALSE(x.has_grad());
  }
}

TEST_CASE("B38: backward once per tape; tapes accumulate; a step consumes") {
  Parameter x{tensor({5}, f64)};
  const auto backward = [&] {
    Tape tape;
    tape.backward(Var(x) * 2 * 3);
  };
  backward();
  CHECK(x.grad().item() == 6);
  {
    Tape tape;
    const Var y = Var(x) * 2 * 3;
    CHECK(y.item() == 30);
    tape.backward(y);
    CHECK_THROWS_WITH_AS(tape.backward(y), "backward: this tape was differentiated before: compute again on a new Tape, where the gradients "
                         "of parameters add up until the optimizer steps", std::invalid_argument);
  }
  CHECK(x.grad().item() == 12);
  AdamW optimizer(x, {.lr = 0});
  optimizer.step();
  CHECK_FALSE(x.has_grad());
  CHECK(x.grad().item() == 0);
  backward();
  CHECK(x.grad().item() == 6);
  x.zero_grad();
  CHECK(x.grad().item() == 0);
  backward();
  CHECK(x.grad().item() == 6);
}

TEST_CASE("B41: a step between forward and backward is an error, and names the parameter") {
  SmallModel model;
  AdamW optimizer(model, {.lr = 0.1});
  const Tensor x = tensor({{1, 2}}, f64);
  const auto forward = [&] { return sum(model(x)); };
  {
    Tape tape;
    tape.backward(forward());
  }
  Tape tape;
  const Var loss = forward();
  optimizer.step();
  CHECK_THROWS_WITH_AS(tape.backward(loss),
                       "backward: parameter weight of shape [2, 2] was changed after this tape had "
                       "used it: step after backward",
                       std::invalid_argument);
  CHECK_FALSE(model.weight.has_grad());
  CHECK_FALSE(model.bias.has_grad());
  CHECK(numbers(model.weight.grad()) == Numbers{0, 0, 0, 0});
}

TEST_CASE("a parameter of an outer tape that changes before an inner tape's backward is an error") {
  Parameter p{tensor({2}, f64)};
  const Tape outer;
  const Var from_outside = p;
  Tape tape;
  const Var x = variable(tensor({3}, f64)), y = x * from_outside;
  p.mutable_value();
  CHECK_THROWS_WITH_AS(tape.backward(y),
                       "backward: parameter (unnamed) of shape [1] was changed after this tape had used "
                       "it: step after backward",
                       std::invalid_argument);
  CHECK_FALSE(x.has_grad());
}

TEST_CASE("a parameter may end before backward") {
  Tape tape;
  const Var x = variable(tensor({3}, f64));
  const Var y = [&] {
    const Parameter p{tensor({2}, f64)};
    return x * p;
  }();
  tape.backward(y);
  CHECK(x.grad().item() == 2);
}

TEST_CASE("flattening a model between forward and backward harms nothing") {
  SmallModel model;
  Tape tape;
  const Var loss = sum(model(tensor({{1, 2}}, f64)));
  flatten(model);
  tape.backward(loss);
  CHECK(model.weight.has_grad());
  SmallModel same;
  Tape other;
  other.backward(sum(same(tensor({{1, 2}}, f64))));
  CHECK(numbers(model.weight.grad()) == numbers(same.weight.grad()));
  CHECK(numbers(model.bias.grad()) == numbers(same.bias.grad()));
}

// -- When a parameter is ready.

TEST_CASE(
    "the ready callback comes once per parameter, in reverse order of first use, with the gradient "
    "complete") {
  Parameter first{tensor({2}, f64)}, second{tensor({3}, f64)}, unused{tensor({4}, f64)},
      frozen{tensor({5}, f64)};
  frozen.set_trainable(false);
  struct Ready {
    double value, gradient;
    bool operator==(const Ready&) const = default;
  };
  std::vector<Ready> order;
  {
    Tape tape;
    const Var a = first, b = second, c = unused, d = frozen;
    const Var y = a * b * d;
    const Var loss = y + a;  // a again, last
    tape.backward(loss, {.ready = [&](const Parameter& p) {
                    order.push_back({p.value().item(), p.grad().item()});
                  }});
    CHECK(c.item() == 4);
  }
  CHECK(order == std::vector<Ready>{{3, 10}, {2, 16}});
}

TEST_CASE("the ready callback of a GradientSet finds the gradient there") {
  SmallModel model;
  GradientSet set(model);
  Tape tape;
  const Var loss = sum(model(tensor({{1, 2}}, f64)));
  int calls = 0;
  tape.backward(loss, {.into = &set, .ready = [&](const Parameter& p) {
                         ++calls;
                         CHECK(set.has_grad(p));
                         CHECK_FALSE(p.has_grad());
                       }});
  CHECK(calls == 2);
}

TEST_CASE("an exception of the ready callback leaves everything reusable") {
  const std::uint64_t before = memory_use().bytes;
  {
    SmallModel model;
    for (int round = 0; round < 3; ++round) {
      Tape tape;
      const Var loss = sum(model(tensor({{1, 2}}, f64)));
      CHECK_THROWS_AS(
          tape.backward(loss, {.ready = [](const Parameter&) { throw std::runtime_error("stop"); }}),
          std::runtime_error);
      CHECK_THROWS_AS(tape.backward(loss), std::invalid_argument);
    }
    model.weight.zero_grad();
    model.bias.zero_grad();
    Tape tape;
    tape.backward(sum(model(tensor({{1, 2}}, f64))));
    SmallModel same;
    Tape other;
    other.backward(sum(same(tensor({{1, 2}}, f64))));
    CHECK(numbers(model.weight.grad()) == numbers(same.weight.grad()));
  }
  release_tape_memory();
  CHECK(memory_use().bytes <= before);
}

// -- A user's own op.

namespace {

// y = x³, in a dozen lines.
Var cube(Var x) {
  Var y = output(x.shape(), {x});
  kernels::multiply(into(y), x.value(), x.value());
  kernels::multiply(into(y), y.value(), x.value());
  return record("cube", y, [=] {
    if (Out d = add_to(x)) {  // dx += 3 x² dy
      const View square = scratch(x.shape(), x.dtype());
      kernels::multiply(square, x.value(), x.value());
      kernels::scale(square, square, 3);
      const View dx = scratch(x.shape(), x.dtype());
      kernels::multiply(dx, square, y.grad());
      kernels::copy(d, dx);
    }
  });
}

// The sum of any number of Vars of one shape, each with its factor: the rule needs lists.
Var weighted_sum(std::span<const Var> terms, std::span<const double> factors) {
  Var y = output(terms[0].shape(), terms, Saves::nothing);
  kernels::fill(into(y), 0);
  for (std::size_t i = 0; i < terms.size(); ++i)
    kernels::scale(Out(into(y).view, true), terms[i].value(), factors[i]);
  const auto kept_terms = saved(terms);
  const auto kept_factors = saved(factors);
  return record("weighted_sum", y, [=] {
    for (std::size_t i = 0; i < kept_terms.size(); ++i)
      if (Out d = add_to(kept_terms[i])) kernels::scale(d, y.grad(), kept_factors[i]);
  });
}

// sin and cos of x as two results of one op: views of one root, on which the rule sits.
std::pair<Var, Var> sincos(Var x) {
  const Index n = x.size(0);
  Var both = output({2, n}, {x});
  kernels::sin(into(both).view.select(0, 0), x.value());
  kernels::cos(into(both).view.select(0, 1), x.value());
  record("sincos", both, [=] {
    if (Out d = add_to(x)) {  // dx += dsin * cos - dcos * sin
      const View product = scratch({n}, x.dtype());
      kernels::multiply(product, both.grad().select(0, 0), both.value().select(0, 1));
      kernels::copy(d, product);
      kernels::multiply(product, both.grad().select(0, 1), both.value().select(0, 0));
      kernels::scale(Out(d.view, true), product, -1);
    }
  });
  return {select(both, 0, 0), select(both, 0, 1)};
}

}  // namespace

TEST_CASE("a user's op takes a dozen lines, and its rule may use scratch") {
  Tensor x = tensor({{0.5, -1}, {2, 0}}, f64);
  {
    Tape tape;
    const Var v = variable(x);
    tape.backward(sum(cube(v)));
    CHECK(numbers(v.grad()) == Numbers{0.75, 3, 12, 0});
  }
  CHECK(gradcheck([](Var v) { return cube(v); }, x));
  CHECK(gradcheck([](Var v) { return cube(t(v)) * cube(v); }, x));
}

TEST_CASE("a user's op with a wrong rule is found out") {
  const auto wrong_cube = [](Var x) {
    Var y = output(x.shape(), {x});
    kernels::multiply(into(y), x.value(), x.value());
    kernels::multiply(into(y), y.value(), x.value());
    return record("cube", y, [=] {
      if (Out d = add_to(x)) kernels::multiply(d, y.grad(), x.value());
    });
  };
  Tensor x = tensor({0.5, -1, 2}, f64);
  const GradcheckReport report = gradcheck(wrong_cube, x);
  CHECK_FALSE(report);
  CHECK(report.text().find("WRONG at element ") != std::string::npos);
}

TEST_CASE("a rule may need lists, also of one Var twice and of constants") {
  Tape tape;
  const Var a = variable(tensor({1, 2}, f64)), b = variable(tensor({3, 4}, f64));
  const Var terms[] = {a, b, a, tensor({5, 6}, f64)};
  const double factors[] = {1, 10, 100, 1000};
  const Var y = weighted_sum(terms, factors);
  CHECK(numbers(y.value()) == Numbers{101 + 30 + 5000, 202 + 40 + 6000});
  tape.backward(sum(y));
  CHECK(numbers(a.grad()) == Numbers{101, 101});
  CHECK(numbers(b.grad()) == Numbers{10, 10});
}

TEST_CASE("an op may have several results; the gradient of one that is not used reads as zero") {
  Tensor x = tensor({0.5, -1, 2}, f64);
  CHECK(gradcheck([](Var v) { return sincos(v).first; }, x));
  CHECK(gradcheck([](Var v) { return sincos(v).second; }, x));
  CHECK(gradcheck(
      [](Var v) {
        const auto [sine, cosine] = sincos(v);
        return sine * cosine * cosine;
      },
      x));
}

TEST_CASE("saved memory lasts for the scope, and scratch for the rule") {
  Tape tape;
  const Var x = variable(tensor({1, 2}, f64));
  const View kept = saved({2}, f64);
  kernels::fill(kept, 7);
  const Var y = output({2}, {x}, Saves::nothing);
  kernels::copy(into(y), x.value());
  record("marked", y, [=] {
    kernels::fill(scratch({1000}, f64), -1);
    if (Out d = add_to(x)) kernels::multiply(d, y.grad(), kept);
  });
  Var z = y;
  for (int i = 0; i < 100; ++i) z = z * 1;
  tape.backward(sum(z));
  CHECK(numbers(x.grad()) == Numbers{7, 7});
}

// -- A tape inside of a rule.

namespace {

// f(x) without its intermediate results, which the rule computes again (Chen et al. 2016).
template <class F>
Var recomputed(const F& f, Var x) {
  const Tensor value = [&] {
    const NoGrad scope;
    return Tensor::copy_of(f(x).value());
  }();
  Var y = output(value.shape(), {x});
  kernels::copy(into(y), value);
  const F* function = &f;
  return record("recomputed", y, [=] {
    Tensor dx;
    {
      Tape inner;
      const Var leaf = variable(Tensor::copy_of(x.value()));
      inner.backward((*function)(leaf), y.grad());
      dx = Tensor::copy_of(leaf.grad());
    }
    if (Out d = add_to(x)) kernels::copy(d, dx);
  });
}

struct TwoLayers {
  SmallModel first, second;
  void each(auto&& visit) { visit("first", first), visit("second", second); }
  Var operator()(Var x, bool recompute) const {
    if (!recompute) return second(first(x));
    return recomputed(second, recomputed(first, x));
  }
};

}  // namespace

TEST_CASE("a rule may open a tape of its own and compute again: the same bits, with less memory") {
  const Tensor input = tensor({{0.3, -2}, {1, 4}, {0, 1}}, f64);
  Numbers dx[2], gradients[2];
  for (const bool recompute : {false, true}) {
    const TwoLayers model;
    Tape tape;
    const Var x = variable(input);
    const Var y = model(x, recompute);
    tape.backward(sum(y * y));
    dx[recompute] = numbers(x.grad());
    for_each_parameter(model, [&](const std::string&, const Parameter& p) {
      for (double g : numbers(p.grad())) gradients[recompute].push_back(g);
    });
  }
  CHECK(dx[0] == dx[1]);
  CHECK(gradients[0] == gradients[1]);
}

TEST_CASE("a tape inside of a rule writes where the one around it does, and spares parameters in a report") {
  const Tensor input = tensor({{0.3, -2}}, f64);
  TwoLayers model;
  GradientSet direct(model), recomputed_set(model);
  for (const bool recompute : {false, true}) {
    Tape tape;
    tape.backward(sum(model(variable(input), recompute)), recompute ? recomputed_set : direct);
    const Numbers before = numbers(recomputed_set.grad(model.first.weight));
    tape.report();
    CHECK(numbers(recomputed_set.grad(model.first.weight)) == before);
  }
  for_each_parameter(model, [&](const std::string&, const Parameter& p) {
    CHECK_FALSE(p.has_grad());
    CHECK(numbers(p.grad()) == Numbers(static_cast<std::size_t>(p.count()), 0.0));
    CHECK(numbers(direct.grad(p)) == numbers(recomputed_set.grad(p)));
  });
  Tape tape;
  tape.backward(sum(model(variable(input), true)));
  const Numbers once = numbers(model.second.bias.grad());
  tape.report();
  CHECK(numbers(model.second.bias.grad()) == once);
}

TEST_CASE("an exception inside of a rule ends that backward alone") {
  const std::uint64_t before = memory_use().bytes;
  {
    Parameter p{tensor({1, 2}, f64)};
    for (int round = 0; round < 3; ++round) {
      Tape tape;
      const Var x = Var(p) * 1;
      Var y = output({2}, {x});
      kernels::copy(into(y), x.value());
      record("failing", y, [=] {
        add_to(x, x, x);
        throw std::runtime_error("no more");
      });
      const Var z = y * y;
      keep_grad(z);
      CHECK_THROWS_WITH_AS(tape.backward(sum(z)), "no more", std::runtime_error);
    }
    p.zero_grad();
    Tape tape;
    const Var x = p;
    tape.backward(sum(layer_norm(x * 1, x, x)));
    Parameter same{tensor({1, 2}, f64)};
    Tape other;
    const Var z = same;
    other.backward(sum(layer_norm(z * 1, z, z)));
    CHECK(numbers(p.grad()) == numbers(same.grad()));
  }
  release_tape_memory();
  CHECK(memory_use().bytes <= before);
}

// -- Long graphs.

namespace {

constexpr int kDeep = 200'000;

double gradient_of_sums(bool backward) {
  Tape tape;
  const Var x = variable(tensor(1));
  Var y = x;
  for (int i = 0; i < kDeep; ++i) y = y + 1;
  if (y.item() != 200'001) return NAN;
  if (!backward) return 0;
  tape.backward(y);
  return x.grad().item();
}

double gradient_of_two_branches() {
  Tape tape;
  const Var x = variable(tensor(1));
  Var y = x;
  for (int i = 0; i < kDeep; ++i) {
    const Var left = y * 0.5, right = y * 0.5;
    y = left + right;
  }
  tape.backward(y);
  return x.grad().item();
}

}  // namespace

TEST_CASE("B39: a graph of 200000 nodes needs no stack, and leaves no memory behind") {
  release_tape_memory();
  const std::uint64_t before = memory_use().bytes;
  CHECK(gradient_of_sums(true) == 1);
  const std::uint64_t once = memory_use().bytes;
  CHECK(gradient_of_sums(false) == 0);
  CHECK(gradient_of_sums(true) == 1);
  CHECK(memory_use().bytes == once);
  CHECK(gradient_of_two_branches() == 1);
  release_tape_memory();
  CHECK(memory_use().bytes == before);
}

TEST_CASE("B39: the same on a thread whose stack has 256 KiB") {
  const std::uint64_t before = memory_use().bytes;
  double deep = 0, dropped = 1, branches = 0;
  on_a_small_stack(std::size_t{256} << 10, [&] {
    deep = gradient_of_sums(true);
    dropped = gradient_of_sums(false);
    branches = gradient_of_two_branches();
  });
  CHECK(deep == 1);
  CHECK(dropped == 0);
  CHECK(branches == 1);
  CHECK(memory_use().bytes == before);  // a thread's memory ends with it
}

// -- Threads.

TEST_CASE("two threads with tapes of their own do not meet") {
  const auto work = [](double factor) {
    SmallModel model;
    Numbers result;
    for (int round = 0; round < 200; ++round) {
      Tape tape;
      tape.backward(sum(model(tensor({{factor, 1}}, f64)) * factor));
    }
    return numbers(model.weight.grad());
  };
  const Numbers alone[] = {work(1), work(-2)};
  Numbers together[2];
  std::thread first([&] { together[0] = work(1); }), second([&] { together[1] = work(-2); });
  first.join();
  second.join();
  CHECK(together[0] == alone[0]);
  CHECK(together[1] == alone[1]);
}

TEST_CASE("two threads may share a model, each with its GradientSet: the same bits as one after the other") {
  Gpt model = small_gpt();
  const CopyTask task({.symbols = 10, .length = 6, .seed = 3});
  const auto backward_into = [&](GradientSet& set, Index step) {
    const Batch batch = task.batch(step, 4);
    Tape tape;
    const Var logits = model(batch.inputs);
    tape.backward(cross_entropy(logits, batch.targets), set);
  };
  const auto gradients_of = [&] {
    std::vector<Numbers> all;
    for_each_parameter(model, [&](const std::string&, Parameter& p) {
      all.push_back(numbers(p.grad()));
      p.zero_grad();
    });
    return all;
  };
  GradientSet first(model), second(model);
  backward_into(first, 0);
  backward_into(second, 1);
  first.add_to_parameters();
  second.add_to_parameters();
  const auto one_after_the_other = gradients_of();
  for (int round = 0; round < 5; ++round) {
    std::thread a([&] { backward_into(first, 0); }), b([&] { backward_into(second, 1); });
    a.join();
    b.join();
    first.add_to_parameters();
    second.add_to_parameters();
    CHECK(gradients_of() == one_after_the_other);
  }
}

TEST_CASE("B34: fifty steps of training end at the same bits, on any number of threads, every time") {
  const int threads_before = threads();
  const CopyTask task({.symbols = 10, .length = 6, .seed = 7});
  const auto train = [&] {
    Gpt model({.vocab = 11, .context = 12, .layers = 1, .heads = 2, .width = 32}, Rng(5));
    AdamW optimizer(model, {.lr = 1e-3, .clip = 1});
    for (Index step = 0; step < 50; ++step) {
      const Batch batch = task.batch(step, 16);
      Tape tape;
      const Var logits = model(batch.inputs);
      tape.backward(cross_entropy(logits, batch.targets));
      optimizer.step();
    }
    return weights_of(model);
  };
  set_threads(1);
  const std::vector<float> first = train();
  CHECK(std::isfinite(first.front()));
  for (const int count : {1, 2, 4}) {
    set_threads(count);
    for (int run = 0; run < 5; ++run) {
      const std::vector<float> again = train();
      REQUIRE(again.size() == first.size());
      CHECK(std::memcmp(again.data(), first.data(), first.size() * sizeof(float)) == 0);
    }
  }
  set_threads(threads_before);
}

// -- Memory.

TEST_CASE("the third and later of equal steps allocate nothing") {
  Gpt model = small_gpt();
  AdamW optimizer(model, {.lr = 1e-3, .clip = 1});
  const Batch batch = CopyTask({.symbols = 10, .length = 6}).batch(0, 4);
  const auto step = [&] {
    Tape tape;
    const Var logits = model(batch.inputs);
    const Var loss = cross_entropy(logits, batch.targets);
    tape.backward(loss);
    optimizer.step();
    return loss.item();
  };
  const double first = step();
  step();
  const MemoryUse before = memory_use();
  const std::uint64_t news_before = calls_of_new();
  double last = 0;
  for (int i = 0; i < 5; ++i) last = step();
  CHECK(calls_of_new() == news_before);
  CHECK(memory_use().allocations == before.allocations);
  CHECK(memory_use().bytes == before.bytes);
  CHECK(last < first);
  const Parameter counted{tensor({1})};
  if (kCountsNew) CHECK(calls_of_new() > news_before);  // the counter counts
}

TEST_CASE("the memory of an evaluation loop does not grow either") {
  const Gpt model = small_gpt();
  const Batch batch = CopyTask({.symbols = 10, .length = 6}).batch(0, 4);
  const auto evaluate = [&] {
    const NoGrad scope;
    return cross_entropy(model(batch.inputs), batch.targets).item();
  };
  evaluate();
  const MemoryUse before = memory_use();
  const std::uint64_t news_before = calls_of_new();
  for (int i = 0; i < 5; ++i) evaluate();
  CHECK(calls_of_new() == news_before);
  CHECK(memory_use().allocations == before.allocations);
}

TEST_CASE("a thread's tape memory is kept for the next tape, and given back when asked") {
  release_tape_memory();
  const std::uint64_t before = memory_use().bytes;
  const Tensor x = ones({1 << 16});
  const std::uint64_t with_x = memory_use().bytes;
  const auto run = [&] {
    Tape tape;
    const Var v = variable(x);
    keep_grad(v);
    tape.backward(sum(exp(v)));
    CHECK_THROWS_WITH_AS(release_tape_memory(), "release_tape_memory: a tape is open on this thread",
                         std::invalid_argument);
  };
  run();
  const std::uint64_t after = memory_use().bytes;
  CHECK(after > with_x + (1 << 18));
  run();
  CHECK(memory_use().bytes == after);
  release_tape_memory();
  CHECK(memory_use().bytes == with_x);
  CHECK(with_x > before);
  run();
  CHECK(memory_use().bytes == after);
  release_tape_memory();
}
