#include "problem.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <regex>

#include "arguments.h"
#include "attune/autograd/ops.h"
#include "attune/lib/file.h"
#include "attune/lib/utf8.h"

namespace attune::program {
namespace {

// ---- Toy tasks

struct TaskKind {
  const char* name;
  const char* about;
  const char* prompts;  // what they are, and
  bool (*is_prompt)(const std::string& text);
  std::unique_ptr<Task> (*make)(std::uint64_t seed);
  Recipe recipe;
};

template <class Made, class Options>
std::unique_ptr<Task> made(std::uint64_t seed) {
  Options options;
  options.seed = seed;
  return std::make_unique<Made>(options);
}
std::unique_ptr<Task> running_parity(std::uint64_t seed) {
  return std::make_unique<ParityTask>(ParityTaskOptions{.running = true, .seed = seed});
}

bool matches(const std::string& text, const char* pattern) {
  return text.size() <= 100 && std::regex_match(text, std::regex(pattern));  // none is longer; a regex goes deep
}
bool starts_letters(const std::string& text) { return matches(text, "[a-j]{15}\\|[a-j]{0,15}"); }
bool starts_sorting(const std::string& text) { return matches(text, "[a-j]{10}\\|[a-j]{0,10}"); }
bool starts_addition(const std::string& text) { return matches(text, "[0-9]{3}\\+[0-9]{3}=[0-9]{0,4}"); }
bool starts_parity(const std::string& text) { return matches(text, "[01]{16}=[01]{0,16}"); }
// Four keys that differ, each with its value; then pairs again, and one of the keys, whose value is asked for.
bool starts_recall(const std::string& text) {
  if (!matches(text, "([a-h][0-7]){4}\\|([a-h][0-7]){0,3}[a-h]")) return false;
  const std::string keys = {text[0], text[2], text[4], text[6]};
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (keys.find(keys[i]) != i) return false;
  return keys.find(text.back()) != keys.npos;
}
// All of the pattern, whose letters differ, and its first one again.
bool starts_induction(const std::string& text) {
  if (!matches(text, "\\|[a-zA-F]{7,32}")) return false;
  const std::string letters = text.substr(1);
  const std::size_t period = letters.find(letters.front(), 1);
  if (period == letters.npos || period < 6 || period > 16) return false;
  for (std::size_t i = 0; i < letters.size(); ++i)
    if (i < period ? letters.find(letters[i]) != i : letters[i] != letters[i - period]) return false;
  return true;
}

// Settings under which each is learned from any seed that was tried, but for induction, which depends on it. Recall
// needs larger initial weights than language does; the parity of a whole sequence is not learned where the parities on
// the way to it are.
const TaskKind kKinds[] = {
    {"copy",
     "says fifteen letters again",
     "15 letters a to j and |",
     starts_letters,
     made<CopyTask, CopyTaskOptions>,
     {.steps = 400}},
    {"reverse",
     "says fifteen letters backwards",
     "15 letters a to j and |",
     starts_letters,
     made<ReverseTask, ReverseTaskOptions>,
     {.steps = 600}},
    {"sort",
     "says ten letters in order",
     "10 letters a to j and |",
     starts_sorting,
     made<SortTask, SortTaskOptions>,
     {.steps = 1500}},
    {"addition",
     "adds numbers of three digits, the ones first",
     "3 digits, +, 3 digits and =",
     starts_addition,
     made<AdditionTask, AdditionTaskOptions>,
     {.steps = 4000}},
    {"recall",
     "says what stood behind a key",
     "4 pairs, | and a letter again",
     starts_recall,
     made<RecallTask, RecallTaskOptions>,
     {.heads = 2, .steps = 500, .lr = 1e-3, .min_lr = 3e-5, .beta2 = 0.98, .deviation = 0.1}},
    {"parity",
     "says whether the ones so far are odd in number",
     "16 digits 0 or 1 and =",
     starts_parity,
     running_parity,
     {.steps = 3000, .lr = 1e-3, .min_lr = 3e-5}},
    {"induction",
     "goes on with a pattern",
     "| and a pattern, again",
     starts_induction,
     made<InductionTask, InductionTaskOptions>,
     {.steps = 1500}},
};

const TaskKind* kind_of(const std::string& task) {
  const auto found =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const TaskKind& k) { return k.name == task; });
  return found == std::end(kKinds) ? nullptr : found;
}

