// check_layer finds what is wrong with a layer, and finds nothing where nothing is.
#include "layer_check.h"

#include "attune/autograd/ops.h"

using namespace attune;
using namespace attune::check_layers;

namespace {

// y = x * w, with ways to be wrong.
struct Scaled {
  Parameter weight{ones({4})};
  void each(auto&& visit) { visit("weight", weight); }
};

Plain scaled(const Scaled& layer, Plains x) {
  Plain y = x[0];
  for (std::size_t i = 0; i < y.numbers.size(); ++i)
    y.numbers[i] *= layer.weight.value().at({static_cast<Index>(i % 4)});
  return y;
}

// Its rule forgets half of the weight's gradient.
Var forgetful(const Scaled& layer, Vars inputs) {
  const Var x = inputs[0], w = expand(layer.weight, x.shape());
  Var y = output(x.shape(), {x, w});
  kernels::multiply(into(y), x.value(), w.value());
  return record("forgetful", y, [=] {
    if (const Out d = add_to(x)) kernels::multiply(d, y.grad(), w.value());
    const View half = scratch(x.shape(), x.dtype());
    kernels::scale(half, x.value(), 0.5);
    if (const Out d = add_to(w)) kernels::multiply(d, y.grad(), half);
  });
}

template <class Call>
check_ops::OpReport report_of(Call call, std::vector<check_ops::Refusal> errors = {}) {
  return examine(completed(
      {.name = "Scaled", .inputs = {check_ops::real({2, 4})}, .errors = std::move(errors)},
      [] { return Scaled(); }, call, scaled));
}

bool says(const check_ops::OpReport& report, const std::string& words) {
  for (const std::string& failure : report.failures)
    if (failure.find(words) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("check_layer: a layer that is right passes") {
  const check_ops::OpReport report =
      report_of([](const Scaled& layer, Vars x) { return x[0] * layer.weight; });
  CHECK(report.failures.empty());
  CHECK(report.worst.at(check_ops::Column::gradcheck) > 0);
}

TEST_CASE("check_layer: a value that is off by a little, and a parameter whose gradient is lost") {
  CHECK(says(report_of([](const Scaled& layer, Vars x) { return x[0] * layer.weight * (1 + 1e-9); }),
             "the value is off by 1.00e-09"));
  const check_ops::OpReport lost = report_of(forgetful);
  CHECK(says(lost, "the derivative forward is off"));
  CHECK(says(lost, "WRONG"));
  CHECK(says(report_of([](const Scaled& layer, Vars x) { return x[0] * detach(layer.weight); }),
             "it threw: backward: the loss of shape [2, 4] depends on no parameter"));
}

TEST_CASE("check_layer: a result that depends on the threads") {
  CHECK(says(
      report_of([](const Scaled& layer, Vars x) { return x[0] * layer.weight * (1 + 1e-3 * threads()); }),
      "other bits in f32 on"));
}

TEST_CASE("check_layer: another message than was promised") {
  CHECK(says(report_of([](const Scaled& layer, Vars x) { return x[0] * layer.weight; }, {{[] {}, "no"}}),
             "\"no error\", not \"no\""));
}
