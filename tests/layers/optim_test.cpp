// Clipping, AdamW and the schedule: the formulas in double, what is left alone, and what is refused.
#include "attune/layers/optim.h"

#include "../lib/kernel_check.h"
#include "attune/layers/embedding.h"
#include "attune/layers/layer_norm.h"
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

// -- clip_grad_norm

TEST_CASE("B58: clip: to the largest norm, over all parameters as one vector") {
  Parameters model(zeros({2}), zeros({1}));
  set_grad(model[0], tensor({3, 4}));
  set_grad(model[1], tensor({12}));
  CHECK(clip_grad_norm(model, 6.5) == 13);
  CHECK(values(model[0].grad()) == std::vector<double>{1.5, 2});
  CHECK(values(model[1].grad()) == std::vector<double>{6});
}

TEST_CASE("B58: clip: what is short enough keeps its bits") {
  Parameters model(zeros({2}), zeros({1}));
  set_grad(model[0], tensor({0.1, -0.2}));
  set_grad(model[1], tensor({0.3}));
  const Tensor before = Tensor::copy_of(model[0].grad());
  CHECK(clip_grad_norm(model, 100) == doctest::Approx(std::sqrt(0.14)));
  CHECK(same_bits(model[0].grad(), before));
  set_grad(model[0], tensor({3, 4}));
  set_grad(model[1], tensor({0}));
  CHECK(clip_grad_norm(model, 5) == 5);  // just the limit
  CHECK(values(model[0].grad()) == std::vector<double>{3, 4});
}

TEST_CASE("B58: clip: zeros stay zeros") {
  Parameters model(zeros({3}));
  set_grad(model[0], zeros({3}));
  CHECK(clip_grad_norm(model, 1) == 0);
  CHECK(values(model[0].grad()) == std::vector<double>{0, 0, 0});
}

TEST_CASE("B58: clip: with nothing to clip the norm is 0") {
  Parameters model(ones({3})), empty;
  CHECK(clip_grad_norm(model, 1) == 0);
  CHECK(clip_grad_norm(empty, 1) == 0);
  CHECK_FALSE(model[0].has_grad());
}

TEST_CASE("B58: clip: a norm that is not finite is reported, and nothing is scaled") {
  for (const double bad : {kInf, -kInf, kNan}) {
    Parameters model(zeros({2}), zeros({1}));
    set_grad(model[0], tensor({3, 4}));
    set_grad(model[1], full({1}, bad));
    CHECK_FALSE(std::isfinite(clip_grad_norm(model, 1)));
    CHECK(values(model[0].grad()) == std::vector<double>{3, 4});
  }
}

TEST_CASE("B58: clip: the squares of large gradients do not overflow, nor those of small ones vanish") {
  Parameters model(zeros({100}));
  set_grad(model[0], full({100}, 1e20));
  CHECK(clip_grad_norm(model, 1) == doctest::Approx(1e21).epsilon(1e-7));
  for (const double g : values(model[0].grad())) CHECK(g == doctest::Approx(0.1).epsilon(1e-5));
  set_grad(model[0], full({100}, 1e-30));
  CHECK(clip_grad_norm(model, 1) == doctest::Approx(1e-29).epsilon(1e-6));
}

TEST_CASE("clip: parameters without a gradient, and frozen ones, do not count") {
  Parameters model(zeros({2}), zeros({1}), zeros({1}));
  set_grad(model[0], tensor({3, 4}));
  set_grad(model[1], tensor({100}));
  model[1].set_trainable(false);
  CHECK(clip_grad_norm(model, 1) == 5);
  CHECK(model[1].grad().item() == 100);
}

