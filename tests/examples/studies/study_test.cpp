// The frame of studies: runs that are kept as they finish, files that depend on nothing but the request, and
// errors.
#include "attune/examples/studies/study.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "attune/lib/threads.h"

using namespace attune;
using namespace attune::studies;
namespace fs = std::filesystem;

namespace {

// A folder that is gone afterwards.
struct Folder {
  fs::path path = fs::temp_directory_path() / fmt::format("attune_study_test_{}_{}", getpid(), count()++);
  ~Folder() { fs::remove_all(path); }
  static int& count() {
    static int made = 0;
    return made;
  }
};

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::atomic<int> made{0};

// Squares of x, one of which may fail.
Study squares(double fails_at = -1) {
  Study study;
  study.name = "squares";
  study.question = "What is x times x?";
  study.axes = {{"x", "a number", "0"}, {"seed", "nothing", "1"}};
  study.columns = {"step", "value"};
  study.outcomes = {"square", "missing"};
  study.plan = [](const Request& request) {
    return request.axes.empty() ? product({{"x", {"1", "2", "3"}}, {"seed", {"1", "2"}}})
                                : product(request.axes);
  };
  study.make = [fails_at, study](const Run& run, const std::function<void(double)>& progress) {
    const double x = study.number(run, "x");
    check(x != fails_at, "x is {}", x);
    progress(0.5);
    ++made;
    return Record{{{0, x}, {1, x * x}}, {x * x, NAN}, {{"thirds", {x / 3}}}};
  };
  study.draw = [](const Request&, const std::vector<Result>& results) {
    Report report;
    report.title = "Squares";
    double sum = 0;
    for (const Result& result : results) sum += result.record.extra("thirds")->front();
    report.headline = fmt::format("The sum of thirds is {}.", sum);
    return report;
  };
  return study;
}

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE(
    "study: a line for each run, and one for each run and step, under a header that says how to make them") {
  const Folder folder;
  const Outcome outcome = carry_out(squares(), {}, folder.path.string(), {});
  CHECK(outcome.runs == 6);
  CHECK(outcome.kept == 0);
  CHECK(outcome.headline == "The sum of thirds is 4.");  // each to nine digits
  const std::string summary = text_of(folder.path / "summary.csv");
  CHECK(summary.find("# {\"study\": \"squares\", \"revision\": 1, \"version\": ") == 0);
  CHECK(summary.find(
            "\"command\": \"attune study squares\", \"runs\": 6, \"axes\": {\"x\": [\"1\", \"2\", \"3\"], "
            "\"seed\": [\"1\", \"2\"]}}\nrun,x,seed,square,missing\n1,1,1,1,\n2,1,2,1,\n3,2,1,4,\n") !=
        summary.npos);
  CHECK(text_of(folder.path / "runs.csv").find("run,x,seed,step,value\n1,1,1,0,1\n1,1,1,1,1\n") !=
        std::string::npos);
  CHECK(text_of(folder.path / "report.html").find("attune study squares") != std::string::npos);
}

TEST_CASE("study: what is there is not made again, and what is damaged is") {
  const Folder folder, fresh;
  carry_out(squares(), {}, folder.path.string(), {});
  const std::string before = text_of(folder.path / "summary.csv"),
                    report = text_of(folder.path / "report.html");
  made = 0;
  CHECK(carry_out(squares(), {}, folder.path.string(), {}).kept == 6);
  CHECK(made == 0);
  std::vector<fs::path> parts;
  for (const auto& entry : fs::directory_iterator(folder.path / "parts")) parts.push_back(entry.path());
  REQUIRE(parts.size() == 6);
  fs::remove(parts[0]);
  fs::resize_file(parts[1], fs::file_size(parts[1]) - 5);  // its end is missing
  std::ofstream(parts[2]) << "attune of another version\n";
  CHECK(carry_out(squares(), {}, folder.path.string(), {}).kept == 3);
  CHECK(made == 3);
  CHECK(text_of(folder.path / "summary.csv") == before);
  CHECK(text_of(folder.path / "report.html") == report);

  Study newer = squares();
  newer.revision = 2;
  CHECK(carry_out(newer, {}, folder.path.string(), {}).kept == 0);
}

TEST_CASE("study: the same bytes on one thread and on three, and threads() as it was") {
  const Folder one, three;
  const int before = threads();
  set_threads(1);
  carry_out(squares(), {}, one.path.string(), {});
  set_threads(3);
  carry_out(squares(), {}, three.path.string(), {});
  CHECK(threads() == 3);
  set_threads(before);
  for (const char* name : {"runs.csv", "summary.csv", "report.html"})
    CHECK(text_of(one.path / name) == text_of(three.path / name));
}

TEST_CASE("study: a run that fails ends it, and what was made stays") {
  const Folder folder;
  CHECK(message([&] { carry_out(squares(2), {}, folder.path.string(), {}); }) == "x is 2");
  CHECK_FALSE(fs::exists(folder.path / "summary.csv"));
  made = 0;
  CHECK(carry_out(squares(), {}, folder.path.string(), {}).kept >= 1);
  CHECK(message([&] { carry_out(squares(), {}, "/proc/no/such/folder", {}); }) ==
        "study: cannot make the folder /proc/no/such/folder/parts");
}

TEST_CASE("study: axes from words") {
  const Study study = squares();
  const AxisValues values = axis_values(study, {"x=4,5,4", "seed=7"});
  CHECK(values == AxisValues{{"x", {"4", "5"}}, {"seed", {"7"}}});
  CHECK(product(values).size() == 2);
  CHECK(product(values)[1].key() == "x=5 seed=7");
  CHECK(command_of(study, {Size::full, values}) == "attune study squares --full --axes \"x=4,5 seed=7\"");
  CHECK(message([&] { axis_values(study, {"y=1"}); }) ==
        "study squares: 'y': no such axis; did you mean x? There are x, seed");
  CHECK(message([&] { axis_values(study, {"x"}); }) ==
        "study squares: 'x' is not of the form axis=value,value");
  CHECK(message([&] { axis_values(study, {"x=1,,2"}); }) == "study squares: 'x=1,,2' has an empty value");
  CHECK(message([&] { axis_values(study, {"x=1", "x=2"}); }) == "study squares: axis 'x' is there twice");
  CHECK(message([&] {
          study.number(product({{"x", {"1.5z"}}})[0], "x");
        }) == "study squares: x=1.5z is no number");
  CHECK(message([&] { study_named("depht"); }) ==
        "study 'depht': no such study; did you mean depth? There are saturation, depth");
  CHECK(&study_named("depth") == all_studies()[1]);
}

TEST_CASE("study: a run that is there twice is refused") {
  const Folder folder;
  Study study = squares();
  study.plan = [](const Request&) {
    return std::vector<Run>{product({{"x", {"1"}}})[0], product({{"x", {"1"}}})[0]};
  };
  CHECK(message([&] { carry_out(study, {}, folder.path.string(), {}); }) ==
        "study squares: a run is there twice: x=1");
}

namespace {

// The program, started with words, its output thrown away.
pid_t start(std::vector<std::string> words) {
  words.insert(words.begin(), ATTUNE_BUILD_DIR "/bin/attune");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  REQUIRE(posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

std::size_t parts_in(const fs::path& folder) {
  std::error_code error;
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder / "parts", error))
    count += entry.path().extension() == ".part";
  return count;
}

}  // namespace

TEST_CASE("study: killed at any moment and started again, it ends with the same bytes") {
  const Folder killed, undisturbed;
  const std::string where = killed.path.string();
  const std::vector<std::string> words = {"study", "depth", "--quick", "--out"};
  const auto with = [&](const std::string& folder) {
    std::vector<std::string> all = words;
    all.push_back(folder);
    return all;
  };
  int kills = 0;
  for (std::size_t enough : {3u, 20u, 45u}) {
    const pid_t child = start(with(where));
    int status = 0;
    pid_t ended = 0;
    while (parts_in(killed.path) < enough && (ended = waitpid(child, &status, WNOHANG)) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (ended != 0) break;  // it was faster
    kill(child, SIGKILL);
    kills += WIFSIGNALED(wait_for(child)) && !fs::exists(killed.path / "summary.csv");
  }
  CHECK(kills >= 1);
  const std::size_t before = parts_in(killed.path);
  CHECK(before >= 3);
  CHECK(wait_for(start(with(where))) == 0);
  CHECK(wait_for(start(with(undisturbed.path.string()))) == 0);
  for (const char* name : {"runs.csv", "summary.csv", "report.html"}) {
    const std::string text = text_of(undisturbed.path / name);
    CHECK(text.size() > 1000);
    CHECK(text_of(killed.path / name) == text);
  }
}
