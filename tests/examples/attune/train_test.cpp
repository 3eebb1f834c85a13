// attune train: what is in a run's folder, and that nothing is lost: by Ctrl-C, by kill -9, by a full disk.
#include <stdlib.h>

#include <sstream>

#include "../../support/program.h"
#include "attune/layers/checkpoint.h"
#include "attune/layers/optim.h"
#include "attune/lib/safetensors.h"

using namespace attune;
using namespace attune::programs;

namespace {

using Words = std::vector<std::string>;

// A run of a second, with a checkpoint every few steps.
const Words kTiny = {"train", "sort", "--preset", "tiny", "--steps", "30", "--save-every", "4", "--out", "run"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<std::vector<std::string>> metrics(const fs::path& run) {
  std::ifstream file(run / "metrics.csv");
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    auto& row = rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
  }
  return rows;
}

// All but the last column, which is a speed.
std::vector<std::vector<std::string>> without_speed(const fs::path& run) {
  auto rows = metrics(run);
  for (auto& row : rows) row.pop_back();
  return rows;
}

Index step_of(const fs::path& run) {
  if (!fs::exists(run / "checkpoint.safetensors")) return 0;
  return std::stoll(read_safetensors(run / "checkpoint.safetensors").metadata.at("step"));
}

void check_same_run(const fs::path& a, const fs::path& b) {
  CHECK(bytes_of(a / "model.safetensors") == bytes_of(b / "model.safetensors"));
  CHECK(bytes_of(a / "checkpoint.safetensors") == bytes_of(b / "checkpoint.safetensors"));
  CHECK(without_speed(a) == without_speed(b));
}

}  // namespace

TEST_CASE("train: a folder with all that others need, and a screen that says what was learned") {
  const Folder folder;
  const std::string out = folder.good(kTiny);
  CHECK(contains(out, "Trained in"));
  CHECK(contains(out, "  prompt  "));
  CHECK(contains(out, "  expected  "));
  CHECK(contains(out, "Where layer 0, head"));
  CHECK(contains(out, "attune generate run --prompt"));
  CHECK(contains(out, "attune inspect run --text"));
  CHECK_FALSE(contains(out, "\033"));

  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder / "run")) files.push_back(entry.path().filename());
  std::sort(files.begin(), files.end());
  CHECK(files == Words{"checkpoint.safetensors", "config.json", "metrics.csv", "model.safetensors", "run.json"});
  CHECK(step_of(folder / "run") == 30);

  const std::string config = bytes_of(folder / "run/config.json"), story = bytes_of(folder / "run/run.json");
  for (const char* key : {"\"task\": \"sort\"", "\"vocabulary\": \"abcdefghij|\"", "\"layers\": 1", "\"seed\": 1"})
    CHECK(contains(config, key));
  for (const char* key : {"command_line", "version", "instruction_set", "threads", "seed", "machine", "cpu"})
    CHECK(contains(story, key));
}

TEST_CASE("B57: the rates of metrics.csv are those that were used, the first above 0, the last the least") {
  const Folder folder;
  folder.good(with(kTiny, {"--warmup", "4", "--lr", "0.1", "--save-every", "1"}));
  const auto rows = metrics(folder / "run");
  REQUIRE(rows.size() == 31);
  CHECK(rows[0] == Words{"step", "tokens", "train_loss", "val_loss", "accuracy", "lr", "grad_norm", "tokens_per_s"});
  const WarmupCosine schedule{.lr = 0.1, .min_lr = 0.01, .warmup = 4, .total = 30};
  for (Index step = 1; step <= 30; ++step) {
    const auto& row = rows[static_cast<std::size_t>(step)];
    CHECK(std::stoll(row[0]) == step);
    CHECK(std::stoll(row[1]) == step * 8 * 20);
    CHECK(std::stod(row[5]) == doctest::Approx(schedule(step - 1)).epsilon(1e-12));
  }
  CHECK(std::stod(rows[1][5]) > 0);
  for (const auto& [steps, said] : {std::pair("1", "; 1 step of "), {"2", "; 2 steps of "}}) {
    const std::string out = folder.good({"train", "copy", "--preset", "tiny", "--steps", steps, "--warmup", "0",
                                         "--out", fmt::format("short{}", steps)});  // no phase of no steps makes a NaN
    CHECK(contains(out, said));
  }
}

