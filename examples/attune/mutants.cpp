#include "mutants.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "attune/autograd/mutant.h"
#include "attune/examples/show/table.h"
#include "json.h"

namespace attune::program {
namespace {

using Fate = MutantVerdict::Fate;
using Change = std::function<void(const View&)>;

// ---- A sample, and what its rules compute

// For each element of the result, the gradients of all inputs for an upstream gradient of 1 there and 0 elsewhere.
using Jacobian = std::vector<std::vector<double>>;

class Subject {
 public:
  explicit Subject(OpSample& sample) : sample_(sample) {
    Rng random = stream();
    targets_ = mutant_targets([&] { return sample_.f(variables()); }, &random);
    random = stream();
    const Tape tape({.random = &random});
    shape_ = sample_.f(variables()).shape();
    upstream_ = Tensor(shape_, f64);
    Rng numbers(23);
    fill_normal(upstream_, numbers);
  }

  OpSample& sample() { return sample_; }
  const std::vector<MutantTarget>& targets() const { return targets_; }

  Jacobian analytic() {
    Jacobian rows;
    for (std::size_t element = 0; element < static_cast<std::size_t>(shape_.count()); ++element)
      rows.push_back(row(element));
    return rows;
  }
  std::vector<double> row(std::size_t element) {
    Tensor one(shape_, f64);
    one.data<double>()[element] = 1;
    return gradient(one);
  }
  std::vector<double> of_zeros() { return gradient(Tensor(shape_, f64)); }
  std::vector<double> of_random() { return gradient(upstream_); }

  // By central differences.
  Jacobian numeric(double eps) {
    Jacobian rows(static_cast<std::size_t>(shape_.count()));
    for (Tensor& input : sample_.inputs)
      for (std::size_t k = 0; k < static_cast<std::size_t>(input.count()); ++k) {
        const double before = input.data<double>()[k];
        const auto at = [&](double x) {
          input.data<double>()[k] = x;
          return values();
        };
        const std::vector<double> ahead = at(before + eps), behind = at(before - eps);
        input.data<double>()[k] = before;
        for (std::size_t row = 0; row < rows.size(); ++row) rows[row].push_back((ahead[row] - behind[row]) / (2 * eps));
      }
    return rows;
  }

 private:
  // Dropout drops the same at each evaluation.
  static Rng stream() { return Rng(5); }

  std::vector<Var> variables() const {
    std::vector<Var> vars;
    for (const Tensor& input : sample_.inputs) vars.push_back(variable(input));
    return vars;
  }
  std::vector<double> gradient(const Tensor& upstream) {
    Rng random = stream();
    Tape tape({.random = &random});
    const std::vector<Var> vars = variables();
    tape.backward(sample_.f(vars), upstream);
    std::vector<double> all;
    for (const Var x : vars) {
      const Tensor part = x.has_grad() ? Tensor::copy_of(x.grad()) : Tensor(x.shape(), f64);
      all.insert(all.end(), part.data<double>().begin(), part.data<double>().end());
    }
    return all;
  }
  std::vector<double> values() {
    Rng random = stream();
    const Tape tape({.random = &random});
    const Tensor y = Tensor::copy_of(sample_.f(variables()).value());
    return {y.data<double>().begin(), y.data<double>().end()};
  }

  OpSample& sample_;
  std::vector<MutantTarget> targets_;
  Shape shape_;
  Tensor upstream_;
};

// ---- The kinds of mutants

struct Planned {
  std::string kind, detail;
  MutantOptions options;
};

const char* const kAssigns = "assigns";
const std::vector<std::string> kKinds = {"wrong sign",          "factor 2",
                                         "factor 1.001",        "factor 1 + 1e-6",
                                         "factor 1 + 1e-9",     "no gradient at all",
                                         "a term dropped",      "operands swapped",
                                         "transposed",          "sum over a broadcast axis missing",
                                         "adds to garbage",     kAssigns,
                                         "a stale saved value", "an off-by-one row",
                                         "the mask ignored",    "the scale missing"};

// What a rule wrote for one input, for each element of its result's gradient.
struct Terms {
  Shape shape;
  Jacobian rows;
};

Terms terms_of(Subject& subject, const MutantTarget& target) {
  Terms terms;
  const Mutant spy(
      {.op = target.op, .which = target.which, .input = target.input, .terms = [&](const View& written, Index) {
         const Tensor numbers = Tensor::copy_of(written);
         terms.shape = written.shape();
         terms.rows.emplace_back(numbers.data<double>().begin(), numbers.data<double>().end());
       }});
  subject.of_random();
  return terms;
}

void set_zero(const View& all, Index element) {
  visit(all.dtype(), [&]<class T>() { all.as<T>()[element] = T(0); });
}

class Planner {
 public:
  Planner(Subject& subject, const MutantTarget& target)
      : subject_(subject), target_(target), terms_(terms_of(subject, target)) {}