TEST_CASE("B58: clip: a largest norm must be above 0") {
  Parameters model(zeros({2}));
  CHECK_THROWS_WITH_AS(clip_grad_norm(model, 0), "clip_grad_norm: a largest norm of 0 is not above 0",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(clip_grad_norm(model, -1), "clip_grad_norm: a largest norm of -1 is not above 0",
                       std::invalid_argument);
  CHECK_THROWS_AS(clip_grad_norm(model, kNan), std::invalid_argument);
}

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
  refused({.beta1 = 1}, "adamw: beta1 1 and beta2 0.999 must lie in [0, 1)");
  refused({.beta2 = -0.5}, "adamw: beta1 0.9 and beta2 -0.5 must lie in [0, 1)");
  refused({.epsilon = -1}, "adamw: epsilon -1, decay 0.01 and clip 0 must not be negative");
  refused({.decay = -1}, "adamw: epsilon 1e-08, decay -1 and clip 0 must not be negative");
  refused({.clip = -1}, "adamw: epsilon 1e-08, decay 0.01 and clip -1 must not be negative");
  refused({.clip = kNan}, "adamw: epsilon 1e-08, decay 0.01 and clip nan must not be negative");
  CHECK_THROWS_WITH_AS(AdamW(mixed, {}), "adamw: parameters of f32 and of f64", std::invalid_argument);
}

TEST_CASE("adamw: a model without parameters has nothing to step") {
  Parameters empty;
  AdamW optimizer(empty);
  optimizer.step();
  CHECK(optimizer.grad_norm() == 0);
}

// -- The schedule

TEST_CASE("warm-up and cosine: a table to compare with") {
  const WarmupCosine schedule{.lr = 0.1, .min_lr = 0.01, .warmup = 4, .total = 12};
  const double expected[] = {0.025,       0.05,        0.075,       0.1,   0.1,
                             0.096574579, 0.086819805, 0.072220754, 0.055, 0.037779246,
                             0.023180195, 0.013425421, 0.01};
  for (Index step = 0; step <= 12; ++step) CHECK(std::abs(schedule(step) - expected[step]) <= 5e-10);
  for (const Index step : {13, 100, 1000000}) CHECK(schedule(step) == 0.01);
}

TEST_CASE("warm-up and cosine: without a warm-up it starts at the top") {
  const WarmupCosine schedule{.lr = 0.1, .min_lr = 0.01, .warmup = 0, .total = 10};
  CHECK(schedule(0) == doctest::Approx(0.1).epsilon(1e-15));
  CHECK(schedule(5) == doctest::Approx(0.055).epsilon(1e-14));
  CHECK(schedule(10) == 0.01);
}

TEST_CASE("warm-up and cosine: with nothing but a warm-up, it falls to the least at once") {
  const WarmupCosine schedule{.lr = 0.1, .min_lr = 0.01, .warmup = 4, .total = 4};
  CHECK(schedule(3) == doctest::Approx(0.1).epsilon(1e-15));
  CHECK(schedule(4) == 0.01);
}

TEST_CASE("warm-up and cosine: neither of them, or a total below the warm-up, is no division by zero") {
  CHECK(WarmupCosine{.lr = 0.1, .min_lr = 0.01, .warmup = 0, .total = 0}(0) == 0.01);
  CHECK(WarmupCosine{.lr = 0.1, .min_lr = 0.01, .warmup = 4, .total = 2}(3) ==
        doctest::Approx(0.1).epsilon(1e-15));
  CHECK(WarmupCosine{.lr = 0.1, .min_lr = 0.01, .warmup = 4, .total = 2}(4) == 0.01);
}

TEST_CASE("warm-up and cosine: up, then never up again, never below the least") {
  const WarmupCosine schedule{.lr = 0.3, .min_lr = 0.02, .warmup = 7, .total = 50};
  CHECK(schedule(0) > 0);
  for (Index step = 1; step < 7; ++step) CHECK(schedule(step) > schedule(step - 1));
  for (Index step = 8; step < 80; ++step) {
    CHECK(schedule(step) <= schedule(step - 1));
    CHECK(schedule(step) >= 0.02);
  }
}
