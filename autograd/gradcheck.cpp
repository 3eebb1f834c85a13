#include "attune/autograd/gradcheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "attune/autograd/op.h"
#include "attune/autograd/parameter.h"
#include "attune/autograd/workspace.h"
#include "attune/lib/random.h"

namespace attune {
namespace {

// An input as numbers that can be moved, and where its analytic gradient was found.
struct Variable {
  std::string name;
  Shape shape;
  std::function<std::span<double>()> numbers;  // counts as a change
  std::optional<Tensor> gradient;
  bool overwritten = false;
};

// u·(tangent of f), and the size of what was summed.
struct ForwardSum {
  double sum = 0, terms = 0;
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
      if (std::isfinite(next)) size_ = std::max(size_, std::abs(next));
    }
    return sum + lost;
  }

  // u·(tangent of f), in dual numbers.
  ForwardSum forward() {
    Rng random = random_of_tapes(seed_);
    const Tape scope({.random = &random, .constants = DType::dual});
    return forward(f_());
  }
  ForwardSum forward(Var y) {
    const Tensor tangents = tangents_of(y.value());
    ForwardSum result;
    const auto weights = upstream(y.shape()).data<double>();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      result.sum += weights[i] * tangents.data<double>()[i];
      result.terms += std::abs(weights[i] * tangents.data<double>()[i]);
    }
    return result;
  }

  std::vector<detail::Branch> branches() {
    Rng random = random_of_tapes(seed_);
    const Tape scope({.random = &random});
    f_();
    return detail::branches_of_scope();
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

// Near `step`, and such that x plus it is exact.
double power_of_two(double step) { return std::exp2(std::round(std::log2(step))); }

// A step that is a power of two, so that x + h loses as little as can be.
double first_step(double x, double scale, double share) {
  const double size = std::max(std::abs(x), scale);
  return std::isfinite(size) && size > 0 ? power_of_two(share * size) : share;
}

double root_mean_square(std::span<const double> x) {
  double sum = 0;
  for (const double number : x) sum += number * number;
  return x.empty() || !std::isfinite(sum) ? 0 : std::sqrt(sum / static_cast<double>(x.size()));
}

// Derivatives by forward mode, one element at a time; or why there are none.
class Forward {
 public:
  // set(input, element, tangent) moves in dual numbers, evaluate() gives u·(tangent of f).
  using Set = std::function<void(std::size_t input, std::size_t element, double tangent)>;
  using Evaluate = std::function<ForwardSum()>;
  Forward(Set set, Evaluate evaluate) : set_(std::move(set)), evaluate_(std::move(evaluate)) {}

  std::optional<ForwardSum> operator()(std::size_t input, std::size_t element) {
    if (!failure_.empty()) return std::nullopt;
    try {
      set_(input, element, 1);
      const ForwardSum sum = evaluate_();
      set_(input, element, 0);
      return sum;
    } catch (const std::invalid_argument& error) {  // as where a rule of one's own knows f64 alone
      failure_ = error.what();
      return std::nullopt;
    }
  }
  const std::string& failure() const { return failure_; }

 private:
  Set set_;
  Evaluate evaluate_;
  std::string failure_;
};

// One element, by all three.
struct Element {
  double analytic = 0;
  Slope numeric;
  std::optional<double> forward;
};

class Comparison {
 public:
  Comparison(Evaluation& f, Forward& forward, const Variable& variable, std::size_t number,
             const GradcheckOptions& options)
      : f_(f), forward_(forward), variable_(variable), number_(number), options_(options) {}

  GradcheckInput run() {
    result_.name = variable_.name;
    result_.shape = variable_.shape;
    result_.missing = !variable_.gradient;
    result_.overwritten = variable_.overwritten;
    const std::map<std::size_t, Element> elements = measure();
    for (const auto& [index, element] : elements) {
      result_.largest = std::max(result_.largest, size_of(element));
      smallest_step_ = std::min(smallest_step_, element.numeric.step);
    }
    // f is exact to some units in the last place of its largest term; a difference quotient divides that by h.
    rounding_ = 64 * kEpsilon * std::max(f_.size(), 1e-300) / smallest_step_;
    // Forward and reverse mode round what cancels, whose size is that of f over that of the input.
    exact_rounding_ = 64 * kEpsilon * (forward_terms_ + (scale_ > 0 ? f_.size() / scale_ : 0));
    result_.absolute = result_.largest <= rounding_;
    if (result_.absolute) exact_rounding_ = std::max(exact_rounding_, rounding_);
    for (const auto& [index, element] : elements) judge(index, element);
    conclude();
    return result_;
  }

 private:
  static constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

  // The true size, as far as it is known.
  static double size_of(const Element& e) { return std::abs(e.forward ? *e.forward : e.numeric.value); }

  std::map<std::size_t, Element> measure() {
    std::map<std::size_t, Element> elements;
    const auto count = static_cast<std::size_t>(variable_.shape.count());
    const auto wanted = options_.elements > 0 ? static_cast<std::size_t>(options_.elements) : count;
    const std::size_t stride = std::max<std::size_t>(1, (count + wanted - 1) / std::max<std::size_t>(1, wanted));
    scale_ = root_mean_square(variable_.numbers());
    double largest = 0;
    for (std::size_t index = 0; index < count; index += stride) {
      Element& element = elements[index];
      element.analytic = variable_.gradient ? variable_.gradient->data<double>()[index] : 0;
      if (const auto exact = forward_(number_, index)) {
        element.forward = exact->sum;
        forward_terms_ = std::max(forward_terms_, exact->terms);
      }
      largest = std::max({largest, element.forward ? std::abs(*element.forward) : 0, std::abs(element.numeric.value)});
      element.numeric = slope(index, h(index), 1e-3 * options_.tolerance * largest);
      settle(index, element, h(index));
      largest = std::max(largest, std::abs(element.numeric.value));
    }
    return elements;
  }

  double h(std::size_t index) { return first_step(variable_.numbers()[index], scale_, options_.step); }
  double at(std::size_t index, double shift) {
    Moved x(variable_.numbers()[index]);
    *x += shift;
    return f_();
  }
  Slope slope(std::size_t index, double first, double goal) {
    return differentiate([&](double shift) { return at(index, shift); }, first, goal);
  }

  // Differences do not see what happens within their steps: of sin(1000 x) wide ones find a slope that it does not have,
  // with a small bar, and of log(x) one beyond x none at all. So where they disagree with the gradient, smaller ones are
  // tried until f is smooth at their scale. Where it never is, they tell nothing.
  void settle(std::size_t index, Element& e, double first) {
    const double apart = std::abs(e.analytic - e.numeric.value);
    if (apart <= std::max(8 * e.numeric.bar, options_.tolerance * std::abs(e.analytic))) return;
    const double least = 1e4 * kEpsilon * std::abs(variable_.numbers()[index]);
    for (int i = 0; turns_within(index, first); ++i, first /= 16)
      if (i == 32 || first / 16 < least) {
        e.numeric.bar = std::max(e.numeric.bar, apart);
        return;
      }
    if (first == h(index)) return;
    e.numeric = slope(index, first, 0);
    widen(e.numeric, noise(index, first));
  }
  // Whether f goes as far in a 16th of the step as in all of it, or in a 256th as in a 16th, by more than rounding; a
  // smooth one goes a 16th as far, or less.
  bool turns_within(std::size_t index, double step) {
    const double far = variation(index, step), near = variation(index, step / 16), close = variation(index, step / 256);
    return !((near <= far / 8 && close <= near / 8) || far <= 1e3 * kEpsilon * f_.size());
  }
  // The farthest that f goes within the step, at shares of it that no period has in common.
  double variation(std::size_t index, double step) {
    const double here = at(index, 0);
    double most = 0;
    for (const double share : {-1.0, -0.618034, -0.381966, 0.381966, 0.618034, 1.0}) {
      const double moved = std::abs(at(index, share * step) - here);
      if (!std::isfinite(moved)) return std::numeric_limits<double>::quiet_NaN();
      most = std::max(most, moved);
    }
    return most;
  }
  // The bar of what differences make of numbers that are off by so much.
  static void widen(Slope& slope, double noise) { slope.bar = std::max(slope.bar, 8 * noise / slope.step); }
  // How far f strays from a cubic over steps so small that only rounding can make it, in f or on the way to it.
  double noise(std::size_t index, double step) {
    const double last_place = power_of_two(8 * kEpsilon * std::max(std::abs(variable_.numbers()[index]), 1e-300));
    double most = 0;
    for (const double small : {last_place, std::max(last_place, step * 0x1p-12)}) {
      std::array<double, 10> f;
      for (std::size_t i = 0; i < f.size(); ++i) f[i] = at(index, (static_cast<double>(i) - 4) * small);
      for (std::size_t i = 2; i + 2 < f.size(); ++i)
        most = std::max(most, std::abs(f[i - 2] - 4 * f[i - 1] + 6 * f[i] - 4 * f[i + 1] + f[i + 2]) / 4);
    }
    return most;
  }

  std::vector<detail::Branch> branches(std::size_t index, double shift) {
    Moved x(variable_.numbers()[index]);
    *x += shift;
    return f_.branches();
  }

  void judge(std::size_t index, const Element& given) {
    Element e = given;
    if (is_far_off(e) && !is_smooth(index, e)) return;
    ++result_.compared;
    const double truth = e.forward ? *e.forward : e.numeric.value;
    result_.zeros += std::abs(truth) <= (e.forward ? exact_rounding_ : rounding_);
    finite_ = finite_ && std::isfinite(e.analytic) && std::isfinite(e.numeric.value);
    double difference = std::abs(e.analytic - e.numeric.value);
    if (std::isnan(difference)) difference = HUGE_VAL;
    if (e.forward) {
      const double apart = std::abs(e.analytic - *e.forward);
      if (!(apart <= worst_forward_)) worst_forward_ = std::isnan(apart) ? HUGE_VAL : apart;
    }
    if (is_far_off(e)) wrong_ = true;
    else if (difference > bound()) ++result_.unclear;
    worst_bar_ = std::max(worst_bar_, e.numeric.bar);
    if (difference > worst_) {
      worst_ = difference;
      result_.worst = static_cast<Index>(index);
      result_.analytic = e.analytic;
      result_.numeric = e.numeric.value;
      result_.forward = e.forward.value_or(std::numeric_limits<double>::quiet_NaN());
    }
  }

  double bound() const { return result_.absolute ? rounding_ : options_.tolerance * result_.largest; }
  // More than tolerance and error bar allow.
  bool is_far_off(const Element& e) const {
    return !(std::abs(e.analytic - e.numeric.value) <= std::max(bound(), 8 * e.numeric.bar));
  }

  // Whether the derivative that was missed exists: not at a kink. Smaller steps are tried, which may not reach it.
  bool is_smooth(std::size_t index, Element& e) {
    std::vector<std::string> ops;
    double first = h(index);
    for (int i = 0; i < 8; ++i, first /= 16) {
      ops = differing(branches(index, -first), branches(index, first));
      if (!ops.empty()) continue;
      if (i > 0) settle(index, e, first);
      break;
    }
    if (ops.empty() && is_far_off(e) && has_two_slopes(index)) ops.push_back("an op whose two slopes differ");
    if (ops.empty()) {
      if (is_far_off(e)) widen(e.numeric, noise(index, e.numeric.step));
      return true;
    }
    ++result_.excluded;
    for (const std::string& op : ops)
      if (std::find(result_.kinks.begin(), result_.kinks.end(), op) == result_.kinks.end()) result_.kinks.push_back(op);
    return false;
  }

  // A kink at the very point: the slopes on its sides stay apart, however small the step, and the gradient is one of
  // them or lies between.
  bool has_two_slopes(std::size_t index) {
    const double x = variable_.numbers()[index], here = at(index, 0);
    const auto sides = [&](double step) {
      return std::pair{(here - at(index, -step)) / step, (at(index, step) - here) / step};
    };
    const double step = power_of_two(1e-6 * std::max({std::abs(x), scale_, 1e-6}));
    const auto [left, right] = sides(step);
    const auto [closer_left, closer_right] = sides(step / 16);
    const double apart = std::abs(right - left), closer = std::abs(closer_right - closer_left);
    const double noise = 16 * kEpsilon * f_.size() / (step / 16);
    const double analytic = variable_.gradient ? variable_.gradient->data<double>()[index] : 0;
    const double slack = 0.01 * apart + noise;
    const bool between = analytic >= std::min(left, right) - slack && analytic <= std::max(left, right) + slack;
    return apart > 100 * noise && closer > 0.9 * apart && closer < 1.1 * apart && between;
  }

  void conclude() {
    const double largest = result_.largest;
    const auto share = [&](double difference) {
      return largest > 0 ? difference / largest : difference > 0 ? HUGE_VAL : 0;
    };
    result_.error = share(std::max(0.0, worst_));
    result_.bar = share(worst_bar_);
    const bool exact = forward_.failure().empty();
    result_.forward_error = exact ? share(std::max(0.0, worst_forward_)) : std::numeric_limits<double>::quiet_NaN();
    if (exact && worst_forward_ > std::max(options_.forward_tolerance * largest, exact_rounding_) && result_.compared > 0)
      wrong_ = true;
    if (result_.missing && !result_.absolute && result_.compared > 0) wrong_ = true;
    if (result_.overwritten) wrong_ = true;
    const bool nothing = result_.compared == 0 && variable_.shape.count() > 0;
    const bool blind = !exact && result_.unclear > 0;
    if (wrong_ || !finite_) result_.verdict = Verdict::wrong;
    else if (nothing || blind || (result_.absolute && variable_.shape.count() > 0)) result_.verdict = Verdict::cannot_tell;
    result_.passed = result_.verdict != Verdict::wrong;
  }

  Evaluation& f_;
  Forward& forward_;
  const Variable& variable_;
  std::size_t number_;
  const GradcheckOptions& options_;
  GradcheckInput result_;
  double scale_ = 0, smallest_step_ = std::numeric_limits<double>::infinity(), forward_terms_ = 0;
  double rounding_ = 0, exact_rounding_ = 0;
  double worst_ = -1, worst_forward_ = -1, worst_bar_ = 0;
  bool wrong_ = false, finite_ = true;
};

void add_notes(GradcheckReport& report, Forward& forward, std::vector<std::string> saturated) {
  if (!forward.failure().empty())
    report.notes.push_back("no forward mode, differences alone: " + forward.failure());
  for (std::string& line : saturated) report.notes.push_back(std::move(line));
  for (const GradcheckInput& input : report.inputs) {
    if (input.compared > 0 && 2 * input.zeros > input.compared)
      report.notes.push_back(fmt::format("{}: the true gradient is 0 in {} of {} elements, where any rule of zeros is right",
                                         input.name, input.zeros, input.compared));
    if (input.excluded > 0)
      report.notes.push_back(fmt::format("{}: {} elements at a kink of {} are left out", input.name, input.excluded,
                                         fmt::join(input.kinks, ", ")));
    if (input.unclear > 0)
      report.notes.push_back(fmt::format("{}: for {} of {} elements the error bar of differences is too large to judge by",
                                         input.name, input.unclear, input.compared));
  }
}

using Gradients = std::vector<std::optional<Tensor>>;  // of the variables that backward reached

// Before a rule of f runs, the gradient of each x holds these numbers.
Var begun(Var y, std::span<const Var> x, const Gradients& numbers) {
  std::vector<Var> inputs{y};
  std::vector<ConstView> views;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!numbers[i]) continue;
    inputs.push_back(x[i]);
    views.push_back(numbers[i]->view());
  }
  Var z = output(y.shape(), inputs);
  kernels::copy(into(z), y.value());
  const std::span<const Var> places = saved(std::span<const Var>(inputs).subspan(1));
  const std::span<const ConstView> kept = saved(std::span<const ConstView>(views));
  return record("begun", z, [=] {
    for (std::size_t i = 0; i < places.size(); ++i)
      if (Out d = add_to(places[i])) kernels::copy(d, kept[i]);
    add_grad_of(z, y);
  });
}