  std::vector<Planned> plan() {
    for (const auto& [kind, factor] : {std::pair{"wrong sign", -1.0},
                                       {"factor 2", 2.0},
                                       {"factor 1.001", 1.001},
                                       {"factor 1 + 1e-6", 1 + 1e-6},
                                       {"factor 1 + 1e-9", 1 + 1e-9},
                                       {"no gradient at all", 0.0}})
      add(kind, "", {.change = scaled_by(factor)});
    drop_terms();
    swap_operands();
    const Shape& shape = terms_.shape;
    if (shape.rank() >= 2 && shape.last() > 1 && shape.last(1) > 1) add("transposed", "", {.change = transposed()});
    forget_sums();
    add("adds to garbage", "where it is the first", {.garbage = true});
    add(kAssigns, "where it is not the first", {.assigns = true});
    make_stale();
    if (shape.rank() >= 1 && shape[0] > 1) {
      add("an off-by-one row", "each is the next one's", {.change = rows_shifted()});
      add("an off-by-one row", "the last is missing", {.change = without_last_row()});
    }
    return std::move(plan_);
  }

  MutantOptions aimed(MutantOptions options) const {
    options.op = target_.op, options.which = target_.which, options.input = target_.input;
    return options;
  }

 private:
  void add(std::string kind, std::string detail, MutantOptions options) {
    plan_.push_back({std::move(kind), std::move(detail), aimed(std::move(options))});
  }

  // One product of all that are summed: the largest. And all those of other elements' gradients, or of the element's
  // own, as in softmax's y (dy - dy·y).
  void drop_terms() {
    Index result = 0, written = 0;
    double largest = -1;
    bool own = false, others = false;
    for (std::size_t j = 0; j < terms_.rows.size(); ++j)
      for (std::size_t i = 0; i < terms_.rows[j].size(); ++i) {
        const double size = std::abs(terms_.rows[j][i]);
        (i == j ? own : others) |= size > 0;
        if (!(size > largest)) continue;
        largest = size, result = static_cast<Index>(j), written = static_cast<Index>(i);
      }
    add("a term dropped", fmt::format("element {} of dy, in element {}", result, written),
        {.terms = [=](const View& all, Index element) {
          if (element == result) set_zero(all, written);
        }});
    if (!own || !others || target_.result != terms_.shape) return;
    add("a term dropped", "what comes from other elements", {.terms = [](const View& all, Index element) {
          for (Index i = 0; i < all.count(); ++i)
            if (i != element) set_zero(all, i);
        }});
    add("a term dropped", "what comes from the element itself",
        {.terms = [](const View& all, Index element) { set_zero(all, element); }});
  }

  void swap_operands() {
    for (const MutantTarget& other : subject_.targets())
      if (other.op == target_.op && other.which == target_.which && other.input > target_.input &&
          other.shape.count() == target_.shape.count() && target_.shape.count() > 1)
        add("operands swapped", fmt::format("with input {}", other.input), {.swapped_with = other.input});
  }

  // Along an axis along which the input was stretched, only the first counts.
  void forget_sums() {
    const Shape &result = target_.result, &shape = target_.shape;
    const int lacking = result.rank() - shape.rank();
    const bool stretched = broadcasts_to(shape, result);
    for (int axis = 0; axis < result.rank(); ++axis) {
      const bool repeats = axis < lacking ? stretched || axis == 0 : stretched && shape[axis - lacking] == 1;
      if (!repeats || result[axis] < 2) continue;
      add("sum over a broadcast axis missing", fmt::format("axis {} of {}", axis, result),
          {.upstream = [=](const View& dy) { kernels::fill(dy.slice(axis, 1, dy.size(axis)), 0); }});
    }
  }