class TaskProblem : public Problem {
 public:
  TaskProblem(const TaskKind& kind, std::uint64_t seed) : kind_(kind), task_(kind.make(seed)) {}

  Index vocab() const override { return task_->vocab(); }
  std::string vocabulary() const override {
    std::string text;
    for (std::int32_t token = 0; token < vocab(); ++token) text += task_->show(std::span(&token, 1));
    return text;
  }
  Batch batch(Index step, Index size) const override { return task_->batch(step, size); }
  std::string about() const override { return kind_.about; }

  Evaluation evaluate(const Gpt& model, bool thorough) const override {
    const Batch all = task_->held_out(thorough ? 1000 : 100);
    constexpr Index at_once = 50;
    Evaluation result{0, Score{}};
    const Index count = all.inputs.size(0);
    for (Index first = 0; first < count; first += at_once) {
      const Tensor inputs = Tensor::copy_of(all.inputs.view().slice(0, first, first + at_once));
      const Tensor targets = Tensor::copy_of(all.targets.view().slice(0, first, first + at_once));
      const NoGrad scope;
      const Var logits = model(inputs);
      result.loss += cross_entropy(logits, targets).item() * at_once / static_cast<double>(count);
      *result.score += score_of(logits.value(), targets);
    }
    return result;
  }

  // Up to where something is asked.
  std::string example() const override { return sequence().substr(0, first_asked()); }
  std::string answer() const override { return sequence().substr(first_asked()); }
  std::string asked() const override {
    return task_->show(task_->held_out(1).targets.data<std::int32_t>()).substr(first_asked() - 1);
  }

 private:
  // All tokens of the first example that is held out.
  std::string sequence() const {
    const Batch one = task_->held_out(1);
    std::string text = task_->show(one.inputs.data<std::int32_t>());
    return text + task_->show(one.targets.data<std::int32_t>().last(1));
  }
  std::size_t first_asked() const {
    const Batch one = task_->held_out(1);
    const auto targets = one.targets.data<std::int32_t>();
    const auto first = std::find_if(targets.begin(), targets.end(), [](std::int32_t id) { return id != -100; });
    return static_cast<std::size_t>(first - targets.begin()) + 1;
  }

  const TaskKind& kind_;
  std::unique_ptr<Task> task_;
};

// ---- The next byte of a text

// Without the halves of characters at both ends, where there is anything between them.
std::string whole_characters(const std::string& bytes) {
  std::size_t start = 0;
  while (start < std::min<std::size_t>(3, bytes.size()) && (bytes[start] & 0xc0) == 0x80) ++start;
  const std::size_t valid = valid_utf8(std::string_view(bytes).substr(start));
  return valid > 0 && bytes.size() - start - valid <= 3 ? bytes.substr(start, valid) : bytes;
}

class TextProblem : public Problem {
 public:
  TextProblem(const std::string& bytes, Index context, std::uint64_t seed)
      : text_(bytes), context_(context), random_(seed, 2), example_(bytes.substr(bytes.size() - bytes.size() / 10)) {}

  Index vocab() const override { return text_.vocab(); }
  std::string vocabulary() const override {
    std::vector<std::int32_t> ids;
    for (std::int32_t id = 0; id < vocab(); ++id) ids.push_back(id);
    return text_.decode(ids);
  }
  Batch batch(Index step, Index size) const override { return text_.batch(random_, step, size, context_); }
  std::string about() const override { return "goes on with a text, byte by byte"; }

  Evaluation evaluate(const Gpt& model, bool thorough) const override {
    constexpr Index size = 12;
    const Index batches = thorough ? 100 : 10;
    Evaluation result;
    for (Index i = 0; i < batches; ++i) {
      const Batch batch = text_.validation_batch(Rng(0, 1), i, size, context_);
      const NoGrad scope;
      result.loss += cross_entropy(model(batch.inputs), batch.targets).item() / static_cast<double>(batches);
    }
    return result;
  }

  // The first words of what validates, from the start of a line on.
  std::string example() const override {
    std::size_t start = example_.find('\n');
    while (start < example_.size() && example_[start] == '\n') ++start;
    if (start >= example_.size()) start = 0;  // one long line
    return whole_characters(example_.substr(start, static_cast<std::size_t>(std::min<Index>(24, context_))));
  }

