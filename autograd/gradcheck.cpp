#include "attune/autograd/gradcheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "attune/autograd/op.h"
#include "attune/autograd/parameter.h"
#include "attune/lib/random.h"

namespace attune {
namespace {

// An input as numbers that can be moved, and where its analytic gradient was found.
struct Variable {
  std::string name;
  Shape shape;
  std::function<std::span<double>()> numbers;  // counts as a change
  std::optional<Tensor> gradient;
};

// Dropout drops the same at each evaluation.
Rng random_of_tapes(std::uint64_t seed) { return Rng(seed).split("dropout"); }

// The sum of upstream * f, evaluated with compensation (Neumaier 1974), so that its own rounding stays below that of f.
class Evaluation {
 public:
  Evaluation(std::function<Var()> f, std::uint64_t seed) : f_(std::move(f)), seed_(seed) {}

  double operator()() {
    Rng random = random_of_tapes(seed_);
    const Tape scope({.random = &random});  // what is differentiated is what a tape computes, dropout included
    const Tensor y = Tensor::copy_of(f_().value());
    const auto results = y.data<double>(), weights = upstream(y.shape()).data<double>();
    double sum = 0, lost = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const double term = results[i] * weights[i], next = sum + term;
      lost += std::abs(sum) >= std::abs(term) ? (sum - next) + term : (term - next) + sum;
      sum = next;
      size_ = std::max(size_, std::abs(next));
    }
    return sum + lost;
  }

  const Tensor& upstream(const Shape& shape) {
    if (!upstream_) {
      upstream_.emplace(shape, f64);
      Rng rng(seed_);
      fill_normal(upstream_->view(), rng);
    }
    return *upstream_;
  }

  // The largest number that was summed: the scale of what rounding does.
  double size() const { return size_; }

 private:
  std::function<Var()> f_;
  std::uint64_t seed_;
  std::optional<Tensor> upstream_;
  double size_ = 0;
};

// One element at another value, put back at the end.
class Moved {
 public:
  explicit Moved(double& place) : place_(place), before_(place) {}
  ~Moved() { place_ = before_; }
  Moved(const Moved&) = delete;
  Moved& operator=(const Moved&) = delete;
  double& operator*() { return place_; }

 private:
  double& place_;
  double before_;
};

double numeric_derivative(Evaluation& f, const Variable& variable, std::size_t element, double h) {
  const auto at = [&](double shift) {
    Moved x(variable.numbers()[element]);
    *x += shift;
    return f();
  };
  const double near = at(h) - at(-h), far = at(2 * h) - at(-2 * h);
  return (8 * near - far) / (12 * h);
}

// A step that is a power of two, so that x + h loses as little as can be.
double step_for(double x, double share) { return std::exp2(std::round(std::log2(share * std::max(1.0, std::abs(x))))); }

GradcheckInput compare(Evaluation& f, const Variable& variable, const GradcheckOptions& options) {
  GradcheckInput result{.name = variable.name, .shape = variable.shape, .missing = !variable.gradient};
  const auto count = static_cast<std::size_t>(variable.shape.count());
  const auto wanted = options.elements > 0 ? static_cast<std::size_t>(options.elements) : count;
  const std::size_t stride = std::max<std::size_t>(1, count / std::max<std::size_t>(1, wanted));
  double largest_difference = -1, smallest_step = std::numeric_limits<double>::infinity();
  bool finite = true;
  for (std::size_t element = 0; element < count; element += stride) {
    const double h = step_for(variable.numbers()[element], options.step);
    const double numeric = numeric_derivative(f, variable, element, h);
    const double analytic = variable.gradient ? variable.gradient->data<double>()[element] : 0;
    const double difference = std::abs(analytic - numeric);
    finite = finite && std::isfinite(analytic) && std::isfinite(numeric);
    smallest_step = std::min(smallest_step, h);
    result.largest = std::max(result.largest, std::abs(numeric));
    if (!(difference <= largest_difference)) {
      largest_difference = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
      result.worst = static_cast<Index>(element);
      result.analytic = analytic;
      result.numeric = numeric;
    }
  }
  if (count == 0) {
    result.passed = true;
    return result;
  }
  // f is exact to some units in the last place of its largest term; a difference quotient divides that by h.
  const double rounding = 64 * std::numeric_limits<double>::epsilon() * std::max(f.size(), 1e-300) / smallest_step;
  result.absolute = result.largest <= rounding;
  result.error = result.largest > 0 ? largest_difference / result.largest : largest_difference > 0 ? HUGE_VAL : 0;
  const bool close = result.absolute ? largest_difference <= rounding : result.error <= options.tolerance;
  result.passed = finite && close && (!result.missing || result.absolute);
  return result;
}

// differentiate() runs f on the tape, and backward, and leaves the gradients in the variables.
GradcheckReport check_gradients(std::vector<Variable>& variables, const std::function<Var()>& f,
                                const std::function<void(Tape&, Evaluation&)>& differentiate,
                                const GradcheckOptions& options) {
  GradcheckReport report;
  Evaluation evaluate(f, options.seed);
  const double once = evaluate(), again = evaluate();
  if (std::memcmp(&once, &again, sizeof once) != 0) {
    report.failure = fmt::format("the function is not deterministic: {:.17g} first, then {:.17g}", once, again);
    return report;
  }
  {
    Rng random = random_of_tapes(options.seed);
    Tape tape({.random = &random});
    differentiate(tape, evaluate);
  }
  for (const Variable& variable : variables) report.inputs.push_back(compare(evaluate, variable, options));
  return report;
}

void check_inputs(std::span<Tensor* const> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check(inputs[i]->dtype() == f64, "gradcheck: input {} is {}; differences need f64", i, inputs[i]->dtype());
    for (std::size_t j = 0; j < i; ++j)
      check(inputs[i] != inputs[j], "gradcheck: inputs {} and {} are one tensor; give f two uses of one Var", j, i);
  }
}

}  // namespace

