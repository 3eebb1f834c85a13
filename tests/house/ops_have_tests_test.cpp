// An op is a header in autograd/ops/, its test, and a line of autograd/ops.h. A header without one of the
// others fails here.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// The names of the files of a folder that end in `ending`, without it.
std::set<std::string> names(const fs::path& folder, const std::string& ending) {
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.size() > ending.size() && name.ends_with(ending))
      found.insert(name.substr(0, name.size() - ending.size()));
  }
  return found;
}

std::set<std::string> lines(const fs::path& file) {
  std::set<std::string> found;
  std::ifstream text(file);
  for (std::string line; std::getline(text, line);) found.insert(line);
  return found;
}

// What is missing: a test for an op, an op's line of ops.h, or the op that a test or a line is about.
std::vector<std::string> missing(const std::set<std::string>& ops, const std::set<std::string>& tests,
                                 const std::set<std::string>& umbrella) {
  const auto line_of = [](const std::string& op) { return "#include \"attune/autograd/ops/" + op + ".h\""; };
  std::vector<std::string> result;
  for (const std::string& op : ops) {
    if (!tests.count(op)) result.push_back("tests/autograd/ops/" + op + "_test.cpp");
    if (!umbrella.count(line_of(op))) result.push_back("in autograd/ops.h: " + line_of(op));
  }
  for (const std::string& test : tests)
    if (!ops.count(test)) result.push_back("autograd/ops/" + test + ".h");
  return result;
}

// Whether a test file runs the check that all ops pass.
bool runs_the_check(const fs::path& test) {
  const std::set<std::string> text = lines(test);
  return std::any_of(text.begin(), text.end(),
                     [](const std::string& line) { return line.find("check_op(") != std::string::npos; });
}

}  // namespace

TEST_CASE("every op has a test and a line of ops.h, and its test runs check_op") {
  const fs::path root = ATTUNE_SOURCE_DIR;
  const std::set<std::string> ops = names(root / "autograd/ops", ".h");
  CHECK(ops.size() > 10);  // the folder was found
  for (const std::string& what :
       missing(ops, names(root / "tests/autograd/ops", "_test.cpp"), lines(root / "autograd/ops.h")))
    FAIL_CHECK("missing: " << what);
  for (const std::string& op : ops) {
    const fs::path test = root / "tests/autograd/ops" / (op + "_test.cpp");
    if (fs::exists(test)) CHECK_MESSAGE(runs_the_check(test), test, " does not call check_op");
  }
}

TEST_CASE("an op without a test, or without its line, is seen") {
  using List = std::vector<std::string>;
  const std::string exp_line = "#include \"attune/autograd/ops/exp.h\"",
                    log_line = "#include \"attune/autograd/ops/log.h\"";
  CHECK(missing({"exp", "log"}, {"exp", "log"}, {exp_line, log_line}) == List{});
  CHECK(missing({"exp", "log"}, {"exp"}, {exp_line, log_line}) == List{"tests/autograd/ops/log_test.cpp"});
  CHECK(missing({"exp", "log"}, {"exp", "log"}, {exp_line}) == List{"in autograd/ops.h: " + log_line});
  CHECK(missing({"exp", "log"}, {"exp", "log"}, {exp_line, "// " + log_line}) ==
        List{"in autograd/ops.h: " + log_line});
  CHECK(missing({"exp"}, {"exp", "lgo"}, {exp_line}) == List{"autograd/ops/lgo.h"});
}
