// attune verify: are the gradients right, and to how many digits? Of every op and layer, or of a run's model.
#include <algorithm>
#include <cmath>

#include "arguments.h"
#include "attune/attune.h"
#include "attune/examples/show/plot.h"
#include "attune/examples/show/progress.h"
#include "attune/examples/show/table.h"
#include "attune/lib/wrap.h"
#include "command.h"
#include "json.h"
#include "mutants.h"
#include "op_samples.h"
#include "picture.h"
#include "problem.h"
#include "run_folder.h"

namespace attune::program {
namespace {

double digits_of(double error) { return error > 0 ? std::clamp(-std::log10(error), 0.0, 16.0) : 16; }

// A line of the report. Digits that could not be told are not numbers.
struct Line {
  std::string name, shape;
  double forward, differences, single;  // digits
  Verdict verdict;
  std::string why;
};

const char* word_of(Verdict verdict) {
  return verdict == Verdict::right ? "right" : verdict == Verdict::wrong ? "wrong" : "cannot tell";
}

class Report {
 public:
  explicit Report(std::string what) : what_(std::move(what)) {}

  void add(Line line) { lines_.push_back(std::move(line)); }
  void rule() { rules_.push_back(lines_.size()); }
  void note(std::string text) { notes_.push_back(std::move(text)); }

  int exit_code() const { return count(Verdict::wrong) > 0 ? kFailedCheck : kDone; }

  std::string text(const show::Terminal& out) const {
    using enum show::Align;
    show::Table table({{what_}, {"shape"}, {"forward", right}, {"numeric", right}, {"f32", right}, {"verdict"}});
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const Line& line = lines_[i];
      if (std::find(rules_.begin(), rules_.end(), i) != rules_.end()) table.rule();
      const show::Style style = line.verdict == Verdict::right   ? show::Style::green
                                : line.verdict == Verdict::wrong ? show::Style::red
                                                                 : show::Style::yellow;
      table.row({line.name, line.shape, digits(line.forward), digits(line.differences), digits(line.single),
                 show::paint(out, style, line.verdict == Verdict::wrong ? "WRONG" : word_of(line.verdict))});
    }
    std::string page = table.text(out) +
                       "\nDigits in which the gradient agrees with forward mode, which is exact; with\n"
                       "differences of the values, as many as these have; and in f32 with f64 (where\n"
                       "there are parameters to cast).\n";
    for (const Line& line : lines_)
      if (!line.why.empty()) page += "\n" + wrapped(line.name + ": " + line.why, 2) + "\n";
    for (const std::string& note : notes_) page += "\n" + wrapped(note, 2) + "\n";
    page += fmt::format("\n{} of {} right", count(Verdict::right), lines_.size());
    if (const auto wrong = count(Verdict::wrong)) page += fmt::format(", {} WRONG", wrong);
    if (const auto untold = count(Verdict::cannot_tell)) page += fmt::format(", {} could not be told", untold);
    return page + fmt::format("; the least agrees with forward mode to {:.1f} digits\n", least());
  }

  std::string json() const {
    std::string page = fmt::format("{{\n  \"passed\": {},\n  \"lines\": [\n", exit_code() == kDone);
    for (const Line& line : lines_)
      page += fmt::format("    {{\"name\": {}, \"shape\": {}, \"forward_digits\": {}, \"difference_digits\": {}, "
                          "\"f32_digits\": {}, \"verdict\": {}, \"why\": {}}}{}\n",
                          json_text(line.name), json_text(line.shape), json_number(line.forward),
                          json_number(line.differences), json_number(line.single), json_text(word_of(line.verdict)),
                          json_text(line.why), &line == &lines_.back() ? "" : ",");
    page += "  ],\n  \"notes\": [";
    for (const std::string& note : notes_) page += (&note == &notes_.front() ? "" : ", ") + json_text(note);
    return page + "]\n}\n";
  }

 private:
  static std::string digits(double number) { return std::isnan(number) ? "-" : fmt::format("{:.1f}", number); }
  std::size_t count(Verdict verdict) const {
    return static_cast<std::size_t>(
        std::count_if(lines_.begin(), lines_.end(), [=](const Line& line) { return line.verdict == verdict; }));
  }
  double least() const {
    double digits = 16;
    for (const Line& line : lines_)
      if (line.verdict == Verdict::right && !std::isnan(line.forward)) digits = std::min(digits, line.forward);
    return digits;
  }

