#include "mutants.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "attune/examples/show/table.h"
#include "attune/lib/wrap.h"
#include "json.h"
#include "mutant_plan.h"

namespace attune::program {
namespace {

using Fate = MutantVerdict::Fate;

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
  explicit Judge(MutantSubject& subject)
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

  MutantSubject& subject_;
  Jacobian right_, numeric_;
  std::vector<double> zeros_;
};

// Whether an op has samples of its own, so that its mutants in this one would be the same again.
bool has_its_own(const MutantTarget& target, const OpSample& sample, const std::vector<OpSample>& samples) {
  const auto is_its = [&](const OpSample& other) { return other.name == target.op; };
  return target.op != op_of(sample) && std::any_of(samples.begin(), samples.end(), is_its);
}

// ---- The table

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
  report.kinds = kMutantKinds;
  for (std::size_t i = 0; i < samples.size(); ++i, done(i)) {
    OpSample& sample = samples[i];
    MutantSubject subject(sample);
    std::vector<MutantTarget> targets = subject.targets();
    std::erase_if(targets, [&](const MutantTarget& target) { return has_its_own(target, sample, samples); });
    if (targets.empty()) report.composed.push_back(sample.name);
    if (targets.empty()) continue;
    Judge judge(subject);
    if (!judge.is_sound()) report.wrong.push_back(sample.name);
    for (const MutantTarget& target : targets) {
      for (const Planned& planned : mutants_of(subject, target)) report.mutants.push_back(judge(planned));
    }
  }
  return report;
}

bool MutantReport::passed() const {
  return wrong.empty() &&
         std::none_of(mutants.begin(), mutants.end(), [](const auto& m) { return m.fate == Fate::escaped; });
}

std::string MutantVerdict::text() const {
  return fmt::format("{}: {}, gradient of input {}: {}{}", sample, op, input, kind,
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
      "\nDigit: the last one at which a mutant of the kind was seen, of 16. Equal: the\n"
      "same Jacobian, to the bit, so that nothing is wrong. PyTorch's: how many of the\n"
      "others pass gradcheck's defaults there (atol 1e-5, rtol 1e-3, eps 1e-6). A rule\n"
      "cannot assign there: it returns what it computes.\n";
  for (const MutantVerdict& m : mutants)
    if (m.fate == Fate::equal) page += "\n" + wrapped("equal   " + m.text(), 8);
  for (const std::string& name : wrong)
    page += "\n" + wrapped(show::paint(out, show::Style::red, "WRONG   ") + name + ": without any mutant", 8);
  for (const MutantVerdict& m : mutants)
    if (m.fate == Fate::escaped) page += "\n" + wrapped(show::paint(out, show::Style::red, "ESCAPED ") + m.text(), 8);
  if (!composed.empty())
    page += fmt::format("\n\nWithout a rule of their own, being views or made of other ops:\n{}",
                        wrapped(fmt::format("{}", fmt::join(composed, ", "))));
  const auto rules = rows[kinds.front()].mutants;
  const std::string sum = fmt::format(
      "{} mutants of {} rule{}: {} caught, {} of them by an op's own check alone;\n{} equal, {} ESCAPED", all.mutants,
      rules, rules == 1 ? "" : "s", all.caught, all.alone, all.equal, all.mutants - all.caught - all.equal);
  return page + "\n\n" + wrapped(sum) + "\n";
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
