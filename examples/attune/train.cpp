// attune train: a model learns a task, and its run goes into a folder that others go on from.
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "arguments.h"
#include "attune/attune.h"
#include "attune/examples/show/heat_map.h"
#include "attune/examples/show/progress.h"
#include "attune/lib/utf8.h"
#include "attune/lib/wrap.h"
#include "command.h"
#include "maps.h"
#include "meter_log.h"
#include "problem.h"
#include "run_folder.h"

namespace attune::program {
namespace {

namespace fs = std::filesystem;

// ---- Ctrl-C: the step at hand is finished first. The second one ends the program at once.

volatile sig_atomic_t stopped_by = 0;

void watch_for_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { stopped_by = signal; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

// ---- What is asked for

const std::vector<std::string> kRecipeOptions = {"--preset", "--layers", "--heads",      "--width",  "--context",
                                                 "--batch",  "--steps",  "--lr",         "--warmup", "--dropout",
                                                 "--seed",   "--out",    "--save-every", "--meter",  "--meter-every"};

// Steps between two measurements of attention: few enough to see it change, for less than a twentieth of the time.
constexpr Index kMeterEvery = 20;

Recipe read_recipe(const Arguments& a, const std::string& task) {
  const std::string preset = a.has("--preset") ? one_of("--preset", "preset", a.text("--preset"), preset_names()) : "";
  Recipe r = recipe_of(task, preset);
  if (a.has("--context") && task != "text")
    refuse("--context {}: {} has {} tokens of its own; --context is for text", a.text("--context"), task, r.context);
  r.layers = a.integer("--layers", r.layers, 1, 1000, r.layers);
  r.heads = a.integer("--heads", r.heads, 1, 1000, r.heads);
  r.width = a.integer("--width", r.width, 1, 1000000, r.width);
  r.context = a.integer("--context", r.context, 1, 10000000, 64);
  r.batch = a.integer("--batch", r.batch, 1, 1000000, r.batch);
  r.steps = a.integer("--steps", r.steps, 1, 1000000000, r.steps);
  r.warmup = a.integer("--warmup", std::min(r.warmup, r.steps / 10), 0, r.steps, std::min(r.warmup, r.steps / 10));
  const double lr = a.number("--lr", r.lr, {0, HUGE_VAL, true}, r.lr);
  r.min_lr *= lr / r.lr;
  r.lr = lr;
  r.dropout = a.number("--dropout", r.dropout, {0, 1, false, true}, 0.1);
  if (r.width % r.heads != 0) {
    const Index below = r.width / r.heads * r.heads;
    refuse("--width {} does not divide among --heads {}: such as --width {}", r.width, r.heads,
           below > 0 ? fmt::format("{} or {}", below, below + r.heads) : fmt::format("{}", r.heads));
  }
  return r;
}

// A model that does not fit into memory is refused before it is made. A parameter takes 16 bytes (itself, its
// gradient, two moments); a token about 40 numbers of the width in every layer, and three of the vocabulary.
void check_memory(const Recipe& r, Index vocab) {
  const auto width = static_cast<double>(r.width), layers = static_cast<double>(r.layers);
  const double parameters = 12 * layers * width * width + static_cast<double>(vocab + r.context) * width;
  const double tokens = static_cast<double>(r.batch) * static_cast<double>(r.context);
  const double bytes = 16 * parameters + 4 * tokens * (40 * layers * width + 3 * static_cast<double>(vocab));
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes > memory)
    refuse("--layers {} --width {} --batch {} --context {} need about {}, and this machine has {}: make one smaller",
           r.layers, r.width, r.batch, r.context, bytes_text(bytes), bytes_text(memory));
}

// ---- The run

class Run {
 public:
  Run(const Arguments& arguments, RunFolder folder, RunConfig config, std::unique_ptr<Problem> problem)
      : arguments_(arguments),
        out_(arguments.out()),
        folder_(std::move(folder)),
        lock_(folder_.lock()),
        config_(std::move(config)),
        recipe_(config_.recipe),
        problem_(std::move(problem)),
        model_(config_.model(), Rng(config_.seed)),
        optimizer_(model_, {.lr = recipe_.lr, .beta2 = recipe_.beta2, .decay = recipe_.decay, .clip = 1}),
        schedule_{.lr = recipe_.lr, .min_lr = recipe_.min_lr, .warmup = recipe_.warmup, .total = recipe_.steps},
        dropout_(config_.seed, 4) {
    if (config_.meter > 0) meter_.emplace(model_, config_.meter, recipe_.steps);
  }

