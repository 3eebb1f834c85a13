// AdamW against its formula in double, over instruction sets, threads and segments.
#include "attune/lib/kernels/adamw.h"

#include "kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;
using kernels::AdamWSegment;

namespace {

// Parameters, moments and gradient of one segment, and its settings.
struct Part {
  Tensor parameter, first, second, gradient;
  double lr = 0.1, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, decay = 0, scale = 1;

  Part(Tensor p, Tensor g)
      : parameter(std::move(p)),
        first(parameter.shape(), parameter.dtype()),
        second(parameter.shape(), parameter.dtype()),
        gradient(std::move(g)) {}

  template <class T>
  AdamWSegment segment(int t) {
    return {.parameter = parameter.data<T>().data(),
            .first_moment = first.data<T>().data(),
            .second_moment = second.data<T>().data(),
            .gradient = gradient.data<T>().data(),
            .count = parameter.count(),
            .lr = lr,
            .beta1 = beta1,
            .beta2 = beta2,
            .epsilon = epsilon,
            .decay = decay,
            .correction1 = 1 - std::pow(beta1, t),
            .correction2 = 1 - std::pow(beta2, t),
            .gradient_scale = scale};
  }
  void step(int t) {
    const AdamWSegment one = parameter.dtype() == f32 ? segment<float>(t) : segment<double>(t);
    kernels::adamw({&one, 1}, parameter.dtype());
  }
};

// One element, by the book.
struct Reference {
  double p, m = 0, v = 0;
  void step(const Part& part, double gradient, int t) {
    const double g = gradient * part.scale;
    m = part.beta1 * m + (1 - part.beta1) * g;
    v = part.beta2 * v + (1 - part.beta2) * g * g;
    p -= part.lr * part.decay * p;
    const double m_hat = m / (1 - std::pow(part.beta1, t)), v_hat = v / (1 - std::pow(part.beta2, t));
    p -= part.lr * m_hat / (std::sqrt(v_hat) + part.epsilon);
  }
};

}  // namespace

TEST_CASE("adamw: decay is decoupled and comes first") {
  Part part(tensor({1}), tensor({0.5}));
  part.decay = 0.1;
  part.step(1);
  CHECK(part.parameter.at({0}) == doctest::Approx(0.890000002).epsilon(1e-6));
  CHECK(part.gradient.at({0}) == 0);
  part.gradient.set({0}, -0.25);
  part.step(2);
  CHECK(part.parameter.at({0}) == doctest::Approx(0.854466299).epsilon(1e-6));
}

TEST_CASE("adamw: epsilon comes after the correction") {
  Part part(tensor({1}), tensor({1e-8}));
  part.step(1);
  CHECK(part.parameter.at({0}) == doctest::Approx(0.95).epsilon(1e-6));
}

TEST_CASE("adamw: no gradient and no decay change nothing") {
  Part part(random({100}, f32, 1), zeros({100}));
  const Tensor before = part.parameter.clone();
  part.step(1);
  CHECK(same_bits(part.parameter, before));
  part.decay = 0.1;
  part.step(2);
  CHECK(part.parameter.at({3}) == doctest::Approx(before.at({3}) * 0.99));
}

TEST_CASE("adamw: the formula, over a thousand steps") {
  for (DType dtype : {f32, f64}) {
    Part part(random({37}, dtype, 2), Tensor({37}, dtype));
    part.lr = 1e-2;
    part.decay = 0.1;
    part.scale = 0.5;
    std::vector<Reference> expected;
    for (double p : values(part.parameter)) expected.push_back({p});
    for (int t = 1; t <= 1000; ++t) {
      part.gradient = random({37}, dtype, static_cast<std::uint64_t>(100 + t));
      const std::vector<double> gradient = values(part.gradient);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i].step(part, gradient[i], t);
      part.step(t);
    }
    std::vector<double> p;
    for (const Reference& reference : expected) p.push_back(reference.p);
    check_close(part.parameter, p, dtype == f32 ? 1e-4 : 1e-12, dtype == f32 ? 1e-5 : 1e-14);
  }
}

TEST_CASE("adamw: the same bits on every row, however many segments") {
  const Index count = 3 * 16384 + 21;
  for (DType dtype : {f32, f64}) {
    visit(dtype, [&]<class T>() {
      const auto steps = [&](Index segments) {
        Part part(random({count}, dtype, 3), random({count}, dtype, 4));
        part.decay = 0.01;
        for (int t = 1; t <= 2; ++t) {
          std::vector<AdamWSegment> list;
          for (Index s = 0; s < segments; ++s) {
            AdamWSegment piece = part.segment<T>(t);
            const Index from = count * s / segments, to = count * (s + 1) / segments;
            for (void** place :
                 {&piece.parameter, &piece.first_moment, &piece.second_moment, &piece.gradient})
              *place = static_cast<T*>(*place) + from;
            piece.count = to - from;
            list.push_back(piece);
            if (s % 3 == 0) {  // and an empty one
              list.push_back(piece);
              list.back().count = 0;
            }
          }
          kernels::adamw(list, dtype);
          CHECK(values(part.gradient) == std::vector<double>(static_cast<std::size_t>(count), 0.0));
          part.gradient = random({count}, dtype, 5);
        }
        return joined({&part.parameter, &part.first, &part.second});
      };
      const Tensor expected = on_every_row([&] { return steps(1); });
      for (Index segments : {2, 7, 1000})
        CHECK(same_bits(on_every_row([&] { return steps(segments); }), expected));
    });
  }
}

TEST_CASE("adamw: nothing to do, and what is refused") {
  kernels::adamw({}, f32);
  CHECK_THROWS_WITH_AS(kernels::adamw({}, DType::dual), "adamw: dual cannot be stepped, only f32 and f64",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(kernels::adamw({}, i32), "adamw: i32 cannot be stepped, only f32 and f64",
                       std::invalid_argument);
}