 private:
  CharacterText text_;
  Index context_;
  Rng random_;
  std::string example_;
};

// Each part needs a window of context + 1 bytes; the validating one has a tenth of the text.
void check_length(const std::filesystem::path& path, std::size_t length, Index context) {
  const auto training = static_cast<Index>(static_cast<double>(length) * 0.9);
  const Index shorter = std::min(training, static_cast<Index>(length) - training);
  if (shorter > context) return;
  if (shorter < 2) refuse("--data {} has {} bytes, and needs 20 at least", path.string(), length);
  refuse(
      "--data {} has {} bytes, of which {} validate: too few for --context {}; give a longer text, or --context "
      "{}",
      path.string(), length, shorter, context, shorter - 1);
}

std::unique_ptr<Problem> text_problem(const ProblemOptions& options) {
  if (options.data.empty()) refuse("text needs a file to learn from: attune train text --data FILE");
  const std::string bytes = read_input_file("--data", options.data);
  if (bytes.empty()) refuse("--data {} is empty; give a text of some thousand bytes", options.data.string());
  check_length(options.data, bytes.size(), options.context);
  return std::make_unique<TextProblem>(bytes, options.context, options.seed);
}

}  // namespace

const std::vector<std::string>& task_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const TaskKind& kind : kKinds) list.emplace_back(kind.name);
    list.insert(list.begin() + 5, "text");
    return list;
  }();
  return names;
}

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> names = {"nanogpt-cpu", "nanogpt-baby", "tiny"};
  return names;
}

Recipe recipe_of(const std::string& task, const std::string& preset) {
  // nanoGPT's train_shakespeare_char, as its README runs it on a CPU: 2000 steps, which is also what text does.
  constexpr Recipe cpu{.layers = 4,
                       .heads = 4,
                       .width = 128,
                       .context = 64,
                       .batch = 12,
                       .steps = 2000,
                       .warmup = 100,
                       .lr = 1e-3,
                       .min_lr = 1e-4,
                       .dropout = 0,
                       .beta2 = 0.99,
                       .decay = 0.1};
  const TaskKind* const kind = kind_of(task);
  Recipe recipe = cpu;
  if (preset.empty() && kind) recipe = kind->recipe;
  if (preset == "nanogpt-baby") {
    recipe.layers = 6, recipe.heads = 6, recipe.width = 384, recipe.context = 256, recipe.batch = 64;
    recipe.steps = 5000, recipe.dropout = 0.2;
  }
  if (preset == "tiny")
    recipe = {.layers = 1,
              .heads = 2,
              .width = 16,
              .context = 16,
              .batch = 8,
              .steps = 200,
              .warmup = 10,
              .lr = 1e-2,
              .min_lr = 1e-3};
  if (kind) recipe.context = context_of(task), recipe.deviation = kind->recipe.deviation;
  return recipe;
}

Index context_of(const std::string& task) {
  const TaskKind* const kind = kind_of(task);
  return kind ? kind->make(0)->context() : 0;
}

std::string prompts_instead_of(const std::string& prompt, const std::string& task) {
  const TaskKind* const kind = kind_of(task);
  return kind && !kind->is_prompt(prompt) ? kind->prompts : "";
}

std::unique_ptr<Problem> make_problem(const ProblemOptions& options) {
  if (const TaskKind* const kind = kind_of(options.task)) return std::make_unique<TaskProblem>(*kind, options.seed);
  return text_problem(options);
}

std::string fingerprint(const std::filesystem::path& path) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : read_input_file("--data", path)) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

std::string read_input_file(const std::string& what, const std::filesystem::path& path) {
  struct stat status {};
  if (path.empty()) refuse("{} '': give the path of a file", what);
  if (stat(path.c_str(), &status) != 0) refuse("{} {}: no such file", what, path.string());
  if (S_ISDIR(status.st_mode)) refuse("{} {}: a folder, where a file is wanted", what, path.string());
  if (!S_ISREG(status.st_mode)) refuse("{} {}: no regular file", what, path.string());
  if (access(path.c_str(), R_OK) != 0) refuse("{} {}: you may not read it (chmod +r)", what, path.string());
  const InputFile file(path);
  std::string bytes(file.size(), '\0');
  file.read(0, bytes.data(), bytes.size());
  return bytes;
}

}  // namespace attune::program