TEST_CASE("train: it counts the steps that it skipped, one and more") {
  const Folder folder;
  const Outcome outcome = folder.run({"train", "copy", "--preset", "tiny", "--steps", "3", "--warmup", "0", "--lr",
                                      "1e38", "--save-every", "1", "--out", "run"});
  CHECK(contains(outcome.err, "1 step skipped so far: adamw"));
  CHECK(contains(outcome.err, "2 steps skipped so far: adamw"));
}

TEST_CASE("train: interrupted and resumed, it is to the bit the run that was not") {
  const Folder folder;
  const Words words = {"train", "sort",         "--preset", "tiny",      "--steps",
                       "400",   "--save-every", "9",        "--dropout", "0.1"};
  folder.good(with(words, {"--out", "whole"}));
  const pid_t child = folder.start(with(words, {"--out", "parts"}));
  REQUIRE(soon([&] { return step_of(folder / "parts") >= 40; }));
  kill(child, SIGSTOP);  // it is still there, and has the folder
  const Outcome second = folder.run({"train", "--resume", "parts"}, {.out = "/dev/null", .err = (folder / "second").string()});
  kill(child, SIGCONT);
  CHECK(second.code == 2);
  CHECK(contains(bytes_of(folder / "second"), "attune: parts: another attune trains there; wait for it, or name another folder"));
  kill(child, SIGINT);
  const Outcome stopped = folder.wait(child);
  CHECK(stopped.code == 130);
  CHECK(stopped.err == "");
  CHECK(contains(stopped.out, "attune train --resume parts"));
  const Index step = step_of(folder / "parts");
  CHECK(step < 300);
  CHECK(contains(folder.good({"train", "--resume", "parts"}), fmt::format("from step {} on", step)));
  check_same_run(folder / "whole", folder / "parts");
  CHECK(contains(bytes_of(folder / "parts/run.json"), fmt::format("\"from_step\": {}", step)));
  // There is nothing left to do then, and nothing is done.
  const std::string before = bytes_of(folder / "parts/run.json");
  CHECK(contains(folder.good({"train", "--resume", "parts"}), "nothing to go on with"));
  CHECK(bytes_of(folder / "parts/run.json") == before);
  check_same_run(folder / "whole", folder / "parts");
}

TEST_CASE("B70: killed again and again, it resumes from a whole checkpoint and ends at the same bits") {
  const Folder folder;
  constexpr Index steps = 60;
  const Words words = {"train", "sort", "--preset", "tiny", "--steps", fmt::format("{}", steps), "--save-every", "2"};
  folder.good(with(words, {"--out", "whole"}));
  Words now = with(words, {"--out", "parts"});
  for (int kill_number = 0; kill_number < 4; ++kill_number) {
    const Index before = step_of(folder / "parts");
    if (before == steps) break;
    const pid_t child = folder.start(now);
    REQUIRE(soon([&] { return step_of(folder / "parts") > std::min(before + 3, steps - 1); }));
    std::this_thread::sleep_for(std::chrono::microseconds(700 * kill_number));
    kill(child, SIGKILL);
    folder.wait(child);
    now = {"train", "--resume", "parts"};
  }
  folder.good(now);
  check_same_run(folder / "whole", folder / "parts");
  for (const auto& entry : fs::directory_iterator(folder / "parts")) CHECK(entry.path().extension() != ".tmp");
}

TEST_CASE("B70: on a full disk it says so, leaves with 3, and loses no checkpoint") {
  const Folder folder;
  folder.good(with(kTiny, {"--out", "whole"}));
  const pid_t child = folder.start(with(kTiny, {"--steps", "100000", "--save-every", "2"}));
  REQUIRE(soon([&] { return step_of(folder / "run") >= 4; }));
  kill(child, SIGTERM);
  CHECK(folder.wait(child).code == 128 + SIGTERM);
  const Index step = step_of(folder / "run");
  const std::string checkpoint = bytes_of(folder / "run/checkpoint.safetensors");
  const Outcome full =
      folder.run({"train", "--resume", "run"}, {.largest_file = static_cast<long>(checkpoint.size()) - 5000});
  CHECK(full.code == 3);
  CHECK(contains(full.err, "checkpoint.safetensors cannot be written: File too large"));
  CHECK(contains(full.err,
                 fmt::format("the checkpoint of step {} is whole: make room, then attune train --resume run", step)));
  CHECK(std::count(full.err.begin(), full.err.end(), '\n') == 1);
  CHECK(bytes_of(folder / "run/checkpoint.safetensors") == checkpoint);
  for (const auto& entry : fs::directory_iterator(folder / "run")) CHECK(entry.path().extension() != ".tmp");

  const Outcome none = folder.run(with(kTiny, {"--out", "other"}), {.largest_file = 100});
  CHECK(none.code == 3);
  CHECK(contains(none.err, "cannot be written: File too large"));
}

