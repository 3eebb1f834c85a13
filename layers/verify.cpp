#include "attune/layers/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "attune/autograd/op.h"
#include "attune/layers/tap.h"
#include "attune/lib/wrap.h"

namespace attune {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.data<double>().size(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

// What is no number is infinitely far.
double magnitude(double x) { return std::isnan(x) ? HUGE_VAL : std::abs(x); }

double largest(const Tensor& x) {
  double most = 0;
  for (const double number : x.data<double>()) most = std::max(most, magnitude(number));
  return most;
}

double distance(const Tensor& a, const Tensor& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.data<double>().size(); ++i)
    most = std::max(most, magnitude(a.data<double>()[i] - b.data<double>()[i]));
  return most;
}

Tensor normal(const Shape& shape, Rng rng) {
  Tensor result(shape, f64);
  fill_normal(result, rng);
  return result;
}

// The probability that a normal number, times an error, hides below a bound: at most this.
double hiding(double bound, double error) { return std::min(1.0, std::sqrt(2 / M_PI) * bound / error); }

class Verification {
 public:
  Verification(const ParameterList& parameters, const std::function<Var()>& loss, const VerifyOptions& options)
      : parameters_(parameters), loss_(loss), options_(options) {
    for (const auto& p : parameters.states())
      if (p->trainable) trained_.push_back(p);
  }

  VerifyReport run() {
    const std::vector<Tensor> single = gradients(std::nullopt);
    {
      const Cast cast(parameters_, f64);
      if (!differentiate_in_f64()) return std::move(report_);
      for (std::size_t i = 0; i < trained_.size(); ++i) begin(i, single[i]);
      look_for_saturation();
      for (std::size_t i = 0; i < trained_.size(); ++i) ask_differences(i);
    }
    {
      const Cast cast(parameters_, DType::dual);
      for (std::size_t i = 0; i < trained_.size(); ++i) ask_forward(i);
    }
    const auto loss = [&] { return loss_(); };
    report_.ops = check_each_op(std::function<Var()>(loss), parameters_,
                                {.training = options_.training, .seed = options_.seed});
    for (std::size_t i = 0; i < trained_.size(); ++i) conclude(report_.parameters[i]);
    return std::move(report_);
  }

 private:
  Rng random() const { return Rng(options_.seed).split("dropout"); }

  // What is differentiated: the loss, or a random sum of what there is of it.
  ConstView seed_for(Var y) {
    if (!seed_) seed_.emplace(y.value().count() == 1 ? full(y.shape(), 1, f64) : normal(y.shape(), Rng(options_.seed)));
    return *seed_;
  }

  double value_of(Var y) {
    const Tensor numbers = values_of(y.value()), seed = Tensor::copy_of(seed_for(y));
    return dot(numbers, seed);
  }

  // Of the trained parameters, in f64; `constants` is the type that data is converted to.
  std::vector<Tensor> gradients(const std::optional<DType>& constants) {
    Rng rng = random();
    Tape tape({.training = options_.training, .random = &rng, .constants = constants});
    GradientSet set(parameters_);
    const Var y = loss_();
    if (y.needs_grad()) tape.backward(y, Tensor::copy_of(seed_for(y)).to(y.dtype()), {.into = &set});
    return gradients_in(set);
  }
  std::vector<Tensor> gradients_in(const GradientSet& set) const {
    std::vector<Tensor> result;
    for (const auto& p : trained_) result.push_back(values_of(set.grad(detail::ParameterAccess::from(p))));
    return result;
  }

  double evaluate() {
    Rng rng = random();
    Tape tape({.training = options_.training, .random = &rng, .constants = f64});
    return value_of(loss_());
  }

  // Whether there is something to check.
  bool differentiate_in_f64() {
    const double once = evaluate(), again = evaluate();
    size_ = std::abs(once);
    if (std::bit_cast<std::uint64_t>(once) != std::bit_cast<std::uint64_t>(again)) {
      report_.failure = fmt::format("the loss is not deterministic: {:.17g} first, then {:.17g}", once, again);
      return false;
    }
    Rng rng = random();
    Tape tape({.training = options_.training, .random = &rng, .places = true, .constants = f64});
    GradientSet set(parameters_);
    const Var y = loss_();
    if (!y.needs_grad()) {
      report_.failure = "the loss depends on no parameter that is trained";
      return false;
    }
    tape.backward(y, seed_for(y), {.into = &set});
    if (const std::optional<NonFinite> found = tape.find_nonfinite()) {
      report_.failure = "a number is not finite: " + found->text();
      return false;
    }
    for (ParameterReport& line : tape.report()) {
      if (line.why == ParameterReport::Why::reached || line.why == ParameterReport::Why::frozen) continue;
      cut_ = cut_ || line.why == ParameterReport::Why::detached;
      report_.severed.push_back(std::move(line));
    }
    gradients_ = gradients_in(set);
    return true;
  }