// As large as the gradients themselves, so that neither is lost in the other.
Gradients numbers_like(const Gradients& gradients, std::uint64_t seed) {
  Gradients numbers(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) continue;
    const double size = root_mean_square(gradients[i]->data<double>());
    Rng random = Rng(seed).split("begun").split(i);
    numbers[i].emplace(gradients[i]->shape(), f64);
    fill_normal(numbers[i]->view(), random, 0, size > 0 ? size : 1);
  }
  return numbers;
}

// Whether `sum` is more or less than gradient + numbers, by more than roundings.
bool is_overwritten(const Tensor& gradient, const Tensor& numbers, const Tensor& sum) {
  const auto g = gradient.data<double>(), n = numbers.data<double>(), s = sum.data<double>();
  double largest = 0, apart = 0;
  for (std::size_t k = 0; k < g.size(); ++k) {
    largest = std::max({largest, std::abs(g[k]), std::abs(n[k])});
    apart = std::max(apart, std::abs(s[k] - n[k] - g[k]));
  }
  return apart > 1e-6 * largest;
}

// differentiate_on(tape, numbers) runs f on the tape, and backward, and returns the gradients. Where there are numbers,
// the gradients begin with them.
GradcheckReport check_gradients(std::vector<Variable>& variables, Evaluation& evaluate, Forward& forward,
                                const std::function<Gradients(Tape&, const Gradients* numbers)>& differentiate_on,
                                const GradcheckOptions& options) {
  check(options.step > 0 && std::isfinite(options.step), "gradcheck: a first step of {} of an element is none", options.step);
  GradcheckReport report;
  const double once = evaluate(), again = evaluate();
  if (std::bit_cast<std::uint64_t>(once) != std::bit_cast<std::uint64_t>(again)) {
    report.failure = fmt::format("the function is not deterministic: {:.17g} first, then {:.17g}", once, again);
    return report;
  }
  std::vector<std::string> saturated;
  Gradients gradients;
  {
    Rng random = random_of_tapes(options.seed);
    Tape tape({.random = &random, .places = true});
    gradients = differentiate_on(tape, nullptr);
    saturated = detail::saturated_rows_of_scope();
    if (!std::isfinite(once)) {
      const std::optional<NonFinite> found = tape.find_nonfinite();
      report.failure = "the function's value is not finite" + (found ? ": " + found->text() : std::string());
      return report;
    }
  }
  {
    Rng random = random_of_tapes(options.seed);
    Tape tape({.random = &random});
    const Gradients numbers = numbers_like(gradients, options.seed), sums = differentiate_on(tape, &numbers);
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (gradients[i]) variables[i].overwritten = is_overwritten(*gradients[i], *numbers[i], *sums[i]);
      variables[i].gradient = std::move(gradients[i]);
    }
  }
  for (std::size_t i = 0; i < variables.size(); ++i)
    report.inputs.push_back(Comparison(evaluate, forward, variables[i], i, options).run());
  add_notes(report, forward, std::move(saturated));
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
  Evaluation evaluate([&] { return f(leaves()); }, options.seed);
  std::vector<Tensor> duals;
  for (const Tensor* input : inputs) duals.push_back(input->to(DType::dual));
  Evaluation evaluate_dual(
      [&] {
        std::vector<Var> vars;
        for (const Tensor& input : duals) vars.push_back(variable(input));
        return f(vars);
      },
      options.seed);
  Forward forward([&](std::size_t i, std::size_t element, double tangent) { duals[i].data<dual>()[element].tangent = tangent; },
                  [&] { return evaluate_dual.forward(); });
  const auto differentiate_on = [&](Tape& tape, const Gradients* numbers) {
    Gradients gradients(variables.size());
    const std::vector<Var> vars = leaves();
    const Var y = f(vars);
    if (!y.needs_grad()) return gradients;
    tape.backward(numbers ? begun(y, vars, *numbers) : y, evaluate.upstream(y.shape()), {.spare_parameters = true});
    for (std::size_t i = 0; i < vars.size(); ++i)
      if (vars[i].has_grad()) gradients[i] = Tensor::copy_of(vars[i].grad());
    return gradients;
  };
  return check_gradients(variables, evaluate, forward, differentiate_on, options);
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
  Evaluation evaluate(f, options.seed);
  // In dual for one evaluation at a time, since differences need f64 in between.
  std::size_t moved = 0, element = 0;
  Forward forward([&](std::size_t i, std::size_t at, double) { moved = i, element = at; },
                  [&] {
                    const Cast cast(parameters, DType::dual);
                    checked[moved]->value.as<dual>()[element].tangent = 1;
                    return evaluate.forward();
                  });
  const auto differentiate_on = [&](Tape& tape, const Gradients* numbers) {
    Gradients gradients(variables.size());
    GradientSet set(parameters);
    const Var y = f();
    if (!y.needs_grad()) return gradients;
    std::vector<Var> leaves;
    if (numbers)
      for (const auto& p : checked) leaves.push_back(VarAccess::leaf_of(p));
    tape.backward(numbers ? begun(y, leaves, *numbers) : y, evaluate.upstream(y.shape()), {.into = &set});
    for (std::size_t i = 0; i < checked.size(); ++i) {
      const Parameter p = detail::ParameterAccess::from(checked[i]);
      if (set.has_grad(p)) gradients[i] = Tensor::copy_of(set.grad(p));
    }
    return gradients;
  };
  return check_gradients(variables, evaluate, forward, differentiate_on, options);
}

