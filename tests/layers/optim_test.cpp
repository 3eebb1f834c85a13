// Optimizers: the formulas in double, groups, what is left alone, and what is refused.
#include "attune/layers/optim.h"

#include <memory>

#include "../lib/kernel_check.h"
#include "attune/layers/embedding.h"
#include "attune/layers/norm.h"
#include "attune/layers/transformer.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

// Named "0", "1", ...
struct Parameters {
  std::vector<Parameter> list;

  template <class... Tensors>
  explicit Parameters(const Tensors&... values) {
    (list.emplace_back(values), ...);
  }
  Parameter& operator[](std::size_t i) { return list[i]; }
  void each(auto&& visit) {
    for (std::size_t i = 0; i < list.size(); ++i) visit(std::to_string(i), list[i]);
  }
};

// The first of them alone.
struct First {
  Parameters& all;
  void each(auto&& visit) { visit("0", all[0]); }
};

// One parameter in two places.
struct Tied {
  Parameter weight{ones({1, 1})};
  void each(auto&& visit) { visit("input", weight), visit("output", weight); }
};

struct EveryKind {
  Linear linear;
  LayerNorm norm;
  Embedding embedding;
  Parameter unused{random({2, 2}, f32, 1)}, frozen{random({2, 2}, f32, 2)}, spared{ones({2, 2})};

  explicit EveryKind(Rng rng)
      : linear({.in = 2, .out = 2}, rng), norm(2), embedding({.tokens = 2, .width = 2}, rng) {}
  void each(auto&& visit) {
    visit("linear", linear), visit("norm", norm), visit("embedding", embedding);
    visit("unused", unused), visit("frozen", frozen), visit("spared", spared);
  }
};

void set_grad(Parameter& p, const ConstView& gradient) { kernels::copy(p.mutable_grad(), gradient); }

Tensor copy_of_value(const Parameter& p) { return Tensor::copy_of(p.value()); }

// AdamW of one number, by the book.
struct Reference {
  AdamWOptions options;
  double p, m = 0, v = 0;
  int t = 0;

  void step(double g, double lr) {
    ++t;
    m = options.beta1 * m + (1 - options.beta1) * g;
    v = options.beta2 * v + (1 - options.beta2) * g * g;
    p -= lr * options.decay * p;
    const double m_hat = m / (1 - std::pow(options.beta1, t)), v_hat = v / (1 - std::pow(options.beta2, t));
    p -= lr * m_hat / (std::sqrt(v_hat) + options.epsilon);
  }
};

// One weight of rank 2, stepped with these gradients.
double after(double start, const AdamWOptions& options, const std::vector<double>& gradients) {
  Parameters model(full({1, 1}, start));
  AdamW optimizer(model, options);
  for (const double g : gradients) {
    set_grad(model[0], full({1, 1}, g));
    optimizer.step();
  }
  return model[0].value().item();
}

}  // namespace

// -- AdamW

TEST_CASE("B54: adamw: decay comes first, and apart from the gradient") {
  const AdamWOptions options{.lr = 0.1, .decay = 0.1};
  CHECK(after(1, options, {0.5}) == doctest::Approx(0.890000002).epsilon(1e-6));
  CHECK(after(1, options, {0.5, -0.25}) == doctest::Approx(0.854466299).epsilon(1e-6));
}

TEST_CASE("B54: adamw: epsilon comes after the bias correction") {
  CHECK(after(1, {.lr = 0.1, .decay = 0}, {1e-8}) == doctest::Approx(0.95).epsilon(1e-6));
}