  void start() {
    folder_.write_config(config_);
    folder_.write_story(arguments_, config_, 0);
  }

  // From its last checkpoint; what was noted after it is made again.
  void resume() {
    std::error_code ignored;
    if (fs::exists(folder_.checkpoint(), ignored)) load_checkpoint(folder_.checkpoint(), parts());
    if (step_ > 0) rows_ = folder_.read_metrics();
    if (step_ > 0 && meter_) meter_->restore(folder_.read_attention(), step_);
    std::erase_if(rows_, [&](const Row& row) { return row.step > step_; });
    if (step_ < recipe_.steps) folder_.write_story(arguments_, config_, std::max<Index>(step_, 1));
  }

  int train() {
    introduce();
    if (step_ >= recipe_.steps) {
      fmt::print("{} of {} steps are made: there is nothing to go on with.\n", step_, recipe_.steps);
      suggest();
      return kDone;
    }
    watch_for_interrupts();
    show::Progress progress(recipe_.steps, step_, arguments_.err());
    last_row_at_ = progress.seconds(), last_row_step_ = step_;
    while (step_ < recipe_.steps && !stopped_by) {
      make_step();
      progress.show(step_, status(progress));
      if (step_ % config_.every == 0 || step_ == recipe_.steps) look(progress);
    }
    progress.clear();
    if (stopped_by) return interrupted();
    return conclude(progress.seconds());
  }

 private:
  std::vector<CheckpointPart> parts() {
    return {{"model", model_}, {"optimizer", optimizer_}, {"dropout", dropout_},
            {"step", step_},   {"loss_sum", loss_sum_},   {"loss_count", loss_count_}};
  }

  void introduce() const {
    fmt::print("{} {}.\n", show::paint(out_, show::Style::bold, config_.task + ":"),
               "a transformer " + problem_->about());
    fmt::print("{}\n", wrapped(fmt::format(
                           "{} layer{}, {} head{}, width {}, {} parameters; {} step{} of {} x {} tokens", recipe_.layers,
                           recipe_.layers == 1 ? "" : "s", recipe_.heads, recipe_.heads == 1 ? "" : "s", recipe_.width,
                           grouped(parameter_count(model_)), recipe_.steps, recipe_.steps == 1 ? "" : "s", recipe_.batch,
                           recipe_.context)));
    fmt::print("seed {}, {} thread{}, {}; in {}{}\n\n", config_.seed, threads(), threads() == 1 ? "" : "s", row(),
               folder_.path().string(), step_ > 0 ? fmt::format(", from step {} on", step_) : "");
    std::fflush(stdout);
  }

  void make_step() {
    const Batch batch = problem_->batch(step_, recipe_.batch);
    optimizer_.set_lr(schedule_(step_));
    const Index skipped = optimizer_.skipped();
    {
      Tape tape({.random = &dropout_});
      std::optional<AttentionMeter::Watch> watch;
      if (meter_) watch.emplace(meter_->meter(), step_);
      const Var loss = cross_entropy(model_(batch.inputs), batch.targets);
      tape.backward(loss);
      if (watch && watch->measures()) watch->read(), meter_->note();
      optimizer_.step();
      losses_.push_back(loss.item());
    }
    ++step_;
    loss_sum_ += losses_.back();
    ++loss_count_;
    if (optimizer_.skipped() > skipped) was_skipped_ = true;
  }

  // What stands behind the bar.
  std::string status(const show::Progress& progress) const {
    std::string text = fmt::format("loss {:.4f}", losses_.back());
    if (!rows_.empty() && rows_.back().accuracy)
      text += fmt::format("  {:.0f} % right", 100 * *rows_.back().accuracy);
    if (progress.rate() > 0) text += fmt::format("  {} tok/s", rate_text(progress.rate() * tokens_per_step()));
    return text + "  " + sparkline(losses_, 8);
  }
  double tokens_per_step() const { return static_cast<double>(recipe_.batch) * static_cast<double>(recipe_.context); }