GradcheckReport gradcheck(const std::function<Var(std::span<const Var>)>& f, std::span<Tensor* const> inputs,
                          const GradcheckOptions& options) {
  check_inputs(inputs);
  std::vector<Variable> variables;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    variables.push_back({fmt::format("input {}", i), inputs[i]->shape(),
                         [tensor = inputs[i]] { return tensor->data<double>(); }, std::nullopt});
  const auto leaves = [&] {
    std::vector<Var> vars;
    for (const Tensor* input : inputs) vars.push_back(variable(*input));
    return vars;
  };
  const auto forward = [&] { return f(leaves()); };
  const auto differentiate = [&](Tape& tape, Evaluation& evaluate) {
    const std::vector<Var> vars = leaves();
    const Var y = f(vars);
    if (!y.needs_grad()) return;
    tape.backward(y, evaluate.upstream(y.shape()));
    for (std::size_t i = 0; i < vars.size(); ++i)
      if (vars[i].has_grad()) variables[i].gradient = Tensor::copy_of(vars[i].grad());
  };
  return check_gradients(variables, forward, differentiate, options);
}

GradcheckReport gradcheck_parameters(const ParameterList& parameters, const std::function<Var()>& f,
                                     const GradcheckOptions& options) {
  std::vector<Variable> variables;
  std::vector<std::shared_ptr<detail::ParameterState>> checked;
  for (const auto& p : parameters.states()) {
    if (!p->trainable) continue;
    check(p->value.dtype() == f64, "gradcheck: parameter {} is {}; differences need f64: Cast(model, f64)", p->name,
          p->value.dtype());
    checked.push_back(p);
    variables.push_back({p->name, p->value.shape(),
                         [p] {
                           ++p->version;
                           return std::span(p->value.as<double>(), static_cast<std::size_t>(p->value.count()));
                         },
                         std::nullopt});
  }
  const auto differentiate = [&](Tape& tape, Evaluation& evaluate) {
    GradientSet gradients(parameters);
    const Var y = f();
    if (!y.needs_grad()) return;
    tape.backward(y, evaluate.upstream(y.shape()), {.into = &gradients});
    for (std::size_t i = 0; i < checked.size(); ++i) {
      const Parameter p = detail::ParameterAccess::from(checked[i]);
      if (gradients.has_grad(p)) variables[i].gradient = Tensor::copy_of(gradients.grad(p));
    }
  };
  return check_gradients(variables, f, differentiate, options);
}

bool GradcheckReport::passed() const {
  return failure.empty() && std::all_of(inputs.begin(), inputs.end(), [](const auto& input) { return input.passed; });
}

double GradcheckReport::error() const {
  double largest = 0;
  for (const GradcheckInput& input : inputs)
    if (!input.absolute) largest = std::max(largest, input.error);
  return largest;
}

std::string GradcheckReport::text() const {
  if (!failure.empty()) return "gradcheck: " + failure;
  std::size_t width = 5;
  for (const GradcheckInput& input : inputs) width = std::max(width, input.name.size());
  std::string text = fmt::format("{:<{}}  {:>12}  {:>10}  {:>9}", "input", width, "shape", "max |n|", "error");
  for (const GradcheckInput& input : inputs) {
    text += fmt::format("\n{:<{}}  {:>12}  {:>10.3e}  {:>9}", input.name, width, fmt::format("{}", input.shape),
                        input.largest, input.absolute ? "rounding" : fmt::format("{:.1e}", input.error));
    if (input.passed) continue;
    text += fmt::format("  WRONG at element {}: analytic {:.12g}{}, numeric {:.12g}", input.worst, input.analytic,
                        input.missing ? " (no gradient reached it)" : "", input.numeric);
  }
  return text;
}

}  // namespace attune