TEST_CASE("adamw: the formula, over a hundred steps with a changing rate, parameters that pause included") {
  for (const DType dtype : {f32, f64}) {
    Parameters model(random({3, 5}, dtype, 1), random({4}, dtype, 2));
    const AdamWOptions options{.lr = 1e-2, .beta1 = 0.8, .beta2 = 0.95, .decay = 0.2};
    AdamW optimizer(model, options);
    std::vector<Reference> expected[2];
    for (std::size_t i = 0; i < 2; ++i)
      for (const double p : values(model[i].value())) expected[i].push_back({options, p});
    for (Reference& one : expected[1]) one.options.decay = 0;  // a vector
    for (int step = 0; step < 100; ++step) {
      const double lr = 1e-2 / (1 + step);
      optimizer.set_lr(lr);
      for (std::size_t i = 0; i < 2; ++i) {
        if (i == 1 && step % 3 == 1) continue;  // no gradient this time: its step count stays too
        const Tensor gradient =
            random(model[i].shape(), dtype, static_cast<std::uint64_t>(10 + 2 * step) + i);
        set_grad(model[i], gradient);
        const std::vector<double> numbers = values(gradient);
        for (std::size_t j = 0; j < numbers.size(); ++j) expected[i][j].step(numbers[j], lr);
      }
      optimizer.step();
    }
    for (std::size_t i = 0; i < 2; ++i) {
      std::vector<double> numbers;
      for (const Reference& one : expected[i]) numbers.push_back(one.p);
      check_close(model[i].value(), numbers, dtype == f32 ? 1e-5 : 1e-13, dtype == f32 ? 1e-6 : 1e-14);
    }
  }
}

TEST_CASE("B55: adamw: decay reaches matrices, not biases, gains, frozen parameters or those without a gradient") {
  EveryKind model{Rng(1)};
  Parameter* ones_at_first[] = {&model.linear.weight, &model.linear.bias,      &model.norm.weight,
                                &model.norm.bias,     &model.embedding.weight, &model.spared};
  for (Parameter* p : ones_at_first) kernels::fill(p->mutable_value(), 1);
  model.spared.set_decay(false);
  model.frozen.set_trainable(false);
  const Tensor unused = copy_of_value(model.unused), frozen = copy_of_value(model.frozen);
  AdamW optimizer(model, {.lr = 0.1, .decay = 0.1});
  for_each_parameter(model, [&](const std::string&, Parameter& p) {
    if (&p != &model.unused) kernels::fill(p.mutable_grad(), 0);
  });
  optimizer.step();
  for (const double x : values(model.linear.weight.value())) CHECK(x == doctest::Approx(0.99).epsilon(1e-7));
  for (const double x : values(model.embedding.weight.value()))
    CHECK(x == doctest::Approx(0.99).epsilon(1e-7));
  for (const Parameter* p : {&model.linear.bias, &model.norm.weight, &model.norm.bias, &model.spared})
    for (const double x : values(p->value())) CHECK(x == 1);
  CHECK(same_bits(model.unused.value(), unused));
  CHECK(same_bits(model.frozen.value(), frozen));
}

TEST_CASE("B55: adamw: decay spares the gain of an rms norm") {
  RmsNorm norm(4);
  AdamW optimizer(norm, {.lr = 0.1, .decay = 0.1});
  set_grad(norm.weight, zeros({4}));
  optimizer.step();
  CHECK(values(norm.weight.value()) == std::vector<double>(4, 1));
}

// A parameter owns its numbers, row-major, so it is never a view itself: what may be transposed is how it is used, and
// what it starts from.
TEST_CASE("B31: a parameter that is used transposed steps as one that is stored so") {
  const Tensor start = random({3, 4}, f32, 1), x = random({5, 4}, f32, 2);
  Parameters as_is(Tensor::copy_of(start.view().t())), turned(start);
  AdamW first(as_is, {.lr = 0.1, .decay = 0.1}), second(turned, {.lr = 0.1, .decay = 0.1});
  for (int step = 0; step < 3; ++step) {
    {
      Tape tape;
      const Var y = matmul(x, as_is[0]);
      tape.backward(sum(y * y));
    }
    {
      Tape tape;
      const Var y = matmul(x, t(turned[0]));
      tape.backward(sum(y * y));
    }
    first.step();
    second.step();
    CHECK(same_bits(turned[0].value().t(), as_is[0].value()));
  }
}