  std::string what_;
  std::vector<Line> lines_;
  std::vector<std::size_t> rules_;
  std::vector<std::string> notes_;
};

// ---- Ops

Line line_of(const std::string& name, const SampleChecks& checks) {
  const GradcheckReport& report = checks.gradients;
  const Verdict verdict = checks.ops.passed() ? report.verdict() : Verdict::wrong;
  Line line{name, "", 16, 16, NAN, verdict, checks.ops.passed() ? report.failure : checks.ops.text()};
  for (const GradcheckInput& input : report.inputs) {
    line.shape += (line.shape.empty() ? "" : " ") + fmt::format("{}", fmt::join(input.shape, "×"));
    line.forward = std::min(line.forward, digits_of(input.forward_error));
    line.differences = std::min(line.differences, digits_of(input.error));
    if (input.overwritten) line.why = "its rule writes over what the gradient holds";
    for (const std::string& kink : input.kinks) line.why = "elements at a kink of " + kink + " left out";
  }
  return line;
}

// Those of one op, where one is asked for: under its own name, or all whose name begins with it.
std::vector<OpSample> samples_of(const Arguments& a) {
  std::vector<OpSample> samples = op_samples();
  if (!a.has("--op")) return samples;
  std::vector<std::string> names;
  for (const OpSample& sample : samples) names.push_back(sample.name);
  const std::string wanted = one_of("--op", "op", a.text("--op"), names);
  std::erase_if(
      samples, [&](const OpSample& sample) { return sample.name != wanted && !sample.name.starts_with(wanted + ","); });
  return samples;
}

// ---- Models

Tensor random_tokens(Index batch, Index length, Index vocab) {
  Tensor tokens({batch, length}, i32);
  Rng random(3);
  for (auto& token : tokens.data<std::int32_t>()) token = static_cast<std::int32_t>(random.below(vocab));
  return tokens;
}

void add_notes(Report& report, const std::string& name, const VerifyReport& verified) {
  for (const std::string& note : verified.notes) report.note(name + note);
  for (const ParameterReport& severed : verified.severed) report.note(name + severed.text());
  if (!verified.ops.passed()) report.note(name + verified.ops.text());
}

// A whole model in a line: the least of its parameters' digits.
Line line_of(const std::string& name, const VerifyReport& verified) {
  Line line{name, "", 16, 16, 16, verified.verdict(), verified.failure};
  line.shape = fmt::format("{} tensors, {} ops", verified.parameters.size(), verified.ops.ops);
  for (const VerifiedParameter& p : verified.parameters) {
    if (p.verdict == Verdict::cannot_tell) continue;
    line.forward = std::min(line.forward, digits_of(p.forward_error));
    line.differences = std::min(line.differences, digits_of(p.differences_error));
    line.single = std::min(line.single, p.single_digits());
  }
  for (const VerifiedParameter& p : verified.parameters)
    if (line.why.empty() && p.verdict == verified.verdict()) line.why = p.why.empty() ? "" : p.name + ", " + p.why;
  return line;
}

template <class Model, class Loss>
void add_model(Report& report, const std::string& name, Model&& model, Loss&& loss) {
  const VerifyReport verified = verify(model, loss);
  report.add(line_of(name, verified));
  if (!verified.passed()) add_notes(report, name + ": ", verified);
}

// mean(y³): a loss that sees every element.
Var cubes(Var y) { return mean(y * y * y); }

void add_layers(Report& report) {
  Rng random(1);
  Tensor x({2, 5, 8}), memory({2, 4, 8});
  fill_normal(x, random);
  fill_normal(memory, random);
  const auto layer = [&](const char* name, auto made) {
    add_model(report, name, made, [&] { return cubes(made(x)); });
  };
  layer("Linear", Linear({.in = 8, .out = 6}, random));
  layer("LayerNorm", LayerNorm(8));
  layer("RmsNorm", RmsNorm(8));
  layer("Mlp, gelu", Mlp({.width = 8}, random));
  layer("Mlp, swiglu", Mlp({.width = 8, .activation = Activation::swiglu}, random));
  layer("MultiHeadAttention", MultiHeadAttention({.width = 8, .heads = 2, .mask = Mask::causal()}, random));
  layer("the same, grouped, sinks",
        MultiHeadAttention({.width = 8, .heads = 4, .kv_heads = 2, .sinks = true}, random));
  MultiHeadAttention cross({.width = 8, .memory_width = 8, .heads = 2}, random);
  add_model(report, "the same, cross", cross, [&] { return cubes(cross(x, memory)); });
  layer("EncoderLayer", EncoderLayer({.width = 8, .heads = 2, .activation = Activation::gelu}, random));
  DecoderLayer decoder({.width = 8, .heads = 2, .activation = Activation::gelu}, random);
  add_model(report, "DecoderLayer", decoder, [&] { return cubes(decoder(x, memory)); });
}

void add_models(Report& report) {
  const Tensor tokens = random_tokens(2, 8, 7), targets = random_tokens(2, 8, 7);
  const auto gpt = [&](const char* name, const GptOptions& options) {
    Gpt model(options, Rng(1));
    add_model(report, name, model, [&] { return cross_entropy(model(tokens), targets); });
  };
  const GptOptions plain{.vocab = 7, .context = 8, .layers = 2, .heads = 2, .width = 8, .bias = true, .deviation = 0.3};
  gpt("Gpt", plain);
  GptOptions modern = plain;
  modern.heads = 4, modern.kv_heads = 2, modern.width = 16, modern.tied = false, modern.bias = false;
  modern.positions = Positions::rope, modern.normalize = Normalize::rms, modern.activation = Activation::swiglu;
  gpt("Gpt, RoPE, RMS, SwiGLU", modern);
  modern.dropout = 0.2;
  gpt("the same with dropout", modern);
}

Report built_in_report(const Arguments& a) {
  std::vector<OpSample> samples = samples_of(a);
  show::Progress progress(static_cast<long>(samples.size()), 0, a.err());
  Report report("op");
  for (OpSample& sample : samples) {
    report.add(line_of(sample.name, check_sample(sample)));
    progress.show(&sample - samples.data() + 1, sample.name);
  }
  progress.clear();
  if (a.has("--op")) return report;
  report.rule();
  add_layers(report);
  report.rule();
  add_models(report);
  return report;
}

// ---- A run

// A batch of what the run learns from; random tokens where its text is not there any more.
Batch batch_of(const RunConfig& config) {
  const Index size = 2;
  try {
    return make_problem(
               {.task = config.task, .data = config.data, .context = config.recipe.context, .seed = config.seed})
        ->batch(config.recipe.steps, size);
  } catch (const InputError&) {
    const Index vocab = static_cast<Index>(config.vocabulary.size());
    return {random_tokens(size, config.recipe.context, vocab), random_tokens(size, config.recipe.context, vocab)};
  }
}

Report run_report(const Arguments& a) {
  const RunFolder folder(a.operands.front());
  const RunConfig config = folder.read_config();
  Gpt model = load_model(folder, config);
  const Batch batch = batch_of(config);
  const VerifyReport verified = verify(model, [&] { return cross_entropy(model(batch.inputs), batch.targets); });
  Report report("parameter");
  for (const VerifiedParameter& p : verified.parameters) {
    const bool told = p.verdict != Verdict::cannot_tell;
    report.add({p.name, fmt::format("{}", p.shape), told ? digits_of(p.forward_error) : NAN,
                told ? digits_of(p.differences_error) : NAN, told ? p.single_digits() : NAN, p.verdict, p.why});
  }
  add_notes(report, "", verified);
  report.note(verified.failure.empty() ? verified.ops.text() : verified.failure);
  return report;
}

// ---- The V-curve: what the step of a difference does to its error

struct VCurve {
  show::Series two{.name = "(f(x+h) − f(x−h)) / 2h"}, one{.name = "(f(x+h) − f(x)) / h"};
  show::Series truncation{.name = "∝ h²"}, rounding{.name = "∝ ε / h"};
};

// Of the derivative along one direction, which forward mode knows exactly.
VCurve v_curve(const OpSample& sample) {
  std::vector<Tensor> direction;
  for (const Tensor& input : sample.inputs) {
    direction.emplace_back(input.shape(), f64);
    Rng random(11);
    fill_normal(direction.back(), random);
  }
  Tensor weights;  // a random sum of the results
  const auto sum_at = [&](std::span<const Var> x) {
    const Var y = sample.f(x);
    if (weights.count() != y.value().count() || weights.shape() != y.shape()) {
      weights = Tensor(y.shape(), f64);
      Rng random(12);
      fill_normal(weights, random);
    }
    const Var w = weights.to(y.dtype());
    return sum(y * w);
  };
  const double exact = jvp(sum_at, sample.inputs, direction).tangent.item();
  const auto value = [&](double h) {
    Rng random(0);
    Tape tape({.random = &random});
    std::vector<Var> x;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      Tensor moved = sample.inputs[i].clone();
      for (Index k = 0; k < moved.count(); ++k)
        moved.data<double>()[static_cast<std::size_t>(k)] += h * direction[i].view().as<double>()[k];
      x.push_back(variable(std::move(moved)));
    }
    return sum_at(x).item();
  };
  VCurve curve;
  const double at = value(0), size = std::max(std::abs(exact), 1e-300);
  for (double power = 0; power <= 14; power += 0.25) {
    const double h = std::pow(10, -power), ahead = value(h), behind = value(-h);
    const auto add = [&](show::Series& series, double y) { series.x.push_back(h), series.y.push_back(y); };
    add(curve.two, std::abs((ahead - behind) / (2 * h) - exact) / size);
    add(curve.one, std::abs((ahead - at) / h - exact) / size);
    add(curve.rounding, 0x1p-53 * std::abs(at) / h / size);
  }
  // The slope of h², through the curve where truncation rules.
  for (std::size_t i = 0; i < curve.two.x.size(); ++i) {
    const double h = curve.two.x[i], line = curve.two.y[4] * (h * h) / (curve.two.x[4] * curve.two.x[4]);
    curve.truncation.x.push_back(h), curve.truncation.y.push_back(line > 1e-17 ? line : NAN);
  }
  return curve;
}

