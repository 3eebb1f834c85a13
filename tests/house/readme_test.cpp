// The code in README.md and GUIDE.md is code that is built: each of their blocks of C++ stands, line by line and up to
// indentation, in an example or in a test.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

// The lines of a file, without what indents them.
Lines lines_of(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE(file);
  Lines lines;
  for (std::string line; std::getline(file, line);) {
    const std::size_t start = line.find_first_not_of(' ');
    lines.push_back(start == std::string::npos ? "" : line.substr(start));
  }
  return lines;
}

// The blocks between ```cpp and ```, each as one text that starts and ends with the end of a line.
std::vector<std::string> code_blocks(const Lines& page) {
  std::vector<std::string> blocks;
  bool inside = false;
  for (const std::string& line : page) {
    if (line == "```cpp") {
      inside = true;
      blocks.emplace_back("\n");
    } else if (line == "```") {
      inside = false;
    } else if (inside) {
      blocks.back() += line + "\n";
    }
  }
  REQUIRE_FALSE(inside);
  return blocks;
}

std::string text_of(const Lines& lines) {
  std::string text = "\n";
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// All that is built from examples/ and tests/, as one text.
std::string built_code() {
  std::string code;
  for (const char* folder : {"examples", "tests"})
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(ATTUNE_SOURCE_DIR) / folder))
      if (entry.path().extension() == ".cpp") code += text_of(lines_of(entry.path()));
  return code;
}

}  // namespace

TEST_CASE("the code in README.md and GUIDE.md is in an example or a test") {
  const std::string code = built_code();
  std::size_t count = 0;
  for (const char* page : {"README.md", "GUIDE.md"}) {
    for (const std::string& block : code_blocks(lines_of(fs::path(ATTUNE_SOURCE_DIR) / page))) {
      INFO(page << " has code that no test or example has, such as tests/house/guide_test.cpp:" << block);
      CHECK(code.find(block) != std::string::npos);
      ++count;
    }
  }
  CHECK(count >= 12);
}

// Reminds, and does not fail: an op is complete with its header, its test and its line of ops.h.
TEST_CASE("every op is in the table of README.md") {
  const std::string page = text_of(lines_of(fs::path(ATTUNE_SOURCE_DIR) / "README.md"));
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(ATTUNE_SOURCE_DIR) / "autograd/ops")) {
    const std::string op = entry.path().stem() == "compare" ? "equal" : entry.path().stem().string();
    WARN_MESSAGE(page.find("`" + op + "`") != std::string::npos, op << " has no row in it");
  }
}

TEST_CASE("the program in README.md is the whole of examples/first_model.cpp") {
  const fs::path source = ATTUNE_SOURCE_DIR;
  const std::string example = text_of(lines_of(source / "examples/first_model.cpp"));
  const std::string program = "\n" + example.substr(example.find("#include"));
  REQUIRE(program.size() > 100);
  CHECK(code_blocks(lines_of(source / "README.md")).front() == program);
}