TEST_CASE("B55: adamw: a parameter that is visited twice is stepped once") {
  Tied model;
  CHECK(ParameterList(model).states().size() == 1);
  AdamW optimizer(model, {.lr = 0.1, .decay = 0.1});
  set_grad(model.weight, full({1, 1}, 0.5));
  optimizer.step();
  CHECK(model.weight.value().item() == doctest::Approx(0.890000002).epsilon(1e-6));
  CHECK(optimizer.grad_norm() == 0.5);
}

TEST_CASE("adamw: a step consumes the gradients and leaves zeros, and without new ones nothing moves") {
  Parameters model(random({3, 2}, f32, 1));
  AdamW optimizer(model, {.lr = 0.1});
  set_grad(model[0], ones({3, 2}));
  optimizer.step();
  CHECK_FALSE(model[0].has_grad());
  CHECK(values(model[0].grad()) == std::vector<double>(6, 0.0));
  const Tensor once = copy_of_value(model[0]);
  optimizer.step();
  CHECK(same_bits(model[0].value(), once));
  CHECK(optimizer.grad_norm() == 0);
  CHECK(optimizer.skipped() == 0);
}

TEST_CASE("B58: adamw: a step whose norm is not finite is skipped and counted, and leaves no trace") {
  for (const double bad : {kInf, kNan}) {
    Parameters model(random({3, 2}, f32, 1), random({4}, f32, 2)),
        other(random({3, 2}, f32, 1), random({4}, f32, 2));
    AdamW optimizer(model, {.lr = 0.1, .clip = 1}), undisturbed(other, {.lr = 0.1, .clip = 1});
    const auto usual_step = [](Parameters& parameters, AdamW& steps, std::uint64_t seed) {
      set_grad(parameters[0], random({3, 2}, f32, seed));
      set_grad(parameters[1], random({4}, f32, seed + 1));
      steps.step();
    };
    usual_step(model, optimizer, 10);
    usual_step(other, undisturbed, 10);
    set_grad(model[0], ones({3, 2}));
    Tensor gradient = ones({4});
    gradient.set({2}, bad);
    set_grad(model[1], gradient);
    optimizer.step();
    CHECK(optimizer.skipped() == 1);
    CHECK_FALSE(std::isfinite(optimizer.grad_norm()));
    CHECK_FALSE(model[0].has_grad());
    CHECK(values(model[1].grad()) == std::vector<double>(4, 0.0));
    for (std::size_t i = 0; i < 2; ++i) CHECK(same_bits(model[i].value(), other[i].value()));
    usual_step(model, optimizer, 20);  // moments and step counts show in the next step
    usual_step(other, undisturbed, 20);
    for (std::size_t i = 0; i < 2; ++i) CHECK(same_bits(model[i].value(), other[i].value()));
    CHECK(optimizer.skipped() == 1);
  }
}

TEST_CASE("adamw: its clipping is clip_grad_norm before the step") {
  Parameters inside(random({30, 7}, f32, 1), random({11}, f32, 2)),
      before(random({30, 7}, f32, 1), random({11}, f32, 2));
  AdamW clips(inside, {.lr = 0.1, .clip = 0.5}), plain(before, {.lr = 0.1});
  for (std::uint64_t step = 0; step < 5; ++step) {
    for (Parameters* model : {&inside, &before})
      for (std::size_t i = 0; i < 2; ++i)
        set_grad((*model)[i], random((*model)[i].shape(), f32, 10 + 2 * step + i));
    const double norm = clip_grad_norm(before, 0.5);
    clips.step();
    plain.step();
    CHECK(clips.grad_norm() == norm);
    CHECK(plain.grad_norm() == doctest::Approx(0.5).epsilon(1e-6));
    for (std::size_t i = 0; i < 2; ++i) CHECK(same_bits(inside[i].value(), before[i].value()));
  }
}