int draw_curve(const Arguments& a) {
  std::vector<OpSample> samples = op_samples();
  std::vector<std::string> names;
  for (const OpSample& sample : samples) names.push_back(sample.name);
  const std::string name = one_of("--curve", "op", a.text("--curve"), names);
  const OpSample& sample = samples[static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin())];
  const VCurve curve = v_curve(sample);
  const show::Series series[] = {curve.truncation, curve.rounding, curve.one, curve.two};  // later ones lie on top
  const show::PlotOptions options{.title = "The error of a difference, against its step: " + name,
                                  .x_label = "step h",
                                  .y_label = "relative error",
                                  .log_x = true,
                                  .log_y = true,
                                  .height = 18};
  fmt::print("{}", show::line_plot(series, options, a.out()));
  const auto best = std::min_element(curve.two.y.begin(), curve.two.y.end());
  fmt::print("\nThe best step is {:.0e}, and leaves {:.1f} digits.\nLarger ones err by h², smaller ones by rounding.\n",
             curve.two.x[static_cast<std::size_t>(best - curve.two.y.begin())], digits_of(*best));
  if (a.has("--svg")) write_picture(a.text("--svg"), show::svg_line_plot(series, options).text(options.title));
  return kDone;
}

int run_mutants(const Arguments& a) {
  std::vector<OpSample> samples = samples_of(a);
  show::Progress progress(static_cast<long>(samples.size()), 0, a.err());
  const MutantReport report =
      check_mutants(samples, [&](std::size_t done) { progress.show(static_cast<long>(done), samples[done - 1].name); });
  progress.clear();
  fmt::print("{}", a.has("--json") ? report.json() : report.text(a.out()));
  return report.passed() ? kDone : kFailedCheck;
}

