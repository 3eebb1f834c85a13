// The rules of the optimizers against their formulas in double, over instruction sets, threads and segments.
#include "attune/lib/kernels/optimizer_steps.h"

#include "kernel_check.h"
#include "../support/sanitized.h"

using namespace attune;
using namespace attune::check_kernels;
using kernels::StepSegment;

namespace {

enum class Kind { sgd, momentum, nesterov, adam, lion };
constexpr Kind kKinds[] = {Kind::sgd, Kind::momentum, Kind::nesterov, Kind::adam, Kind::lion};

void run(Kind kind, std::span<const StepSegment> segments, DType dtype) {
  if (kind == Kind::adam) return kernels::adam(segments, {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}, dtype);
  if (kind == Kind::lion) return kernels::lion(segments, {.beta1 = 0.9, .beta2 = 0.99}, dtype);
  kernels::sgd(segments, {.momentum = kind == Kind::sgd ? 0 : 0.9, .nesterov = kind == Kind::nesterov}, dtype);
}

// Parameters, what is remembered of them, their gradient, and their settings.
struct Part {
  Tensor parameter, first, second, gradient;
  double lr = 0.1, decay = 0, coupled_decay = 0, scale = 1;

  Part(Tensor p, Tensor g)
      : parameter(std::move(p)),
        first(parameter.shape(), parameter.dtype()),
        second(parameter.shape(), parameter.dtype()),
        gradient(std::move(g)) {}

  StepSegment segment(int t) {
    return {.parameter = parameter.view().data(),
            .gradient = gradient.view().data(),
            .slots = {first.view().data(), second.view().data()},
            .count = parameter.count(),
            .step = t,
            .lr = lr,
            .decay = decay,
            .coupled_decay = coupled_decay,
            .gradient_scale = scale};
  }
  void step(Kind kind, int t) {
    const StepSegment one = segment(t);
    run(kind, {&one, 1}, parameter.dtype());
  }
};

// One element, by the book.
struct Reference {
  double p, m = 0, v = 0;

  void step(Kind kind, const Part& part, double gradient, int t) {
    const double g = gradient * part.scale + part.coupled_decay * p;
    p -= part.lr * part.decay * p;
    if (kind == Kind::sgd) {
      p -= part.lr * g;
    } else if (kind == Kind::momentum || kind == Kind::nesterov) {
      m = 0.9 * m + g;
      p -= part.lr * (kind == Kind::nesterov ? g + 0.9 * m : m);
    } else if (kind == Kind::adam) {
      m = 0.9 * m + (1 - 0.9) * g;
      v = 0.999 * v + (1 - 0.999) * g * g;
      p -= part.lr * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
    } else {
      const double c = 0.9 * m + (1 - 0.9) * g;
      p -= part.lr * (c > 0 ? 1 : c < 0 ? -1 : 0);
      m = 0.99 * m + (1 - 0.99) * g;
    }
  }
};

}  // namespace

TEST_CASE("B54: adam: decoupled decay comes first, and apart from the gradient") {
  Part part(tensor({1}), tensor({0.5}));
  part.decay = 0.1;
  part.step(Kind::adam, 1);
  CHECK(part.parameter.at({0}) == doctest::Approx(0.890000002).epsilon(1e-6));
  CHECK(part.gradient.at({0}) == 0);
  part.gradient.set({0}, -0.25);
  part.step(Kind::adam, 2);
  CHECK(part.parameter.at({0}) == doctest::Approx(0.854466299).epsilon(1e-6));
}

TEST_CASE("B54: adam: coupled decay is part of the gradient") {
  Part part(tensor({1}), tensor({0.5}));
  part.coupled_decay = 0.1;
  part.step(Kind::adam, 1);
  CHECK(part.parameter.at({0}) == doctest::Approx(0.900000002).epsilon(1e-6));
}

TEST_CASE("B54: adam: epsilon comes after the correction") {
  Part part(tensor({1}), tensor({1e-8}));
  part.step(Kind::adam, 1);
  CHECK(part.parameter.at({0}) == doctest::Approx(0.95).epsilon(1e-6));
}