TEST_CASE("train: --meter measures attention one step in so many, and changes no bit of the training") {
  const Folder folder;
  folder.good(with(kTiny, {"--out", "plain"}));
  const std::string out = folder.good(with(kTiny, {"--out", "metered", "--meter-every", "8"}));
  check_same_run(folder / "plain", folder / "metered");
  CHECK(contains(out, "entropy, from first to last"));
  CHECK(contains(out, "layer 0 head 0 "));
  CHECK(contains(out, "attention.csv has all of it; measuring took "));
  CHECK_FALSE(fs::exists(folder / "plain/attention.csv"));

  std::ifstream file(folder / "metered/attention.csv");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  REQUIRE(lines.size() == 1 + 5 * 2);  // two heads
  CHECK(lines[0].starts_with("step,path,call,head,rows,keys,entropy_mean,entropy_median,"));
  const std::vector<int> steps = {0, 8, 16, 24, 29};  // and the last
  for (std::size_t i = 0; i < 10; ++i)
    CHECK(lines[i + 1].starts_with(fmt::format("{},blocks.0.attention,0,{},", steps[i / 2], i % 2)));
  CHECK(contains(folder.run({"train", "--resume", "plain", "--meter"}).err,
                 "--meter: --resume goes on as the run began"));
}

TEST_CASE("train: a metered run that was interrupted and resumed ends with the same attention.csv") {
  const Folder folder;
  const Words words = {"train", "sort", "--preset", "tiny", "--steps", "200", "--save-every", "9", "--meter"};
  folder.good(with(words, {"--out", "whole"}));
  const pid_t child = folder.start(with(words, {"--out", "parts"}));
  REQUIRE(soon([&] { return step_of(folder / "parts") >= 30; }));
  kill(child, SIGKILL);
  folder.wait(child);
  folder.good({"train", "--resume", "parts"});
  check_same_run(folder / "whole", folder / "parts");
  CHECK(bytes_of(folder / "whole/attention.csv") == bytes_of(folder / "parts/attention.csv"));
  CHECK(bytes_of(folder / "whole/attention.csv").size() > 3000);
}

TEST_CASE("train: a text, its characters and its fingerprint") {
  const Folder folder;
  folder.write("book.txt", some_text());
  const Words words = {"train", "text",         "--preset", "tiny",   "--steps",
                       "20",    "--save-every", "5",        "--data", "book.txt"};
  const std::string out = folder.good(with(words, {"--out", "run"}));
  CHECK(contains(out, "bits a byte"));
  CHECK(contains(out, "A sample:"));
  CHECK(metrics(folder / "run").back()[4] == "");  // nothing is right or wrong
  folder.good(with(words, {"--out", "again"}));
  check_same_run(folder / "run", folder / "again");

  folder.write("book.txt", some_text() + "!");
  const Outcome changed = folder.run({"train", "--resume", "run"});
  CHECK(changed.code == 2);
  CHECK(contains(changed.err, "is not the text that run has learned from"));
  folder.write("moved.txt", some_text());
  folder.good({"train", "--resume", "run", "--data", "moved.txt"});
}

TEST_CASE("train: bytes that are no UTF-8 are characters like any others, and it says so") {
  const Folder folder;
  folder.write("bytes", some_text() + "\xff\xfe\n" + some_text());
  const Outcome outcome =
      folder.run({"train", "text", "--preset", "tiny", "--steps", "3", "--data", "bytes", "--out", "run"});
  CHECK(outcome.code == 0);
  CHECK(
      contains(outcome.err, fmt::format("bytes is not UTF-8 from byte {} on; that is fine: every byte is a symbol",
                                        some_text().size())));
  CHECK(folder.run({"generate", "run", "--prompt", "\xff"}).code == 0);
}

TEST_CASE("train: of characters above 127 it learns the bytes, says so, and shows no halves of them") {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "Öl läuft los über\n";
  folder.write("text", text);
  const Outcome outcome =
      folder.run({"train", "text", "--preset", "tiny", "--steps", "3", "--data", "text", "--out", "run"});
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.err, "text has characters above 127: every byte is a symbol, so that such a one is two to four"));
  CHECK(contains(outcome.out, "--prompt 'Öl läuft los '\n"));  // of 16 bytes the last is half an "ü"
  const Outcome refused = folder.run({"generate", "run", "--prompt", "é"});  // whose first byte is that of "ä", too
  CHECK(refused.code == 2);
  CHECK(contains(refused.err,
                 "--prompt é: the model has never seen 'é'; it knows ↵␣beflorstu\\x96\\xa4\\xbc\\xc3\n"));
}