Slope differentiate(const std::function<double(double)>& f, double h, double goal) {
  constexpr int kLevels = 20;
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  std::vector<double> before, now;
  Slope best{std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), h};
  double size = 0;
  int worse = 0;
  for (int level = 0; level < kLevels && worse < 3; ++level, h /= 2) {
    const double ahead = f(h), behind = f(-h);
    now.assign(1, (ahead - behind) / (2 * h));
    if (!std::isfinite(now[0])) {
      before.clear();
      if (std::isnan(best.value)) best.step = h;
      continue;
    }
    size = std::max({size, std::abs(ahead), std::abs(behind)});
    // Each column takes one power of h² off the error: a(k) = (4^k a(k-1) - a'(k-1)) / (4^k - 1), a' of twice the step.
    double power = 1, level_bar = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < before.size(); ++k) {
      power *= 4;
      now.push_back((power * now[k] - before[k]) / (power - 1));
      const double bar = std::max(std::abs(now[k + 1] - now[k]), std::abs(now[k + 1] - before[k])) + 2 * kEpsilon * size / h;
      level_bar = std::min(level_bar, bar);
      if (bar < best.bar) best = {now[k + 1], bar, h * std::exp2(static_cast<double>(k + 1))};
    }
    if (best.bar <= goal) break;
    worse = level_bar > 2 * best.bar ? worse + 1 : 0;
    std::swap(before, now);
  }
  return best;
}