void check_combination(const Arguments& a) {
  for (const char* option : {"--mutants", "--op"})
    if (a.has(option) && !a.operands.empty())
      refuse("{}: it is about ops, not about a run's model; leave {} away", option, a.operands.front());
  for (const char* option : {"--mutants", "--op"})
    if (a.has(option) && a.has("--curve")) refuse("{}: --curve draws one op; give one of the two", option);
}

int run(const Arguments& a) {
  if (a.has("--svg") && !a.has("--curve")) refuse("--svg {}: there is nothing to draw without --curve OP", a.text("--svg"));
  check_combination(a);
  check_picture_path(a);
  if (a.has("--mutants")) return run_mutants(a);
  if (a.has("--curve")) return draw_curve(a);
  const Report report = a.operands.empty() ? built_in_report(a) : run_report(a);
  fmt::print("{}", a.has("--json") ? report.json() : report.text(a.out()));
  return report.exit_code();
}

}  // namespace

Command verify_command() {
  return {
      .name = "verify",
      .summary = "are the gradients right, and to how many digits?",
      .about =
          "Computes gradients in double precision by reverse mode, and holds them against forward mode, which is "
          "exact, "
          "and against differences of the values, whose step and error bar are found by extrapolation. Without a run: "
          "every op, layer and kind of model. With one: each parameter of its model, on a batch of its data; what is "
          "wrong is traced to its op. What a check cannot tell, it says. With --mutants the check itself is checked: "
          "every "
          "gradient rule of every op is made wrong in each way that applies to it, and all must be caught.",
      .examples = {{"attune verify", "every op and layer"},
                   {"attune verify runs/copy", "the model you trained"},
                   {"attune verify --mutants", "would it see a wrong rule? Some two thousand are tried"},
                   {"attune verify --curve softmax", "what the step of a difference does to its error"}},
      .operands = {{"DIR", "the folder of a run", false, {}}},
      .options = {{"--curve", "OP", "draws the error of differences against their step", {}},
                  {"--svg", "FILE", "the curve as a picture, too", {}},
                  {"--mutants", "", "the same checks, of rules that are made wrong", {}},
                  {"--op", "OP", "this op alone", {}},
                  {"--json", "", "the table as JSON", {}}},
      .run = run};
}

}  // namespace attune::program