  // Its numbers are those of other elements. Whether the rule reads them at all shows where they are NaN, or, of
  // integers, where they are other ones.
  void make_stale() {
    const std::vector<double> right = subject_.of_random();
    for (int saved = 0; saved < static_cast<int>(target_.saved.size()); ++saved) {
      const Change poison = [](const View& numbers) {
        if (numbers.dtype() == i32)
          moved_on()(numbers);
        else
          kernels::fill(numbers, std::numeric_limits<double>::quiet_NaN());
      };
      const Mutant poisoned(aimed({.stale = poison, .saved = saved}));
      if (subject_.of_random() == right) continue;
      add("a stale saved value", target_.saved[static_cast<std::size_t>(saved)], {.stale = moved_on(), .saved = saved});
    }
  }

  Subject& subject_;
  const MutantTarget& target_;
  Terms terms_;
  std::vector<Planned> plan_;
};

// ---- Kinds that a rule's own formula decides about

// The gradient of another function in the place of that of a sample's op: as if a mask, or a term, were not there.
struct Instead {
  const char *kind, *sample, *detail;
  int inputs;  // so many from the first on: the gradients of others are as they were
  FunctionOfVars f;
};

Tensor targets_with(int fourth) { return tensor({5, 0, static_cast<double>(fourth), 2}, i32); }

Var mean_of_rows(Var x) { return mean(x, {-1}, Axes::stay); }

std::vector<Instead> instead() {
  using Inputs = std::span<const Var>;
  const char *mask = "the mask ignored", *term = "a term dropped";
  const auto all_keys = [](Inputs x) { return attention(x[0], x[1], x[2]); };
  const auto weights = [](Var q, Var k) { return matmul(q, t(k), 1 / std::sqrt(static_cast<double>(q.size(-1)))); };
  return {
      {mask, "relu", "passes everywhere", 1, [](Inputs x) { return x[0] * 1; }},
      {mask, "clamp", "passes everywhere", 1, [](Inputs x) { return x[0] * 1; }},
      {mask, "dropout", "passes everywhere", 1, [](Inputs x) { return x[0] * (1 / 0.7); }},
      {mask, "where", "passes on both sides", 2, [](Inputs x) { return x[0] + x[1]; }},
      {mask, "where, one shape", "passes on both sides", 2, [](Inputs x) { return x[0] + x[1]; }},
      {mask, "maximum", "passes on both sides", 2, [](Inputs x) { return x[0] + x[1]; }},
      {mask, "minimum", "passes on both sides", 2, [](Inputs x) { return x[0] + x[1]; }},
      {mask, "max", "passes everywhere", 1, [](Inputs x) { return sum(x[0], {-1}); }},
      {mask, "min", "passes everywhere", 1, [](Inputs x) { return sum(x[0], {0}); }},
      {mask, "tril", "passes everywhere", 1, [](Inputs x) { return x[0] * 1; }},
      {mask, "sparsemax", "all keys have weight", 1, [](Inputs x) { return x[0] - mean_of_rows(x[0]); }},
      {mask, "softmax, causal", "all keys are seen", 1, [](Inputs x) { return softmax(x[0]); }},
      {mask, "cross_entropy", "no target is ignored", 1,
       [](Inputs x) { return cross_entropy(x[0], targets_with(0), {.smoothing = 0.1}); }},
      {mask, "cross_entropy, of each", "no target is ignored", 1,
       [](Inputs x) { return cross_entropy(x[0], targets_with(0), {.reduction = Reduction::none}); }},
      {mask, "nll", "no target is ignored", 1, [](Inputs x) { return nll(x[0], targets_with(0)); }},
      {mask, "attention, causal", "all keys are seen", 3, all_keys},
      {mask, "attention, window", "all keys are seen", 3, all_keys},
      {mask, "attention, padding", "all keys are seen", 3, all_keys},
      {term, "softmax", "-y (dy·y)", 1, [](Inputs x) { return exp(x[0]) / detach(sum(exp(x[0]), {-1}, Axes::stay)); }},
      {term, "log_softmax", "-exp(y) sum(dy)", 1, [](Inputs x) { return x[0] * 1; }},
      {term, "layer_norm", "that of the mean", 1,
       [](Inputs x) {
         const Var centre = detach(mean_of_rows(x[0]));
         return layer_norm(x[0], x[1], x[2]) +
                (mean_of_rows(x[0]) - centre) * x[1] / detach(sqrt(var(x[0], {-1}, {.reduced = Axes::stay}) + 1e-5));
       }},
      {term, "layer_norm", "that of the variance", 1,
       [](Inputs x) {
         const Var root = detach(sqrt(var(x[0], {-1}, {.reduced = Axes::stay}) + 1e-5));
         return (x[0] - mean_of_rows(x[0])) / root * x[1] + x[2];
       }},
      {term, "rms_norm", "that of the mean square", 1,
       [](Inputs x) { return x[0] / detach(sqrt(mean_of_rows(x[0] * x[0]) + 1e-6)) * x[1]; }},
      {term, "cross_entropy", "that of the target", 1,
       [](Inputs x) {
         return sum(logsumexp(x[0], {-1}) * tensor({1 / 3.0, 1 / 3.0, 0, 1 / 3.0}, f64));
       }},
      {term, "cross_entropy", "the smoothing", 1, [](Inputs x) { return cross_entropy(x[0], targets_with(-100)); }},
      {term, "gelu", "x phi(x)", 1, [](Inputs x) { return x[0] * detach(gelu(x[0]) / x[0]); }},
      {term, "silu", "x s (1 - s)", 1, [](Inputs x) { return x[0] * detach(sigmoid(x[0])); }},
      {term, "var", "the mean is not taken off", 1, [](Inputs x) { return mean(x[0] * x[0], {-1}); }},
      {term, "attention", "-P (dO·O)", 2,
       [=](Inputs x) {
         const Var scores = weights(x[0], x[1]);
         return matmul(exp(scores - detach(logsumexp(scores, {-1}, Axes::stay))), x[2]);
       }},
      {term, "attention, softcap", "1 - tanh²", 3, all_keys},
      {term, "attention, dropout", "that nothing is dropped", 3, all_keys},
  };
}

// An input's gradient holds the factor, which is left out.
struct Scale {
  const char* sample;
  int input;
  double factor;
};

std::vector<Scale> scales() {
  const double root6 = 1 / std::sqrt(6.0), root2 = 1 / std::sqrt(2.0);
  std::vector<Scale> list = {{"mean", 0, 1 / 4.0},          {"dropout", 0, 1 / 0.7},    {"mul, a number", 0, 3},
                             {"matmul, square", 0, 0.5},    {"matmul, square", 1, 0.5}, {"var", 0, 2 / 5.0},
                             {"cross_entropy", 0, 1 / 3.0}, {"nll", 0, 1 / 3.0}};
  for (const char* sample : {"attention", "attention, causal", "attention, softcap", "attention, window",
                             "attention, padding", "attention, bias", "attention, dropout"})
    for (const int input : {0, 1}) list.push_back({sample, input, root6});
  for (const int input : {0, 1}) list.push_back({"attention, one shape", input, 0.5});
  for (const int input : {0, 1}) list.push_back({"attention, sinks", input, root2});
  return list;
}

std::string own_name(const std::string& sample) { return sample.substr(0, sample.find(',')); }

// What the rule of the sample's op would write if it were another function's.
std::function<void(const View&, const ConstView&)> gradient_of(const FunctionOfVars& f,
                                                               const std::vector<Tensor>& inputs, int input) {
  return [&inputs, f, input](const View& written, const ConstView& upstream) {
    Rng random(5);
    Tape tape({.random = &random, .constants = written.dtype()});
    std::vector<Var> vars;
    for (const Tensor& x : inputs) vars.push_back(variable(x.to(written.dtype())));
    tape.backward(f(vars), upstream);
    const Var x = vars[static_cast<std::size_t>(input)];
    if (x.has_grad())
      kernels::copy(written, x.grad());
    else
      kernels::fill(written, 0);
  };
}

std::vector<Planned> plan_by_formula(OpSample& sample, const Planner& planner, const MutantTarget& target) {
  std::vector<Planned> plan;
  const auto add_scale = [&](double factor) {
    plan.push_back(
        {"the scale missing", fmt::format("{:.4g}", factor), planner.aimed({.change = scaled_by(1 / factor)})});
  };
  if (target.op == "attention_scores") add_scale(1 / std::sqrt(static_cast<double>(target.shape.last())));
  if (target.op != own_name(sample.name)) return plan;
  for (const Instead& one : instead())
    if (one.sample == sample.name && target.input < one.inputs)
      plan.push_back(
          {one.kind, one.detail, planner.aimed({.replace = gradient_of(one.f, sample.inputs, target.input)})});
  for (const Scale& one : scales())
    if (one.sample == sample.name && one.input == target.input) add_scale(one.factor);
  return plan;
}

// ---- Judges

GradcheckReport check_gradients(OpSample& sample) {
  std::vector<Tensor*> inputs;
  for (Tensor& input : sample.inputs) inputs.push_back(&input);
  return gradcheck(sample.f, inputs);
}

// The largest share by which a gradient was found to be wrong.
double error_of(const GradcheckReport& report) {
  double error = 0;
  for (const GradcheckInput& input : report.inputs) {
    if (input.passed) continue;
    if (input.overwritten) error = std::max(error, 1.0);
    for (const double share : {input.forward_error, input.error})
      if (!std::isnan(share)) error = std::max(error, share);
  }
  return error;
}

class Judge {
 public:
  explicit Judge(Subject& subject)
      : subject_(subject), right_(subject.analytic()), numeric_(subject.numeric(1e-6)), zeros_(subject.of_zeros()) {}