bool GradcheckReport::passed() const {
  return failure.empty() && std::all_of(inputs.begin(), inputs.end(), [](const auto& input) { return input.passed; });
}

Verdict GradcheckReport::verdict() const {
  if (!passed()) return Verdict::wrong;
  const bool unclear = std::any_of(inputs.begin(), inputs.end(),
                                   [](const auto& input) { return input.verdict == Verdict::cannot_tell; });
  return unclear ? Verdict::cannot_tell : Verdict::right;
}

double GradcheckReport::error() const {
  double largest = 0;
  for (const GradcheckInput& input : inputs)
    if (!input.absolute) largest = std::max(largest, input.error);
  return largest;
}

double GradcheckInput::digits() const {
  const double relative = std::isnan(forward_error) ? error : forward_error;
  return relative > 0 ? std::max(0.0, -std::log10(relative)) : 16;
}

namespace {
std::string verdict_of(const GradcheckInput& input) {
  if (input.overwritten) return "WRONG: a rule writes over what the gradient holds, instead of adding to it";
  if (input.verdict == Verdict::wrong)
    return fmt::format("WRONG at element {}: analytic {:.12g}{}, numeric {:.12g}", input.worst, input.analytic,
                       input.missing ? " (no gradient reached it)" : "", input.numeric) +
           (std::isnan(input.forward) ? "" : fmt::format(", forward {:.12g}", input.forward));
  if (input.verdict == Verdict::cannot_tell)
    return input.compared == 0 ? "cannot tell: all of it is at kinks"
           : input.absolute    ? "cannot tell: the true gradient is 0, to rounding"
                               : "cannot tell at this precision";
  return fmt::format("right, {:.0f} digits", std::floor(input.digits()));
}
}  // namespace

std::string GradcheckReport::text() const {
  if (!failure.empty()) return "gradcheck: " + failure;
  std::size_t width = 5;
  for (const GradcheckInput& input : inputs) width = std::max(width, input.name.size());
  std::string text = fmt::format("{:<{}}  {:>12}  {:>10}  {:>11}  {:>7}  {:>7}", "input", width, "shape", "max |n|",
                                 "differences", "bar", "forward");
  for (const GradcheckInput& input : inputs) {
    const std::string of_forward = std::isnan(input.forward_error) ? "-" : fmt::format("{:.1e}", input.forward_error);
    text += fmt::format("\n{:<{}}  {:>12}  {:>10.3e}  {:>11}  {:>7}  {:>7}  {}", input.name, width,
                        fmt::format("{}", input.shape), input.largest,
                        input.absolute ? "rounding" : fmt::format("{:.1e}", input.error),
                        input.absolute ? "-" : fmt::format("{:.0e}", input.bar), input.absolute ? "-" : of_forward,
                        verdict_of(input));
  }
  for (const std::string& note : notes) text += "\n  " + note;
  return text;
}

}  // namespace attune