  void begin(std::size_t i, const Tensor& single) {
    const Tensor& g = gradients_[i];
    VerifiedParameter line{.name = trained_[i]->name, .shape = g.shape()};
    line.largest = largest(g);
    line.every_element = g.count() <= options_.small;
    line.single_error = line.largest > 0 ? distance(single, g) / line.largest : 0;
    for (const double number : g.data<double>()) line.zeros += std::abs(number) <= 64 * kEpsilon * line.largest;
    report_.parameters.push_back(line);
  }

  // -- Against differences.

  // A share of the parameter's own size, so that a step changes the model as a whole by as much.
  double scale_of(const Tensor& values) const {
    const double mean_square = dot(values, values) / static_cast<double>(std::max<Index>(1, values.count()));
    return mean_square > 0 ? std::sqrt(mean_square) : 1;
  }

  void ask_differences(std::size_t i) {
    VerifiedParameter& line = report_.parameters[i];
    detail::ParameterState& p = *trained_[i];
    if (line.shape.count() == 0) return;
    const Tensor before = Tensor::copy_of(p.value), r = normal(line.shape, Rng(options_.seed).split("step").split(i));
    const double norm = std::sqrt(dot(gradients_[i], gradients_[i]));
    const auto move = [&](double t) {
      ++p.version;
      auto* to = p.value.as<double>();
      for (std::size_t k = 0; k < before.data<double>().size(); ++k)
        to[k] = before.data<double>()[k] + t * r.data<double>()[k];
    };
    const auto at = [&](double t) {
      move(t);
      return evaluate();
    };
    double first = scale_of(before) / 16;
    Slope slope = attune::differentiate(at, first, 1e-3 * options_.differences_tolerance * norm);
    const double analytic = dot(gradients_[i], r);
    const auto is_far = [&] {
      return !(std::abs(analytic - slope.value) <= std::max(options_.differences_tolerance * norm, 8 * slope.bar));
    };
    std::vector<std::string> kinks;
    for (int round = 0; round < 6 && is_far(); ++round) {
      first /= 16;
      kinks = detail::differing(branches(move, -first), branches(move, first));
      if (kinks.empty()) slope = attune::differentiate(at, first);
    }
    move(0);
    kernels::copy(p.value, before);
    const double share = norm > 0 ? norm : 1;
    line.differences_error = std::abs(analytic - slope.value) / share;
    line.bar = slope.bar / share;
    vanishes_[i] = norm <= 64 * kEpsilon * size_ / scale_of(before) && std::abs(slope.value) <= 8 * slope.bar;
    if (!is_far() && !vanishes_[i] && line.bar > 1e-4)
      report_.notes.push_back(fmt::format("{}: differences tell little, with an error bar of {:.0e} of the gradient (a kink "
                                          "is near): forward mode decides",
                                          line.name, line.bar));
    if (!is_far() || vanishes_[i]) return;
    if (!kinks.empty())
      report_.notes.push_back(fmt::format("{}: differences cross a kink of {}, and were not compared", line.name,
                                          fmt::join(kinks, ", ")));
    else if (cut_ || has_detach())
      report_.notes.push_back(fmt::format("{}: differences see what a detach hides, and were not compared", line.name));
    else
      off_[i] = fmt::format("along a random direction it is {:.12g}, by differences {:.12g} ± {:.1g}", analytic,
                            slope.value, slope.bar);
  }

  template <class Move>
  std::vector<detail::Branch> branches(Move&& move, double t) {
    move(t);
    Rng rng = random();
    Tape tape({.training = options_.training, .random = &rng, .constants = f64});
    loss_();
    return detail::branches_of_scope();
  }
  bool has_detach() {
    Rng rng = random();
    Tape tape({.training = options_.training, .random = &rng, .constants = f64});
    loss_();
    return detail::scope_has("detach");
  }

  // -- Against forward mode.

  struct Along {
    double sum, rounding;
  };
  Along forward_along(std::size_t i, const Tensor& direction) {
    auto* numbers = trained_[i]->value.as<dual>();
    const auto set = [&](const double* tangents) {
      ++trained_[i]->version;
      for (Index k = 0; k < direction.count(); ++k) numbers[k].tangent = tangents ? tangents[k] : 0;
    };
    set(direction.data<double>().data());
    Rng rng = random();
    Tape tape({.training = options_.training, .random = &rng, .constants = DType::dual});
    const Var y = loss_();
    const Tensor tangents = tangents_of(y.value()), seed = Tensor::copy_of(seed_for(y));
    set(nullptr);
    double terms = 0;
    for (std::size_t k = 0; k < tangents.data<double>().size(); ++k)
      terms += std::abs(tangents.data<double>()[k] * seed.data<double>()[k]);
    return {dot(tangents, seed), 64 * kEpsilon * terms};
  }

