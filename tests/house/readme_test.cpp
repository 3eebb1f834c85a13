// The README's program is the one that is built and run: examples/first_model.cpp, from its first include on.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace {

std::string contents(const std::string& path) {
  std::ifstream file(std::string(ATTUNE_SOURCE_DIR) + "/" + path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("the program in the README is an example that is built") {
  const std::string example = contents("examples/first_model.cpp"), readme = contents("README.md");
  const std::string program = example.substr(example.find("#include"));
  REQUIRE(program.size() > 100);
  CHECK(readme.find("```cpp\n" + program + "```") != std::string::npos);
}