  // A row of metrics, and a checkpoint.
  void look(show::Progress& progress) {
    const double now = progress.seconds();
    const Evaluation found = problem_->evaluate(model_, false);
    Row row{.step = step_,
            .tokens = step_ * recipe_.batch * recipe_.context,
            .train_loss = loss_sum_ / static_cast<double>(loss_count_),
            .val_loss = found.loss,
            .accuracy = {},
            .lr = optimizer_.lr(),
            .grad_norm = optimizer_.grad_norm(),
            .tokens_per_s =
                static_cast<double>(step_ - last_row_step_) * tokens_per_step() / std::max(1e-9, now - last_row_at_)};
    if (found.score) row.accuracy = found.score->exact_match();
    rows_.push_back(row);
    loss_sum_ = 0, loss_count_ = 0;
    save();
    last_row_at_ = progress.seconds(), last_row_step_ = step_;
    if (std::exchange(was_skipped_, false)) {
      progress.clear();
      spdlog::warn("{} step{} skipped so far: {}", optimizer_.skipped(), optimizer_.skipped() == 1 ? "" : "s",
                   optimizer_.why_skipped());
    }
    if (!arguments_.err().redraws) print_line(progress, row);
  }

  void print_line(const show::Progress& progress, const Row& row) const {
    const double left = progress.rate() > 0 ? static_cast<double>(recipe_.steps - step_) / progress.rate() : HUGE_VAL;
    const std::string start =
        fmt::format("step {:>{}}/{}  loss {:.4f}  held out {:.4f}{}", row.step, fmt::format("{}", recipe_.steps).size(),
                    recipe_.steps, row.train_loss, row.val_loss,
                    row.accuracy ? fmt::format("  {:3.0f} % right", 100 * *row.accuracy) : "");
    const std::string rate = fmt::format("  {} tokens/s", rate_text(row.tokens_per_s));
    const std::string end = step_ < recipe_.steps ? fmt::format("  {} left", show::duration(left)) : "";
    const bool fits = start.size() + rate.size() + end.size() <= 80;
    fmt::print("{}{}{}\n", start, fits ? rate : "", end);
    std::fflush(stdout);
  }

  void save() try {
    folder_.write_metrics(rows_);
    if (meter_) folder_.write_attention(meter_->text());
    save_checkpoint(folder_.checkpoint(), parts());
    save_parameters(model_, folder_.model());
    saved_ = step_;
    spdlog::debug("saved step {} in {}", step_, folder_.path().string());
  } catch (const std::runtime_error& error) {
    // One line, with what is left of the run.
    std::error_code ignored;
    if (!fs::exists(folder_.checkpoint(), ignored)) throw;
    throw std::runtime_error(
        fmt::format("{}; the checkpoint of step {} is whole: make room, then attune train --resume {}", error.what(),
                    saved_step(), shell_word(folder_.path().string())));
  }
  Index saved_step() const {
    Index step = saved_;
    load_part(folder_.checkpoint(), {"step", step});
    return step;
  }

  int interrupted() {
    save();
    fmt::print("\n{}\n  attune train --resume {}\n",
               wrapped(fmt::format(
                   "Interrupted: step {} of {} is saved. To go on, to the same bits as if nothing had happened:", step_,
                   recipe_.steps)),
               shell_word(folder_.path().string()));
    return 128 + static_cast<int>(stopped_by);
  }

  // ---- What it has learned

  int conclude(double seconds) {
    std::vector<double> curve;
    for (const Row& row : rows_) curve.push_back(row.train_loss);
    const Evaluation found = problem_->evaluate(model_, true);
    fmt::print("loss  {}  {:.3f} → {:.3g}\n\n", sparkline(curve, 40), curve.front(), curve.back());
    fmt::print("{} ", show::paint(out_, show::Style::bold, fmt::format("Trained in {}.", show::duration(seconds))));
    if (found.score)
      fmt::print("Of {} sequences it has not seen, {} are right ({:.1f} %).\n\n", found.score->sequences,
                 found.score->right_sequences, 100 * found.score->exact_match());
    else
      fmt::print("On text it has not seen: loss {:.4f}, {:.2f} bits a byte.\n\n", found.loss,
                 found.loss / std::log(2.0));
    if (!std::isfinite(found.loss)) {
      fmt::print("Its loss is no finite number: try a smaller --lr than {}, in another --out.\n", recipe_.lr);
      return kFailedCheck;
    }
    show_example();
    show_map();
    if (meter_) fmt::print("{}", meter_->summary(out_, seconds));
    suggest();
    return kDone;
  }