TEST_CASE("adamw: the same bits on every row and for any number of threads") {
  on_every_row([] {
    Parameters model(random({300, 70}, f32, 1), random({13}, f32, 2), random({1, 1}, f32, 3));
    AdamW optimizer(model, {.lr = 0.1, .decay = 0.1, .clip = 1});
    for (std::uint64_t step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < 3; ++i)
        set_grad(model[i], random(model[i].shape(), f32, 10 + 3 * step + i));
      optimizer.step();
    }
    const Tensor a = copy_of_value(model[0]), b = copy_of_value(model[1]), c = copy_of_value(model[2]);
    return joined({&a, &b, &c});
  });
  CHECK(threads() >= 1);
}

TEST_CASE("adamw: one optimizer for a part and one for the rest") {
  Parameters model(ones({2, 2}), ones({2, 2}));
  First first{model};
  AdamW whole(model, {.lr = 0.1, .decay = 0}), part(first, {.lr = 0.1, .decay = 0});
  set_grad(model[0], ones({2, 2}));
  part.step();
  CHECK(model[0].value().at({1, 1}) == doctest::Approx(0.9));
  CHECK(model[1].value().at({1, 1}) == 1);
  set_grad(model[1], ones({2, 2}));
  whole.step();
  CHECK(model[0].value().at({1, 1}) == doctest::Approx(0.9));
  CHECK(model[1].value().at({1, 1}) == doctest::Approx(0.9));
}

TEST_CASE("adamw: it goes on where the model is moved to") {
  Parameters model(ones({2, 2}));
  AdamW optimizer(model, {.lr = 0.1, .decay = 0});
  Parameters moved = std::move(model);
  set_grad(moved[0], ones({2, 2}));
  optimizer.step();
  CHECK(moved[0].value().at({0, 0}) == doctest::Approx(0.9));
}

TEST_CASE("adamw: a model that was cast since is refused, and nothing has changed") {
  Parameters model(ones({2, 2}));
  AdamW optimizer(model);
  const Cast cast(model, f64);
  set_grad(model[0], ones({2, 2}, f64));
  CHECK_THROWS_WITH_AS(optimizer.step(), "adamw: 0 is f64 now, and was f32 when this optimizer was made",
                       std::invalid_argument);
  CHECK(values(model[0].value()) == std::vector<double>(4, 1.0));
  CHECK(values(model[0].grad()) == std::vector<double>(4, 1.0));
  CHECK(model[0].has_grad());
}