TEST_CASE("B76: the shortest text that fills a window is enough, and one byte less is named") {
  const Folder folder;
  folder.write("enough", std::string(170, 'a') + std::string(10, 'b'));  // 162 train, 18 validate
  folder.write("short", std::string(160, 'a'));                          // 16 validate: a window has 17
  folder.good({"train", "text", "--preset", "tiny", "--steps", "3", "--data", "enough", "--out", "run"});
  const Outcome outcome = folder.run({"train", "text", "--preset", "tiny", "--data", "short", "--out", "other"});
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err,
                 "--data short has 160 bytes, of which 16 validate: too few for --context 16; give a longer "
                 "text, or --context 15"));
  folder.good(
      {"train", "text", "--preset", "tiny", "--steps", "3", "--context", "15", "--data", "short", "--out", "other"});
}

TEST_CASE("train: threads and rows of the kernel table do not change a bit") {
  const Folder folder;
  folder.good(with(kTiny, {"--out", "one"}));
  const Outcome outcome =
      folder.run(with(kTiny, {"--out", "two"}), {.environment = {"ATTUNE_THREADS=3", "ATTUNE_ISA=scalar"}});
  REQUIRE(outcome.code == 0);
  check_same_run(folder / "one", folder / "two");
  CHECK(contains(bytes_of(folder / "two/run.json"), "\"instruction_set\": \"scalar\""));
  CHECK(contains(bytes_of(folder / "two/run.json"), "\"threads\": 3"));
}

TEST_CASE("train: a loss that is no number is a failed check") {
  const Folder folder;
  const Outcome outcome = folder.run(with(kTiny, {"--lr", "1e30"}));
  CHECK(outcome.code == 1);
  CHECK(contains(outcome.out, "try a smaller --lr"));
}

TEST_CASE("train: every task is known") {
  const Folder folder;
  for (const char* task : {"copy", "reverse", "sort", "addition", "recall", "parity", "induction"})
    CHECK(contains(folder.good({"train", task, "--preset", "tiny", "--steps", "2"}),
                   fmt::format("runs/{} is saved", task)));
}

namespace {

// What a run writes to a terminal of 80 columns.
std::string on_a_terminal(const Folder& folder, const Words& words,
                          const std::vector<std::string>& environment = {}) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  REQUIRE((master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0));
  const std::string name = ptsname(master);
  const int slave = open(name.c_str(), O_RDWR | O_NOCTTY);
  const pid_t child = folder.start(words, {.environment = environment, .out = name, .err = name});
  std::string text;
  const auto read_more = [&] {
    char buffer[4096];
    for (ssize_t got; (got = read(master, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(got));
  };
  int status = -1;
  CHECK(soon([&] {
    read_more();
    return waitpid(child, &status, WNOHANG) == child;
  }));
  read_more();
  CHECK(status == 0);
  close(slave);
  close(master);
  return text;
}

}  // namespace

TEST_CASE("train: on a terminal a bar that is gone at the end; colours unless NO_COLOR; --plain has no escape byte") {
  const Folder folder;
  const auto words = [](const char* out, const Words& more = {}) {
    return with({"train", "sort", "--preset", "tiny", "--steps", "12", "--out", out}, more);
  };
  const std::string colored = on_a_terminal(folder, words("a"));
  CHECK(contains(colored, "\r\033[K"));
  CHECK(contains(colored, "12/12 "));
  CHECK(contains(colored, "tok/s"));
  CHECK(contains(colored, "\033[48;5;"));
  const std::string gray = on_a_terminal(folder, words("b"), {"NO_COLOR=1"});
  CHECK(contains(gray, "\r\033[K12/12 ━"));
  CHECK_FALSE(contains(gray, "\033[3"));
  CHECK_FALSE(contains(gray, "\033[4"));
  for (const std::string& plain :
       {on_a_terminal(folder, words("c", {"--plain"})), on_a_terminal(folder, words("d"), {"TERM=dumb"})}) {
    CHECK_FALSE(contains(plain, "\033"));
    CHECK(contains(plain, "step 12/12  loss "));
  }
}