  void ask_forward(std::size_t i) {
    VerifiedParameter& line = report_.parameters[i];
    const Tensor& g = gradients_[i];
    if (g.count() == 0) return;
    const double norm = std::sqrt(dot(g, g)), unit = line.every_element ? line.largest : norm;
    const double floor = 64 * kEpsilon * size_ / scale_of(values_of(trained_[i]->value));
    double worst = 0;
    const auto compare = [&](const Tensor& direction, const std::string& what) {
      const double analytic = dot(g, direction);
      const Along exact = forward_along(i, direction);
      double apart = std::abs(analytic - exact.sum);
      if (!(apart <= std::max(options_.tolerance * unit, exact.rounding + floor)) && !off_.count(i))
        off_[i] = fmt::format("{} it is {:.12g}, by forward mode {:.12g}", what, analytic, exact.sum);
      if (!(apart <= worst)) worst = apart;
    };
    if (line.every_element) {
      for (Index k = 0; k < g.count(); ++k) {
        Tensor one(g.shape(), f64);
        one.data<double>()[static_cast<std::size_t>(k)] = 1;
        compare(one, fmt::format("at element {}", k));
      }
    } else {
      for (int k = 0; k < options_.projections; ++k)
        compare(normal(g.shape(), Rng(options_.seed).split("projection").split(i).split(static_cast<std::uint64_t>(k))),
                "along a random direction");
      if (line.largest > 0 && !vanishes_[i])
        report_.miss_probability =
            std::max(report_.miss_probability,
                     std::pow(hiding(options_.tolerance * norm, 1e-3 * line.largest), options_.projections));
    }
    line.forward_error = unit > 0 ? worst / unit : worst > 0 ? HUGE_VAL : 0;
  }

  // -- What fools a check.

  // Attention shows its weights, though the fused kernel does not keep them.
  void look_for_saturation() {
    Rng rng = random();
    Tape tape({.training = options_.training, .random = &rng, .constants = f64});
    const Observer observer([&](const TapPoint& at) {
      if (at.name == "weights") count_saturated(at);
    });
    loss_();
    for (std::string& line : detail::saturated_rows_of_scope())
      if (line.rfind("attention_weights", 0) != 0) report_.notes.push_back(std::move(line));
  }
  void count_saturated(const TapPoint& at) {
    const Tensor weights = values_of(at.value.value());
    if (weights.count() == 0) return;
    const Index keys = weights.shape().last(), rows = weights.count() / keys;
    Index saturated = 0, open = 0;
    for (Index i = 0; i < rows; ++i) {
      const double* row = weights.data<double>().data() + i * keys;
      const double* top = std::max_element(row, row + keys);
      double others = 0;
      for (const double* weight = row; weight != row + keys; ++weight) others += weight == top ? 0 : *weight;
      open += others > 0;  // a query that sees one key alone has nothing to choose
      saturated += others > 0 && others < 1e-12;
    }
    report_.saturated += saturated;
    if (saturated > 0)
      report_.notes.push_back(fmt::format(
          "{}: {} of {} rows of attention are saturated (1 - the largest weight is below 1e-12): no gradient that f64 could "
          "measure passes to their queries and keys, so nothing is verified there",
          at.path.empty() ? "attention" : at.path, saturated, open));
  }

  void conclude(VerifiedParameter& line) {
    const auto i = static_cast<std::size_t>(&line - report_.parameters.data());
    if (off_.count(i)) {
      line.verdict = Verdict::wrong;
      line.why = off_[i];
    } else if (vanishes_[i] || line.shape.count() == 0) {
      line.verdict = Verdict::cannot_tell;
      line.why = "the true gradient is 0, to rounding";
      for (const ParameterReport& severed : report_.severed)
        if (severed.parameter == line.name) line.why = severed.ended_at;
    } else if (2 * line.zeros > line.shape.count()) {
      report_.notes.push_back(fmt::format("{}: the true gradient is 0 in {} of {} elements, where any rule of zeros is right",
                                          line.name, line.zeros, line.shape.count()));
    }
  }

  const ParameterList& parameters_;
  const std::function<Var()>& loss_;
  const VerifyOptions& options_;
  std::vector<std::shared_ptr<detail::ParameterState>> trained_;
  std::optional<Tensor> seed_;
  std::vector<Tensor> gradients_;
  double size_ = 0;  // of the loss
  bool cut_ = false;
  std::map<std::size_t, std::string> off_;
  std::map<std::size_t, bool> vanishes_;
  VerifyReport report_;
};

double digits_of(double error) { return error > 0 ? std::max(0.0, std::min(-std::log10(error), 16.0)) : 16; }

// ---- The report, in 80 columns

// A parameter's numbers, as text; errors are rounded, as their size is what counts.
struct ReportLine {
  std::string name, shape, largest, forward, differences, bar, single, verdict;