TEST_CASE("adamw: settings that are refused") {
  Parameters model(ones({2, 2})), mixed(ones({2}), ones({2}, f64));
  AdamW optimizer(model, {.lr = 0.5});
  const auto refused = [&](const AdamWOptions& options, const char* message) {
    CHECK_THROWS_WITH_AS(AdamW(model, options), message, std::invalid_argument);
  };
  CHECK_THROWS_WITH_AS(optimizer.set_lr(-1), "adamw: a learning rate of -1 is no rate",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(optimizer.set_lr(kInf), "adamw: a learning rate of inf is no rate",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(optimizer.set_lr(kNan), "adamw: a learning rate of nan is no rate",
                       std::invalid_argument);
  CHECK(optimizer.lr() == 0.5);
  optimizer.set_lr(0);
  CHECK(optimizer.lr() == 0);
  refused({.lr = -1}, "adamw: a learning rate of -1 is no rate");
  refused({.beta1 = 1}, "adamw: beta1 is 1, and must lie in [0, 1)");
  refused({.beta2 = -0.5}, "adamw: beta2 is -0.5, and must lie in [0, 1)");
  refused({.epsilon = -1}, "adamw: epsilon is -1, and must not be negative");
  refused({.decay = -1}, "adamw: decay is -1, and must not be negative");
  refused({.clip = -1}, "adamw: clip is -1 and clip_epsilon 0, and they must not be negative");
  refused({.clip = kNan}, "adamw: clip is nan and clip_epsilon 0, and they must not be negative");
  refused({.clip_epsilon = -1}, "adamw: clip is 0 and clip_epsilon -1, and they must not be negative");
  CHECK_THROWS_WITH_AS(Lion(model, {.beta2 = 1}), "lion: beta2 is 1, and must lie in [0, 1)", std::invalid_argument);
  CHECK_THROWS_WITH_AS(Sgd(model, {.momentum = -1}), "sgd: momentum is -1, and must lie in [0, 1)",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(Sgd(model, {.nesterov = true}), "sgd: Nesterov's form needs a momentum above 0",
                       std::invalid_argument);
  for (const double divisor : {0.0, -1.0, kInf, kNan}) CHECK_THROWS_AS(optimizer.step(divisor), std::invalid_argument);
  CHECK_THROWS_WITH_AS(optimizer.step(0), "adamw: gradients cannot be divided by 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(AdamW(mixed, {}), "adamw: parameters of f32 and of f64", std::invalid_argument);
}

TEST_CASE("adamw: a model without parameters has nothing to step") {
  Parameters empty;
  AdamW optimizer(empty);
  optimizer.step();
  CHECK(optimizer.grad_norm() == 0);
}

// -- All of them

namespace {

// Calls f with the way to make each optimizer for a model.
template <class F>
void each_optimizer(F&& f) {
  f("sgd", [](auto& model) { return std::make_unique<Sgd>(model, SgdOptions{.lr = 0.1, .decay = 0.1}); });
  f("momentum", [](auto& model) {
    return std::make_unique<Sgd>(model, SgdOptions{.lr = 0.1, .momentum = 0.9, .decay = 0.1, .clip = 1});
  });
  f("nesterov", [](auto& model) {
    return std::make_unique<Sgd>(model, SgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true});
  });
  f("adam", [](auto& model) { return std::make_unique<Adam>(model, AdamOptions{.lr = 0.1, .decay = 0.1}); });
  f("adamw", [](auto& model) { return std::make_unique<AdamW>(model, AdamWOptions{.lr = 0.1, .clip = 1}); });
  f("lion", [](auto& model) { return std::make_unique<Lion>(model, LionOptions{.lr = 0.1, .decay = 0.1}); });
}

}  // namespace

TEST_CASE("B55: every optimizer leaves frozen parameters, those without a gradient, and vectors' decay alone") {
  each_optimizer([](const char* name, auto make) {
    CAPTURE(name);
    Parameters model(ones({2, 2}), ones({2}), random({2, 2}, f32, 1), random({2, 2}, f32, 2));
    const Tensor unused = copy_of_value(model[2]), frozen = copy_of_value(model[3]);
    model[3].set_trainable(false);
    const auto optimizer = make(model);
    set_grad(model[0], zeros({2, 2}));
    set_grad(model[1], zeros({2}));
    set_grad(model[3], ones({2, 2}));
    optimizer->step();
    CHECK(values(model[1].value()) == std::vector<double>{1, 1});
    CHECK(model[0].value().at({0, 0}) <= 1);
    CHECK(same_bits(model[2].value(), unused));
    CHECK(same_bits(model[3].value(), frozen));
    CHECK(model[3].has_grad());
  });
}

TEST_CASE("B58: every optimizer skips a step that is not finite, says why, and goes on as if it had not been") {
  each_optimizer([](const char* name, auto make) {
    CAPTURE(name);
    Parameters model(random({3, 2}, f32, 1), random({4}, f32, 2)),
        other(random({3, 2}, f32, 1), random({4}, f32, 2));
    const auto optimizer = make(model), undisturbed = make(other);
    CHECK(optimizer->why_skipped().empty());
    const auto usual_step = [](Parameters& parameters, Optimizer& steps, std::uint64_t seed) {
      set_grad(parameters[0], random({3, 2}, f32, seed));
      set_grad(parameters[1], random({4}, f32, seed + 1));
      steps.step();
    };
    usual_step(model, *optimizer, 10);
    usual_step(other, *undisturbed, 10);
    set_grad(model[0], ones({3, 2}));
    set_grad(model[1], tensor({kNan, 1, -kInf, kInf}));
    optimizer->step();
    CHECK(optimizer->skipped() == 1);
    REQUIRE(optimizer->bad_gradients().size() == 1);
    const BadGradient bad = optimizer->bad_gradients()[0];
    CHECK(bad.parameter == "1");
    CHECK(bad.nans == 1);
    CHECK(bad.infinities == 2);
    CHECK(optimizer->why_skipped().find(": skipped: the gradient of 1 has 1 NaN and 2 infinite of 4 elements") !=
          std::string::npos);
    usual_step(model, *optimizer, 20);
    usual_step(other, *undisturbed, 20);
    for (std::size_t i = 0; i < 2; ++i) CHECK(same_bits(model[i].value(), other[i].value()));
  });
}

TEST_CASE("B58: finite gradients whose norm is beyond a double are skipped, and that is said") {
  Parameters model(zeros({2}, f64));
  AdamW optimizer(model);
  set_grad(model[0], full({2}, 1e300, f64));
  optimizer.step();
  CHECK(optimizer.skipped() == 1);
  CHECK(optimizer.bad_gradients().empty());
  CHECK(optimizer.why_skipped() == "adamw: skipped: the gradients' norm is too large for a double");
}

TEST_CASE("B51: a step with a divisor is one with gradients that were divided before") {
  each_optimizer([](const char* name, auto make) {
    CAPTURE(name);
    Parameters divided(random({3, 2}, f64, 1)), plain(random({3, 2}, f64, 1));
    const auto a = make(divided), b = make(plain);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const Tensor gradient = random({3, 2}, f64, 10 + step);
      set_grad(divided[0], gradient);
      kernels::scale(plain[0].mutable_grad(), gradient, 0.25);  // exact
      a->step(4);
      b->step();
      CHECK(a->grad_norm() == b->grad_norm());
      check_close(divided[0].value(), values(plain[0].value()), 1e-14);
    }
  });
}

TEST_CASE("every optimizer: the same bits on every row and for any number of threads") {
  each_optimizer([](const char* name, auto make) {
    CAPTURE(name);
    on_every_row([&] {
      Parameters model(random({300, 70}, f32, 1), random({13}, f32, 2), random({1, 1}, f32, 3));
      const auto optimizer = make(model);
      for (std::uint64_t step = 0; step < 3; ++step) {
        for (std::size_t i = 0; i < 3; ++i) set_grad(model[i], random(model[i].shape(), f32, 10 + 3 * step + i));
        optimizer->step();
      }
      const Tensor a = copy_of_value(model[0]), b = copy_of_value(model[1]), c = copy_of_value(model[2]);
      return joined({&a, &b, &c});
    });
  });
}

TEST_CASE("an optimizer of one's own is a class that says how to move") {
  class Follow : public Optimizer {
   public:
    explicit Follow(const ParameterList& parameters)
        : Optimizer("follow", parameters, {.lr = 0.5, .decay = 0, .coupled_decay = false, .clip = 1, .clip_epsilon = 0,
                                           .groups = {}}, 0) {}

   private:
    void move(std::span<const kernels::StepSegment> segments, DType type) override { kernels::sgd(segments, {}, type); }
  };
  Parameters model(zeros({2}));
  Follow optimizer{ParameterList(model)};
  set_grad(model[0], tensor({3, 4}));
  optimizer.step();
  check_close(model[0].value(), {-0.3, -0.4}, 1e-6);
}

// -- Groups

TEST_CASE("B55: the default groups: what decays, what does not, and a shared parameter once") {
  EveryKind model{Rng(1)};
  model.spared.set_decay(false);
  model.frozen.set_trainable(false);
  const AdamW optimizer(model, {.lr = 0.1, .decay = 0.2});
  const std::vector<GroupReport> groups = optimizer.groups();
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].lr == 0.1);
  CHECK(groups[0].decay == 0.2);
  using Names = std::vector<std::string>;
  CHECK(groups[0].names == Names{"linear.weight", "embedding.weight", "unused"});
  CHECK(groups[1].decay == 0);
  CHECK(groups[1].names == Names{"linear.bias", "norm.weight", "norm.bias", "spared"});
  Tied tied;
  const AdamW shared(tied);
  REQUIRE(shared.groups().size() == 1);
  CHECK(shared.groups()[0].names == Names{"input"});
}