TEST_CASE("momentum: a constant gradient is followed faster and faster") {
  Part part(tensor({0}), tensor({1}));
  part.step(Kind::momentum, 1);
  CHECK(part.parameter.at({0}) == doctest::Approx(-0.1));
  part.gradient.set({0}, 1);
  part.step(Kind::momentum, 2);
  CHECK(part.parameter.at({0}) == doctest::Approx(-0.29));  // 0.1 (1 + 1.9)
  Part looks_ahead(tensor({0}), tensor({1}));
  looks_ahead.step(Kind::nesterov, 1);
  CHECK(looks_ahead.parameter.at({0}) == doctest::Approx(-0.19));
}

TEST_CASE("lion: every parameter moves by the rate, or not at all") {
  Part part(tensor({1, 1, 1, 1}), tensor({1e-30, -1e30, 0, -0.0}));
  part.step(Kind::lion, 1);
  check_close(part.parameter, {0.9, 1.1, 1, 1}, 1e-6);
  CHECK(part.parameter.at({2}) == 1);
}

TEST_CASE("optimizer steps: no gradient and no decay change nothing") {
  for (const Kind kind : kKinds) {
    Part part(random({100}, f32, 1), zeros({100}));
    const Tensor before = part.parameter.clone();
    part.step(kind, 1);
    CHECK(same_bits(part.parameter, before));
    part.decay = 0.1;
    part.step(kind, 2);
    CHECK(part.parameter.at({3}) == doctest::Approx(before.at({3}) * 0.99));
  }
}

TEST_CASE("optimizer steps: the formulas, over a hundred steps") {
  for (const Kind kind : kKinds)
    for (const DType dtype : {f32, f64})
      for (const bool coupled : {false, true}) {
        Part part(random({37}, dtype, 2), Tensor({37}, dtype));
        part.lr = 1e-2;
        (coupled ? part.coupled_decay : part.decay) = 0.1;
        part.scale = 0.5;
        std::vector<Reference> expected;
        for (double p : values(part.parameter)) expected.push_back({p});
        for (int t = 1; t <= 100; ++t) {
          part.gradient = random({37}, dtype, static_cast<std::uint64_t>(100 + t));
          const std::vector<double> gradient = values(part.gradient);
          for (std::size_t i = 0; i < expected.size(); ++i) expected[i].step(kind, part, gradient[i], t);
          part.step(kind, t);
        }
        std::vector<double> p;
        for (const Reference& reference : expected) p.push_back(reference.p);
        CAPTURE(static_cast<int>(kind));
        check_close(part.parameter, p, dtype == f32 ? 1e-4 : 1e-12, dtype == f32 ? 1e-5 : 1e-14);
      }
}

TEST_CASE("optimizer steps: the same bits on every row, however many segments") {
  const Index count = 3 * 16384 + 21;
  for (const Kind kind : kKinds)
    for (const DType dtype : {f32, f64}) {
      const auto steps = [&](Index segments) {
        Part part(random({count}, dtype, 3), random({count}, dtype, 4));
        part.decay = 0.01;
        part.coupled_decay = 0.02;
        for (int t = 1; t <= 2; ++t) {
          std::vector<StepSegment> list;
          for (Index s = 0; s < segments; ++s) {
            StepSegment piece = part.segment(t);
            const Index from = count * s / segments, to = count * (s + 1) / segments;
            for (void** place : {&piece.parameter, &piece.slots[0], &piece.slots[1], &piece.gradient})
              *place = static_cast<char*>(*place) + from * size_of(dtype);
            piece.count = to - from;
            list.push_back(piece);
            if (s % 3 == 0) {  // and an empty one
              list.push_back(piece);
              list.back().count = 0;
            }
          }
          run(kind, list, dtype);
          CHECK(values(part.gradient) == std::vector<double>(static_cast<std::size_t>(count), 0.0));
          part.gradient = random({count}, dtype, 5);
        }
        return joined({&part.parameter, &part.first, &part.second});
      };
      const Tensor expected = on_every_row([&] { return steps(1); });
      for (Index segments : kSanitized ? std::vector<Index>{7} : std::vector<Index>{2, 7, 1000})
        CHECK(same_bits(on_every_row([&] { return steps(segments); }), expected));
    }
}

TEST_CASE("optimizer steps: nothing to do, and what is refused") {
  for (const Kind kind : kKinds) run(kind, {}, f32);
  CHECK_THROWS_WITH_AS(kernels::adam({}, {}, DType::dual), "adam: dual cannot be stepped, only f32 and f64",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::sgd({}, {}, i32), "sgd: i32 cannot be stepped, only f32 and f64",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::lion({}, {}, i32), "lion: i32 cannot be stepped, only f32 and f64",
                       std::invalid_argument);
}