  void show_example() const {
    if (config_.answer.empty()) return show_sample();
    const std::string expected = problem_->asked();
    // Each token from what is right before it; those that cannot be foreseen are not asked for.
    std::string got;
    Rng unused(0);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto before = config_.encode("the example", config_.example + config_.answer.substr(0, i));
      const bool is_asked = expected[i] != '.';
      got += is_asked
                 ? config_.decode(generate(model_, before, {.tokens = 1, .sampling = {.temperature = 0}}, unused))
                 : ".";
    }
    const bool right = got == expected;
    fmt::print("  prompt    {}\n  expected  {}\n  got       {}{}\n\n", config_.example, expected,
               show::paint(out_, right ? show::Style::green : show::Style::yellow, got), right ? "  ✓" : "");
  }

  void show_sample() const {
    Rng random(config_.seed, 3);
    const std::vector<std::int32_t> prompt = config_.encode("the example", config_.example);
    const auto said = generate(model_, prompt, {.tokens = 240, .sampling = {.temperature = 0.8}}, random);
    fmt::print("A sample:\n{}{}\n\n", show::paint(out_, show::Style::bold, config_.example),
               show::paint(out_, show::Style::cyan, config_.decode(said)));
  }

  void show_map() const {
    std::vector<std::int32_t> tokens = config_.encode("the example", config_.shown_text());
    tokens.resize(std::min<std::size_t>(tokens.size(), 36));  // as many as are drawn in two columns each
    const std::vector<HeadMap> maps = attention_maps(model_, tokens);
    const bool is_text = config_.answer.empty();
    const Index first = is_text ? 0 : static_cast<Index>(config_.example.size()) - 1;
    const HeadMap& head = maps[most_telling(maps, first)];
    show::HeatMapOptions options = show::attention_map(labels_of(config_.vocabulary, tokens));
    options.title = fmt::format("Where {} looks", head.name());
    fmt::print("{}{}\n", show::heat_map(head.weights, options, out_),
               "  down: the token it reads; across: what it looks at, to foresee the next\n");
  }

  void suggest() const {
    const std::string folder = shell_word(folder_.path().string());
    std::string prompt = config_.example.substr(0, config_.example.find('\n'));
    if (prompt.empty()) prompt = config_.example;
    fmt::print("{} is saved. Next:\n", folder_.path().string());
    fmt::print("  attune generate {} --prompt {}\n", folder, shell_word(prompt));
    fmt::print("  attune inspect {} --text {}\n", folder,
               shell_word(config_.answer.empty() ? prompt : config_.shown_text()));
  }

