// attune verify: are the gradients right? Reverse mode against differences of the values, and against forward mode.
#include <algorithm>
#include <cmath>
#include <functional>

#include "arguments.h"
#include "attune/attune.h"
#include "attune/examples/show/table.h"
#include "command.h"
#include "problem.h"
#include "run_folder.h"

namespace attune::program {
namespace {

using Loss = std::function<Var()>;

double digits_of(double error) { return error > 0 ? std::clamp(-std::log10(error), 0.0, 16.0) : 16; }

// How well forward and reverse mode agree on the derivative in one random direction, which both compute without
// differences: |t - g·v| relative to the sum of |g v|.
double forward_against_reverse(const ParameterList& parameters, const Loss& loss) {
  std::vector<Tensor> directions, gradients;
  Rng random(7);
  for (const auto& p : parameters.states()) {
    directions.emplace_back(p->value.shape(), f64);
    fill_normal(directions.back(), random);
  }
  {
    const Cast cast(parameters, f64);
    GradientSet set(parameters);
    Tape tape;
    const Var y = loss();
    tape.backward(y, set);
    for (const auto& p : parameters.states())
      gradients.push_back(Tensor::copy_of(set.grad(detail::ParameterAccess::from(p))));
  }
  const Cast cast(parameters, DType::dual);
  for (std::size_t i = 0; i < directions.size(); ++i) {
    const auto& p = parameters.states()[i];
    ++p->version;
    dual* const numbers = p->value.as<dual>();
    const auto direction = directions[i].data<double>();
    for (std::size_t k = 0; k < direction.size(); ++k) numbers[k].tangent = direction[k];
  }
  const NoGrad scope;
  const double forward = loss().value().as<dual>()->tangent;
  double reverse = 0, size = 0;
  for (std::size_t i = 0; i < directions.size(); ++i) {
    const auto v = directions[i].data<double>(), g = gradients[i].data<double>();
    for (std::size_t k = 0; k < v.size(); ++k) reverse += v[k] * g[k], size += std::abs(v[k] * g[k]);
  }
  return size > 0 ? std::abs(forward - reverse) / size : 0;
}

struct Verdict {
  bool passed = true;
  double worst = 16;  // digits
};

class Report {
 public:
  explicit Report(const show::Terminal& out)
      : out_(out), table_({{"parameter"}, {"shape"}, {"digits", show::Align::right}, {"verdict"}}) {}

  void differences(const std::string& prefix, const GradcheckReport& report) {
    if (!report.failure.empty()) add(prefix, "", 0, false, report.failure);
    for (const GradcheckInput& input : report.inputs) {
      const std::string note = input.missing ? "no gradient" : input.absolute ? "right: it is 0" : "";
      add(prefix + input.name, fmt::format("{}", input.shape), digits_of(input.error), input.passed, note);
    }
  }
  void modes(const std::string& name, double error) {
    add(name, "forward and reverse", digits_of(error), error < 1e-12, "");
  }
  void rule() { table_.rule(); }

  int print() const {
    fmt::print("{}\n{} of {} right; the least agree to {:.1f} digits\n", table_.text(out_), right_, count_, least_);
    return right_ == count_ ? kDone : kFailedCheck;
  }

 private:
  void add(const std::string& name, const std::string& shape, double digits, bool passed, const std::string& note) {
    ++count_, right_ += passed;
    const std::string verdict = !note.empty() ? note : passed ? "right" : "WRONG";
    if (!verdict.starts_with("right:")) least_ = std::min(least_, digits);
    table_.row({name, shape, fmt::format("{:.1f}", digits),
                show::paint(out_, passed ? show::Style::green : show::Style::red, verdict)});
  }

  show::Terminal out_;
  show::Table table_;
  int count_ = 0, right_ = 0;
  double least_ = 16;
};

// Differences of a loss keep about 12 digits of the loss, which are fewer of a gradient that is far smaller: hence
// the tolerance. Forward mode has no such limit.
template <class Model>
void verify_model(Report& report, const std::string& prefix, Model& model, const Loss& loss, Index elements) {
  const ParameterList parameters(model);
  {
    const Cast cast(parameters, f64);
    report.differences(
        prefix, gradcheck_parameters(parameters, loss, {.tolerance = 1e-6, .step = 1e-4, .elements = elements}));
  }
  report.modes(prefix + "all, in one direction", forward_against_reverse(parameters, loss));
}

Tensor random_tokens(Index batch, Index length, Index vocab) {
  Tensor tokens({batch, length}, i32);
  Rng random(3);
  for (auto& token : tokens.data<std::int32_t>()) token = static_cast<std::int32_t>(random.below(vocab));
  return tokens;
}

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

void verify_run(Report& report, const RunConfig& config, Gpt& model, Index elements) {
  const Batch batch = batch_of(config);
  verify_model(
      report, "", model, [&] { return cross_entropy(model(batch.inputs), batch.targets); }, elements);
}

// ---- Without a run: a Gpt with all there is to it, and layers alone

void verify_built_in(Report& report) {
  Rng random(1);
  Gpt gpt({.vocab = 7, .context = 8, .layers = 2, .heads = 2, .width = 8, .bias = true, .deviation = 0.3},
          random.split("gpt"));
  const Tensor tokens = random_tokens(2, 8, 7), targets = random_tokens(2, 8, 7);
  verify_model(
      report, "gpt.", gpt, [&] { return cross_entropy(gpt(tokens), targets); }, 24);
  report.rule();
  Gpt modern({.vocab = 7,
              .context = 8,
              .layers = 1,
              .heads = 4,
              .kv_heads = 2,
              .width = 16,
              .tied = false,
              .positions = Positions::rope,
              .normalize = Normalize::rms,
              .activation = Activation::swiglu,
              .deviation = 0.3},
             random.split("modern"));
  verify_model(
      report, "modern.", modern, [&] { return cross_entropy(modern(tokens), targets); }, 24);
  report.rule();
  Tensor x({2, 5, 8});
  fill_normal(x, random);
  EncoderLayer encoder({.width = 8, .heads = 2, .activation = Activation::gelu}, random);
  const auto encoded = [&] {
    const Var input = x.to(encoder.mlp.up.weight.dtype());
    const Var y = encoder(input);
    return mean(y * y * y);
  };
  verify_model(report, "encoder.", encoder, encoded, 24);
}

int run(const Arguments& a) {
  const Index elements = a.integer("--elements", 12, 1, 1000000, 12);
  Report report(a.out());
  if (a.operands.empty()) {
    verify_built_in(report);
  } else {
    const RunFolder folder(a.operands.front());
    const RunConfig config = folder.read_config();
    RunConfig without = config;
    without.recipe.dropout = 0;  // the same each time it is called
    Gpt model = load_model(folder, without);
    verify_run(report, config, model, elements);
  }
  return report.print();
}

}  // namespace

Command verify_command() {
  return {
      .name = "verify",
      .summary = "are the gradients right, and to how many digits?",
      .about =
          "Computes the gradient of every parameter in double precision and holds it against central differences of "
          "the "
          "loss, element by element; then along a random direction against forward mode, which needs no differences. "
          "With a run, on its model and a batch of its data; without, on built-in models.",
      .examples = {{"attune verify", "a small Gpt and some layers"},
                   {"attune verify runs/copy", "the model you trained"},
                   {"attune verify runs/copy --elements 100", "more of each parameter"}},
      .operands = {{"DIR", "the folder of a run", false, {}}},
      .options = {{"--elements", "N", "how many of each of a run's parameters to check [12]", {}}},
      .run = run};
}

}  // namespace attune::program
