// The version's one place: what CMake read from the header, what the header says and what the library answers agree.
#include "attune/lib/version.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <string>

namespace {

// The value that CMake keeps under this name; empty where it keeps none.
std::string cmake_value(const std::string& name) {
  std::ifstream cache(ATTUNE_BUILD_DIR "/CMakeCache.txt");
  for (std::string line; std::getline(cache, line);)
    if (line.starts_with(name + ":")) return line.substr(line.find('=') + 1);
  return "";
}

}  // namespace

TEST_CASE("the library, its headers and the package have one version") {
  const std::string headers =
      fmt::format("{}.{}.{}", ATTUNE_VERSION_MAJOR, ATTUNE_VERSION_MINOR, ATTUNE_VERSION_PATCH);
  const std::string library = attune::version();
  CHECK(library == headers);
  CHECK(cmake_value("CMAKE_PROJECT_VERSION") == headers);
}
