// A training run that is killed again and again, and resumed from its last checkpoint, ends where one ends that was let
// be: bit by bit.
//
// ATTUNE_KILLS says how often it is killed (5 unless given), ATTUNE_STEPS how many steps it makes at least (200).
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "attune/autograd/ops.h"
#include "attune/layers/average.h"
#include "attune/layers/checkpoint.h"
#include "attune/layers/data.h"
#include "attune/layers/optim.h"
#include "attune/layers/gpt.h"
#include "attune/lib/safetensors.h"

using namespace attune;
namespace fs = std::filesystem;

extern char** environ;

namespace {

Index number_from(const char* variable, Index otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atoll(text) : otherwise;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A folder that is gone at the end.
class Folder {
 public:
  explicit Folder(const char* name) : path_(fs::temp_directory_path() / fmt::format("attune-{}-{}", name, getpid())) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const char* name) const { return path_ / name; }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(path_), fs::directory_iterator()); }

 private:
  fs::path path_;
};

// Trains up to `steps`, from the checkpoint at `path` where there is one, and writes one there after every step; or, where
// `between` is larger, after every so many.
void train(const fs::path& path, Index steps, Index between = 1) {
  const SortTask task({.symbols = 5, .length = 4, .seed = 1});
  Gpt model({.vocab = task.vocab(), .context = task.context(), .layers = 1, .heads = 2, .width = 16}, Rng(1));
  AdamW optimizer(model, {.lr = 1e-3, .clip = 1});
  WeightAverage average(model, {.decay = 0.99});
  Rng sizes(2);
  Index step = 0;
  const std::vector<CheckpointPart> parts = {
      {"model", model}, {"optimizer", optimizer}, {"average", average}, {"sizes", sizes}, {"step", step}};
  if (fs::exists(path)) load_checkpoint(path, parts);
  const WarmupCosine schedule{.lr = 1e-2, .min_lr = 1e-4, .warmup = 10, .total = 150};
  while (step < steps) {
    const Batch batch = task.batch(step, 1 + sizes.below(4));
    optimizer.set_lr(schedule(step));
    Tape tape;
    const Var logits = model(batch.inputs);
    tape.backward(cross_entropy(logits, batch.targets));
    optimizer.step();
    average.update();
    ++step;
    if (step % between == 0 || step == steps) save_checkpoint(path, parts);
  }
}

// The step of the checkpoint at `path`, which must load whole whenever it is there; -1 where it is not.
Index step_of(const fs::path& path) {
  if (!fs::exists(path)) return -1;
  return std::stoll(read_safetensors(path).metadata.at("step"));
}

// This program again, to do nothing but train.
pid_t start_child(const fs::path& path, Index steps) {
  std::string program = fs::read_symlink("/proc/self/exe");
  std::string test = "--test-case=resume: the child that trains", no_skip = "--no-skip", quiet = "--minimal";
  char* arguments[] = {program.data(), test.data(), no_skip.data(), quiet.data(), nullptr};
  setenv("ATTUNE_RESUME_PATH", path.c_str(), 1);
  setenv("ATTUNE_RESUME_STEPS", fmt::format("{}", steps).c_str(), 1);
  pid_t child = -1;
  REQUIRE(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ) == 0);
  unsetenv("ATTUNE_RESUME_PATH");
  unsetenv("ATTUNE_RESUME_STEPS");
  return child;
}

// Lets the child write at least one checkpoint beyond `step`, then kills it after a moment of up to some milliseconds.
// Returns false where it was done before.
bool kill_after_progress(pid_t child, const fs::path& path, Index step, Rng& rng) {
  int status = 0;
  while (step_of(path) <= step) {
    if (waitpid(child, &status, WNOHANG) == child) {
      CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
      return false;
    }
    usleep(500);
  }
  usleep(static_cast<useconds_t>(rng.below(5000)));
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return WIFSIGNALED(status);
}

}  // namespace

TEST_CASE("resume: the child that trains" * doctest::skip()) {
  const char* path = std::getenv("ATTUNE_RESUME_PATH");
  if (path) train(path, number_from("ATTUNE_RESUME_STEPS", 0));
}

TEST_CASE("B70: a run in two halves ends at the bits of a whole one") {
  const Folder folder("resume");
  const Index steps = number_from("ATTUNE_STEPS", 200);
  train(folder / "whole", steps, steps);
  train(folder / "halves", steps / 2, steps);
  CHECK(step_of(folder / "halves") == steps / 2);
  train(folder / "halves", steps, steps);
  CHECK(bytes_of(folder / "whole") == bytes_of(folder / "halves"));
}

TEST_CASE("B70: a run that is killed at random moments ends at the bits of one that was not") {
  const Folder folder("kills");
  const Index kills = number_from("ATTUNE_KILLS", 5);
  const fs::path path = folder / "checkpoint";
  // Enough steps for a child to make between two kills.
  const Index steps = std::max(number_from("ATTUNE_STEPS", 200), 30 * kills);
  train(folder / "whole", steps, steps);
  Rng rng(static_cast<std::uint64_t>(getpid()));
  Index killed = 0;
  for (bool running = true; running && killed < kills; killed += running) {
    const Index before = step_of(path);
    running = kill_after_progress(start_child(path, steps), path, before, rng);
    CHECK(step_of(path) > before);
  }
  CHECK(killed == kills);
  MESSAGE("killed ", killed, " times; the last left step ", step_of(path), " of ", steps);
  int status = 0;
  const pid_t last = start_child(path, steps);
  waitpid(last, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  CHECK(bytes_of(path) == bytes_of(folder / "whole"));
  CHECK(folder.files() == 2);  // what was half written when a child was killed is gone
}
