// What there is to learn: the toy tasks, and the next character of a text. And with which settings.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attune/layers/data.h"
#include "attune/layers/gpt.h"

namespace attune::program {

// A model's size, and how it is trained.
struct Recipe {
  Index layers = 2, heads = 4, width = 64;
  Index context = 0;  // of a text; a toy task has its own
  Index batch = 32, steps = 1500, warmup = 50;
  double lr = 3e-3, min_lr = 1e-4;
  double dropout = 0;
  double beta2 = 0.999, decay = 0.01;
  double deviation = 0.02;  // of the initial weights
};

// How good a model is on what it was not trained on.
struct Evaluation {
  double loss = 0;
  std::optional<Score> score;  // where answers are right or wrong
};

class Problem {
 public:
  virtual ~Problem() = default;

  virtual Index vocab() const = 0;
  // The bytes that tokens 0, 1, ... stand for.
  virtual std::string vocabulary() const = 0;
  virtual Batch batch(Index step, Index size) const = 0;
  // The same examples each time. Thorough: more of them, at the end of a run.
  virtual Evaluation evaluate(const Gpt& model, bool thorough) const = 0;
  // Something it was not trained on, to start from.
  virtual std::string example() const = 0;
  // What follows the example; empty where nothing does for certain. And the same with a "." for each token that
  // cannot be foreseen, as the next key that is asked for.
  virtual std::string answer() const { return ""; }
  virtual std::string asked() const { return ""; }
  // One line about what is learned.
  virtual std::string about() const = 0;
};

struct ProblemOptions {
  std::string task;
  std::filesystem::path data;  // of text
  Index context = 0;           // of text
  std::uint64_t seed = 1;
};

// The names of all tasks, and of all presets.
const std::vector<std::string>& task_names();
const std::vector<std::string>& preset_names();

// What trains this task well. A preset other than the task's own ("") replaces the model's size and the training's.
Recipe recipe_of(const std::string& task, const std::string& preset);

// The context of a toy task; 0 for text, whose is chosen.
Index context_of(const std::string& task);

// Where the task has no such prompt, what prompts it has: "15 letters a to j and |". Empty where it has, and of text,
// which may start anywhere. Part of an answer may follow the prompt.
std::string prompts_instead_of(const std::string& prompt, const std::string& task);

// A text that cannot be trained on is an InputError.
std::unique_ptr<Problem> make_problem(const ProblemOptions& options);

// A number that another file hardly has (FNV-1a, 64 bits), to see whether a text is still the same.
std::string fingerprint(const std::filesystem::path& path);
// An InputError that names what is wrong with the file: missing, a folder, unreadable.
std::string read_input_file(const std::string& what, const std::filesystem::path& path);

}  // namespace attune::program