  // Whether the right rules pass.
  bool is_sound() { return check_sample(subject_.sample()).passed() && passes_pytorch(); }

  MutantVerdict operator()(const Planned& planned) {
    const MutantOptions& o = planned.options;
    OpSample& sample = subject_.sample();
    MutantVerdict verdict{planned.kind,   sample.name,   o.op, o.which, o.input,
                          planned.detail, Fate::escaped, 0,    false,   false};
    const Mutant mutant(o);
    verdict.peers_passes = passes_pytorch();
    if (const GradcheckReport gradients = check_gradients(sample); !gradients.passed()) {
      verdict.fate = Fate::caught;
      verdict.error = error_of(gradients);
    } else if (const OpChecks ops = check_each_op(sample.f, sample.inputs); !ops.passed()) {
      verdict.fate = Fate::caught;
      verdict.alone = true;
      verdict.error = ops.wrong.empty() ? 1 : ops.wrong.front().error;
    } else if (mutant.count() > 0 && subject_.analytic() == right_ && subject_.of_zeros() == zeros_) {
      verdict.fate = Fate::equal;
    }
    return verdict;
  }

 private:
  bool passes_pytorch() {
    constexpr double kAbsolute = 1e-5, kRelative = 1e-3;
    for (const double slope : subject_.of_zeros())
      if (slope != 0) return false;
    for (std::size_t j = 0; j < numeric_.size(); ++j) {
      const std::vector<double> row = subject_.row(j);
      for (std::size_t i = 0; i < row.size(); ++i)
        if (!(std::abs(row[i] - numeric_[j][i]) <= kAbsolute + kRelative * std::abs(numeric_[j][i]))) return false;
    }
    return true;
  }