  const Arguments& arguments_;
  show::Terminal out_;
  RunFolder folder_;
  std::unique_ptr<FolderLock> lock_;
  RunConfig config_;
  const Recipe& recipe_;
  std::unique_ptr<Problem> problem_;
  Gpt model_;
  AdamW optimizer_;
  WarmupCosine schedule_;
  Rng dropout_;
  Index step_ = 0, loss_count_ = 0, saved_ = 0;
  double loss_sum_ = 0;
  std::vector<Row> rows_;
  std::optional<MeterLog> meter_;
  std::vector<double> losses_;  // of this process's steps
  bool was_skipped_ = false;
  double last_row_at_ = 0;
  Index last_row_step_ = 0;
};

// ---- A new run, or one that goes on

// Where symbols are not what one sees: a model learns bytes.
void say_what_is_no_ascii(const std::string& name, const std::string& bytes) {
  const auto above_127 = [](char byte) { return static_cast<unsigned char>(byte) > 127; };
  if (const std::size_t valid = valid_utf8(bytes); valid < bytes.size())
    spdlog::info("{} is not UTF-8 from byte {} on; that is fine: every byte is a symbol", name, valid);
  else if (std::any_of(bytes.begin(), bytes.end(), above_127))
    spdlog::info("{} has characters above 127: every byte is a symbol, so that such a one is two to four", name);
}

int start(const Arguments& a) {
  if (a.operands.empty()) refuse("give a task: attune train copy, or one of {}", fmt::join(task_names(), ", "));
  const std::string task = one_of("", "task", a.operands.front(), task_names());
  RunConfig config;
  config.task = task;
  config.recipe = read_recipe(a, task);
  config.seed = a.seed("--seed", 1);
  config.every = a.integer("--save-every", std::max<Index>(1, config.recipe.steps / 20), 1, 1000000000, 100);
  if (a.has("--meter") || a.has("--meter-every"))
    config.meter = a.integer("--meter-every", kMeterEvery, 1, 1000000000, kMeterEvery);
  if (a.has("--data") && task != "text")
    refuse("--data {}: {} makes its own examples; --data is for text", a.text("--data"), task);
  const RunFolder folder(a.text("--out", "runs/" + task));
  folder.check_new();
  std::unique_ptr<Problem> problem =
      make_problem({.task = task, .data = a.text("--data"), .context = config.recipe.context, .seed = config.seed});
  check_memory(config.recipe, problem->vocab());
  config.vocabulary = problem->vocabulary();
  config.example = problem->example();
  config.answer = problem->answer();
  if (task == "text") {
    config.data = fs::absolute(a.text("--data")).string();
    config.fingerprint = fingerprint(config.data);
    say_what_is_no_ascii(a.text("--data"), read_input_file("--data", config.data));
  }
  folder.create();
  Run run(a, folder, std::move(config), std::move(problem));
  run.start();
  return run.train();
}

int go_on(const Arguments& a) {
  for (const std::string& name : kRecipeOptions)
    if (a.has(name))
      refuse("{}{}{}: --resume goes on as the run began; leave it out", name, a.text(name).empty() ? "" : " ",
             a.text(name));
  const RunFolder folder(a.text("--resume"));
  RunConfig config = folder.read_config();
  if (!a.operands.empty() && a.operands.front() != config.task)
    refuse("task {}: {} is a run of {}", a.operands.front(), folder.path().string(), config.task);
  if (config.task == "text") {
    const std::string data = a.text("--data", config.data);
    if (fingerprint(data) != config.fingerprint)
      refuse("--data {} is not the text that {} has learned from; its bits would differ", data,
             folder.path().string());
    config.data = data;
  } else if (a.has("--data")) {
    refuse("--data {}: {} makes its own examples; --data is for text", a.text("--data"), config.task);
  }
  std::unique_ptr<Problem> problem =
      make_problem({.task = config.task, .data = config.data, .context = config.recipe.context, .seed = config.seed});
  check_memory(config.recipe, problem->vocab());
  if (problem->vocabulary() != config.vocabulary)
    refuse("{}/config.json has another vocabulary than {}", folder.path().string(), config.task);
  Run run(a, folder, std::move(config), std::move(problem));
  try {
    run.resume();
  } catch (const std::runtime_error& error) {
    refuse("{} cannot be resumed: {}", folder.path().string(), error.what());
  }
  return run.train();
}

}  // namespace

Command train_command() {
  return {
      .name = "train",
      .summary = "a model learns a task",
      .about =
          "Trains a small transformer, and keeps the run in a folder: the model, a checkpoint to go on from, and "
          "metrics.csv. Ctrl-C finishes the step and saves; --resume goes on, to the same bits. The toy tasks make "
          "their own examples and are learned in less than a minute; text wants a file.",
      .examples = {{"attune train copy", "a first model"},
                   {"attune train text --data book.txt", "writes like your book"},
                   {"attune train text --data book.txt --preset nanogpt-baby", "better, in hours"},
                   {"attune train sort --layers 1 --heads 1 --out runs/one", "is one head enough?"},
                   {"attune train --resume runs/sort", "goes on after Ctrl-C"}},
      .operands = {{"TASK", "what to learn", false, task_names()}},
      .options = {{"--data", "FILE", "the text to learn from; any bytes will do", {}},
                  {"--preset", "NAME", "sizes by name [the task's own]", preset_names()},
                  {"--layers", "N", "transformer blocks", {}},
                  {"--heads", "N", "attention heads in each; they divide the width", {}},
                  {"--width", "N", "numbers that a token is made of", {}},
                  {"--context", "N", "tokens that text models see at once", {}},
                  {"--batch", "N", "sequences in a step", {}},
                  {"--steps", "N", "steps to train", {}},
                  {"--lr", "X", "the highest learning rate", {}},
                  {"--warmup", "N", "steps until it is reached", {}},
                  {"--dropout", "P", "share of activations to drop, below 1", {}},
                  {"--seed", "N", "of weights, examples and dropout [1]", {}},
                  {"--out", "DIR", "the folder to make [runs/TASK]", {}},
                  {"--save-every", "N", "steps between checkpoints [a twentieth of all]", {}},
                  {"--meter", "", "measures how saturated each head is: attention.csv, and a summary", {}},
                  {"--meter-every", "N", "in one step of so many [20]; without --meter, too", {}},
                  {"--resume", "DIR", "goes on with a run", {}}},
      .run = [](const Arguments& a) { return a.has("--resume") ? go_on(a) : start(a); }};
}

}  // namespace attune::program
