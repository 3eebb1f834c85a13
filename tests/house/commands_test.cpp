// What README.md shows of the program is what it says: each "$ attune ..." of a block is run, and each line below it is
// in its output, to the digit; but for times and rates, which are a machine's own, and "...", which leaves lines out.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "../support/sanitized.h"

namespace {

namespace fs = std::filesystem;

struct Shown {
  std::string command;
  std::vector<std::string> lines;
};

std::vector<Shown> commands_of(const fs::path& page) {
  std::ifstream file(page);
  REQUIRE(file);
  std::vector<Shown> list;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      inside = !inside && line == "```";
      if (!inside) list.push_back({});  // what follows belongs to no command
    } else if (inside && line.starts_with("$ attune ")) {
      list.push_back({line.substr(2), {}});
    } else if (inside && !list.empty() && !list.back().command.empty()) {
      list.back().lines.push_back(line);
    }
  }
  std::erase_if(list, [](const Shown& shown) { return shown.command.empty(); });
  return list;
}

// Without what differs from run to run.
std::string masked(const std::string& line) {
  static const std::regex times(R"([0-9.]+k? (tokens/s|s\b)|[0-9]+ threads?|avx512|avx2|scalar)");
  return std::regex_replace(line, times, "#");
}

struct Outcome {
  std::string output;
  int code = -1;
};

Outcome run(const std::string& command, const fs::path& folder) {
  const std::string line = "cd '" + folder.string() + "' && PATH='" ATTUNE_BUILD_DIR "/bin':$PATH " + command + " 2>&1";
  FILE* const pipe = popen(line.c_str(), "r");
  REQUIRE(pipe);
  Outcome outcome;
  char buffer[4096];
  while (const std::size_t count = fread(buffer, 1, sizeof buffer, pipe)) outcome.output.append(buffer, count);
  outcome.code = pclose(pipe);
  return outcome;
}

bool has_line(const std::string& output, const std::string& wanted) {
  std::size_t begin = 0;
  for (std::size_t end = 0; end != output.npos; begin = end + 1) {
    end = output.find('\n', begin);
    if (masked(output.substr(begin, end == output.npos ? end : end - begin)) == masked(wanted)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("times and rates are masked, losses are not") {
  CHECK(masked("Trained in 4.9 s. Of 1000 sequences") == masked("Trained in 12 s. Of 1000 sequences"));
  CHECK(masked("loss 0.0025  100k tokens/s") == masked("loss 0.0025  9.8k tokens/s"));
  CHECK(masked("loss 0.0025") != masked("loss 0.0026"));
}

// The program's own tests run under sanitizers, too; these would take minutes.
TEST_CASE("the commands in README.md give what it shows" * doctest::skip(attune::kSanitized)) {
  const fs::path folder = fs::temp_directory_path() / ("attune-readme-" + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::vector<Shown> commands = commands_of(fs::path(ATTUNE_SOURCE_DIR) / "README.md");
  CHECK(commands.size() >= 3);
  for (const Shown& shown : commands) {
    const Outcome outcome = run(shown.command, folder);
    INFO("$ ", shown.command, "\n", outcome.output);
    CHECK(outcome.code == 0);
    for (const std::string& line : shown.lines)
      CHECK_MESSAGE((line == "..." || has_line(outcome.output, line)), "README.md shows: " << line);
  }
  fs::remove_all(folder);
}