  Subject& subject_;
  Jacobian right_, numeric_;
  std::vector<double> zeros_;
};

// Whether an op has samples of its own, so that its mutants in this one would be the same again.
bool has_its_own(const MutantTarget& target, const OpSample& sample, const std::vector<OpSample>& samples) {
  const auto is_its = [&](const OpSample& other) { return other.name == target.op; };
  return target.op != own_name(sample.name) && std::any_of(samples.begin(), samples.end(), is_its);
}

std::string digit(double error) { return error > 0 ? fmt::format("{:.1f}", std::max(0.0, -std::log10(error))) : "-"; }

struct Row {
  int mutants = 0, caught = 0, equal = 0, alone = 0, peers = 0;
  double least = HUGE_VAL;

  void count(const MutantVerdict& m) {
    ++mutants;
    caught += m.fate == Fate::caught;
    equal += m.fate == Fate::equal;
    alone += m.alone;
    if (m.fate == Fate::equal) return;
    peers += m.peers_passes && m.kind != kAssigns;
    if (m.fate == Fate::caught) least = std::min(least, m.error);
  }
  std::vector<std::string> cells(const std::string& name) const {
    const auto number = [](int n) { return fmt::format("{}", n); };
    return {name,           number(mutants),
            number(caught), std::isfinite(least) ? digit(least) : "-",
            number(equal),  name == kAssigns ? "-" : number(peers)};
  }
};

std::map<std::string, Row> rows_of(const MutantReport& report) {
  std::map<std::string, Row> rows;
  for (const MutantVerdict& m : report.mutants) rows[m.kind].count(m), rows[""].count(m);
  return rows;
}

const char* word_of(Fate fate) { return fate == Fate::caught ? "caught" : fate == Fate::equal ? "equal" : "escaped"; }

}  // namespace

SampleChecks check_sample(OpSample& sample) {
  GradcheckReport gradients = check_gradients(sample);
  return {std::move(gradients), check_each_op(sample.f, sample.inputs)};
}

MutantReport check_mutants(std::vector<OpSample>& samples, const std::function<void(std::size_t)>& done) {
  MutantReport report;
  report.kinds = kKinds;
  for (std::size_t i = 0; i < samples.size(); ++i, done(i)) {
    OpSample& sample = samples[i];
    Subject subject(sample);
    std::vector<MutantTarget> targets = subject.targets();
    std::erase_if(targets, [&](const MutantTarget& target) { return has_its_own(target, sample, samples); });
    if (targets.empty()) report.composed.push_back(sample.name);
    if (targets.empty()) continue;
    Judge judge(subject);
    if (!judge.is_sound()) report.wrong.push_back(sample.name);
    for (const MutantTarget& target : targets) {
      Planner planner(subject, target);
      for (const Planned& planned : planner.plan()) report.mutants.push_back(judge(planned));
      for (const Planned& planned : plan_by_formula(sample, planner, target)) report.mutants.push_back(judge(planned));
    }
  }
  return report;
}

bool MutantReport::passed() const {
  return wrong.empty() &&
         std::none_of(mutants.begin(), mutants.end(), [](const auto& m) { return m.fate == Fate::escaped; });
}

std::string MutantVerdict::text() const {
  return fmt::format("{}: {}'s gradient of input {}: {}{}", sample, op, input, kind,
                     detail.empty() ? "" : ", " + detail);
}

std::string MutantReport::text(const show::Terminal& out) const {
  using enum show::Align;
  show::Table table({{"what is wrong"},
                     {"mutants", right},
                     {"caught", right},
                     {"digit", right},
                     {"equal", right},
                     {"pass PyTorch's", right}});
  std::map<std::string, Row> rows = rows_of(*this);
  for (const std::string& kind : kinds) table.row(rows[kind].cells(kind));
  table.rule();
  const Row& all = rows[""];
  table.row(all.cells("all"));
  std::string page = table.text(out);
  page +=
      "\nDigit: the last one at which a mutant of the kind was seen, of 16. Equal: the same\n"
      "Jacobian, to the bit, so that nothing is wrong. PyTorch's: how many of the others\n"
      "pass gradcheck's defaults there (atol 1e-5, rtol 1e-3, eps 1e-6). A rule cannot\n"
      "assign there: it returns what it computes.\n";
  for (const MutantVerdict& m : mutants)
    if (m.fate == Fate::equal) page += "\nequal    " + m.text();
  for (const std::string& name : wrong)
    page += "\n" + show::paint(out, show::Style::red, "WRONG    ") + name + ": without any mutant";
  for (const MutantVerdict& m : mutants)
    if (m.fate == Fate::escaped) page += "\n" + show::paint(out, show::Style::red, "ESCAPED  ") + m.text();
  if (!composed.empty())
    page += fmt::format("\n\nWithout a rule of their own, being views or made of other ops:\n{}",
                        fmt::join(composed, ", "));
  page += fmt::format(
      "\n\n{} mutants of {} rules: {} caught, {} of them by an op's own check alone; {} equal, {} ESCAPED\n",
      all.mutants, rows[kinds.front()].mutants, all.caught, all.alone, all.equal, all.mutants - all.caught - all.equal);
  return page;
}

std::string MutantReport::json() const {
  std::string page = fmt::format("{{\n  \"passed\": {},\n  \"mutants\": [\n", passed());
  for (const MutantVerdict& m : mutants)
    page += fmt::format(
        "    {{\"kind\": {}, \"sample\": {}, \"op\": {}, \"which\": {}, \"input\": {}, \"detail\": {}, "
        "\"verdict\": \"{}\", \"error\": {}, \"passes_pytorch\": {}}}{}\n",
        json_text(m.kind), json_text(m.sample), json_text(m.op), m.which, m.input, json_text(m.detail), word_of(m.fate),
        std::isfinite(m.error) ? fmt::format("{:.3g}", m.error) : "null", m.peers_passes,
        &m == &mutants.back() ? "" : ",");
  page += "  ],\n  \"without_a_rule\": [";
  for (const std::string& name : composed) page += (&name == &composed.front() ? "" : ", ") + json_text(name);
  return page + "]\n}\n";
}

}  // namespace attune::program