TEST_CASE("B55: groups with rates and decays of their own, the first that matches") {
  EveryKind model{Rng(1)};
  AdamW optimizer(model, {.lr = 0.1,
                          .decay = 0.2,
                          .groups = {{.match = "embedding.*", .lr_scale = 0.5, .decay = 0},
                                     {.match = "norm.bias", .decay = 0.3},
                                     {.match = "*.bias", .lr_scale = 2}}});
  const auto at = [&](std::size_t i) { return optimizer.groups().at(i); };
  using Names = std::vector<std::string>;
  REQUIRE(optimizer.groups().size() == 5);
  CHECK(at(0).names == Names{"embedding.weight"});
  CHECK(at(0).lr == 0.05);
  CHECK(at(0).decay == 0);
  CHECK(at(1).names == Names{"norm.bias"});
  CHECK(at(1).decay == 0.3);
  CHECK(at(2).names == Names{"linear.bias"});
  CHECK(at(2).lr == 0.2);
  CHECK(at(2).decay == 0);
  CHECK(at(3).names == Names{"linear.weight", "unused", "frozen", "spared"});
  CHECK(at(4).names == Names{"norm.weight"});

  optimizer.set_lr(0.01);  // groups keep their ratio
  CHECK(at(0).lr == 0.005);
  CHECK(at(2).lr == 0.02);
  CHECK(optimizer.lr() == 0.01);
}