  explicit ReportLine(const VerifiedParameter& p)
      : name(p.name), shape(fmt::format("{}", fmt::join(p.shape, "x"))), largest(fmt::format("{:.0e}", p.largest)) {
    forward = differences = bar = single = verdict = "-";
    if (p.verdict == Verdict::cannot_tell) return;
    forward = fmt::format("{:.0e}{}", p.forward_error, p.every_element ? "" : "*");
    differences = fmt::format("{:.0e}", p.differences_error), bar = fmt::format("{:.0e}", p.bar);
    single = fmt::format("{:.1f}", p.single_digits());
    verdict = p.verdict == Verdict::right ? "right" : "WRONG";
  }
  ReportLine()
      : name("parameter"),
        shape("shape"),
        largest("|g|"),
        forward("forward"),
        differences("diffs"),
        bar("bar"),
        single("f32") {}

  // A name that is too long stands above its numbers.
  std::string text(std::size_t name_width, std::size_t shape_width) const {
    const bool is_long = name.size() > name_width;
    return fmt::format("{}{:<{}}  {:>{}}  {:>5}  {:>7}  {:>5}  {:>5}  {:>4}{}", is_long ? name + "\n" : "",
                       is_long ? "" : name, name_width, shape, shape_width, largest, forward, differences, bar, single,
                       verdict.empty() ? "" : "  " + verdict);
  }
};

std::string table_of(const std::vector<VerifiedParameter>& parameters) {
  std::vector<ReportLine> lines(1);
  for (const VerifiedParameter& p : parameters) lines.emplace_back(p);
  std::size_t name_width = 0, shape_width = 0;
  for (const ReportLine& line : lines) {
    name_width = std::max(name_width, line.name.size());
    shape_width = std::max(shape_width, line.shape.size());
  }
  const std::size_t others = 2 + shape_width + 43;  // 43: what stands behind the shape
  name_width = std::max<std::size_t>(9, std::min(name_width, 80 - std::min<std::size_t>(others, 80)));
  std::string text = lines[0].text(name_width, shape_width);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const VerifiedParameter& p = parameters[i];
    text += "\n" + lines[i + 1].text(name_width, shape_width);
    if (p.verdict != Verdict::right)
      text += "\n" + wrapped(fmt::format("  {}: {}", p.verdict == Verdict::wrong ? "WRONG" : "cannot tell", p.why), 4);
  }
  return text;
}

}  // namespace

VerifyReport verify(const ParameterList& parameters, const std::function<Var()>& loss, const VerifyOptions& options) {
  return Verification(parameters, loss, options).run();
}

double VerifiedParameter::digits() const { return digits_of(forward_error); }
double VerifiedParameter::single_digits() const { return digits_of(single_error); }

Verdict VerifyReport::verdict() const {
  const auto any = [&](Verdict verdict) {
    return std::any_of(parameters.begin(), parameters.end(), [=](const auto& p) { return p.verdict == verdict; });
  };
  if (!failure.empty() || !ops.passed() || any(Verdict::wrong)) return Verdict::wrong;
  return any(Verdict::cannot_tell) || saturated > 0 ? Verdict::cannot_tell : Verdict::right;
}

double VerifyReport::forward_error() const {
  double most = 0;
  for (const auto& p : parameters)
    if (p.verdict != Verdict::cannot_tell) most = std::max(most, p.forward_error);
  return most;
}

double VerifyReport::differences_error() const {
  double most = 0;
  for (const auto& p : parameters)
    if (p.verdict != Verdict::cannot_tell) most = std::max(most, p.differences_error);
  return most;
}

std::string VerifyReport::text() const {
  if (!failure.empty()) return wrapped("verify: " + failure, 2);
  const std::string each_op = wrapped(ops.text(), 2);
  std::string text = ops.passed() ? "" : each_op + "\n\n";  // what is wrong comes first
  text += table_of(parameters);
  if (miss_probability > 0)
    text +=
        "\n" + wrapped(fmt::format("* by random projections: an element that is off by a thousandth of the largest is "
                                   "missed with a probability of at most {:.0e}",
                                   miss_probability));
  text += "\n" + wrapped(
                     "|g|: the largest element; forward, diffs: how far the gradient is from forward mode and from "
                     "differences; bar: how far differences may be off by themselves; f32: digits of the kernels that "
                     "train");
  if (ops.passed()) text += "\n" + each_op;
  for (const ParameterReport& line : severed) text += "\n" + wrapped("severed: " + line.text(), 2);
  for (const std::string& note : notes) text += "\n" + wrapped("note: " + note, 2);
  return text;
}

}  // namespace attune
