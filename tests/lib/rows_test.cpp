#include "attune/lib/kernels/rows.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

using namespace attune;

namespace {

// What this program says in a process of its own, where ATTUNE_ISA is `name`: see the test case at the end.
std::string row_with(const std::string& name) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      fmt::format("ATTUNE_ISA='{}' '{}' --no-skip --test-case='says its row'", name, program);
  FILE* child = popen(command.c_str(), "r");
  REQUIRE(child);
  std::string output;
  for (int letter = 0; (letter = std::fgetc(child)) != EOF;) output += static_cast<char>(letter);
  CHECK(pclose(child) == 0);
  const std::size_t begin = output.find("<<"), end = output.find(">>");
  REQUIRE(begin != output.npos);
  return output.substr(begin + 2, end - begin - 2);
}

}  // namespace

TEST_CASE("every machine runs the scalar row, and it comes last") {
  const auto& rows = supported_rows();
  REQUIRE_FALSE(rows.empty());
  CHECK(rows.back() == "scalar");
  for (const std::string& name : rows) CHECK((name == "scalar" || name == "avx2" || name == "avx512"));
  CHECK(std::ranges::count(rows, "scalar") == 1);
  if (rows.front() == "avx512") CHECK(std::ranges::count(rows, "avx2") == 1);
}

TEST_CASE("a row can be chosen while the program runs") {
  const std::string before(row());
  for (const std::string& name : supported_rows()) {
    set_row(name);
    CHECK(row() == name);
    CHECK(kernels::table().name == name);
  }
  set_row(before);
}

TEST_CASE("an unknown row is an error, and changes nothing") {
  const std::string before(row());
  CHECK_THROWS_WITH_AS(set_row("avx"), "instruction set: 'avx' is not one of avx512, avx2, scalar",
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(set_row(""), "instruction set: '' is not one of avx512, avx2, scalar",
                       std::runtime_error);
  CHECK_THROWS_AS(set_row("AVX2"), std::runtime_error);
  CHECK(row() == before);
}

TEST_CASE("B36: a row that this machine lacks is an error that names those it has") {
  const auto& rows = supported_rows();
  for (const char* name : {"avx512", "avx2"}) {
    if (std::ranges::count(rows, name)) continue;
    CHECK_THROWS_WITH_AS(set_row(name),
                         fmt::format("instruction set: this machine cannot run '{}'; it can run {}", name,
                                     fmt::join(rows, ", "))
                             .c_str(),
                         std::runtime_error);
  }
}

TEST_CASE("B36: ATTUNE_ISA chooses the first row") {
  CHECK(row_with("") == supported_rows().front());
  for (const std::string& name : supported_rows()) CHECK(row_with(name) == name);
  CHECK(row_with("sse9") == "instruction set: 'sse9' is not one of avx512, avx2, scalar");
}

TEST_CASE("says its row" * doctest::skip()) {
  std::string said;
  try {
    said = row();
  } catch (const std::runtime_error& error) {
    said = error.what();
  }
  fmt::print("<<{}>>\n", said);
}