TEST_CASE("a group's rate and decay are those of its steps") {
  Parameters model(ones({1, 1}, f64), ones({1, 1}, f64), ones({1}, f64));
  Sgd optimizer(model, {.lr = 0.1, .groups = {{.match = "1", .lr_scale = 3}, {.match = "2", .decay = 0.5}}});
  for (std::size_t i = 0; i < 3; ++i) set_grad(model[i], ones(model[i].shape(), f64));
  optimizer.step();
  CHECK(model[0].value().item() == doctest::Approx(0.9).epsilon(1e-15));
  CHECK(model[1].value().item() == doctest::Approx(0.7).epsilon(1e-15));
  CHECK(model[2].value().item() == doctest::Approx(0.85).epsilon(1e-15));  // 1 - 0.1 (1 + 0.5 * 1)
}

TEST_CASE("groups that are refused") {
  EveryKind model{Rng(1)};
  const auto refused = [&](std::vector<ParameterGroup> groups, const char* message) {
    CHECK_THROWS_WITH_AS(AdamW(model, {.groups = std::move(groups)}), message, std::invalid_argument);
  };
  refused({{.match = "norms.*"}},
          "adamw: group 'norms.*': no such parameter; did you mean norm.weight? There are linear.weight, linear.bias, "
          "norm.weight, norm.bias, embedding.weight, unused, frozen, spared");
  refused({{.match = "*.bias"}, {.match = "norm.bias"}},
          "adamw: group 'norm.bias' matches only parameters that an earlier group has");
  refused({{.match = "*", .lr_scale = -1}}, "adamw: group '*': lr_scale is -1, and must not be negative");
  refused({{.match = "*", .decay = kNan}}, "adamw: group '*': decay is nan, and must not be negative");
}
