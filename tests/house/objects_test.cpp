// What the compiled objects may hold, so that one program runs on every x86-64 CPU.
//
// An inline function that leaves an AVX object as a weak symbol may be the copy that the linker keeps for the
// whole program, which then stops with an illegal instruction on an older CPU. So no weak symbol leaves those
// objects, and no other object has AVX instructions.
#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "../support/sanitized.h"

namespace {

std::vector<std::string> lines_of_file(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

std::vector<std::string> isa_objects() { return lines_of_file(ATTUNE_BUILD_DIR "/objects/isa.txt"); }
std::vector<std::string> portable_objects() {
  return lines_of_file(ATTUNE_BUILD_DIR "/objects/portable.txt");
}

// Calls `each` with every line that a command prints.
template <class F>
void run(const std::string& command, F&& each) {
  struct Close {
    void operator()(FILE* pipe) const { pclose(pipe); }
  };
  const std::unique_ptr<FILE, Close> pipe(popen(command.c_str(), "r"));
  REQUIRE(pipe);
  char text[4096];
  while (std::fgets(text, sizeof text, pipe.get())) each(std::string(text));
}

bool is_installed(const std::string& tool) {
  bool found = false;
  run("command -v " + tool, [&](const std::string&) { found = true; });
  return found;
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// A line of nm: sixteen digits or blanks, the kind of symbol, its name.
bool is_weak(const std::string& line) {
  return line.size() > 19 && std::string("WwVvu").find(line[17]) != std::string::npos;
}

// Sanitizers and coverage bring symbols of their own, some of them weak.
bool is_instrumented(const std::string& line) {
  return contains(line, "__asan_") || contains(line, "__ubsan_") || contains(line, "__tsan_") ||
         contains(line, "__gcov_");
}

// A line of objdump: an address, a tab, the instruction. The names of all AVX instructions start with a v.
bool is_avx(const std::string& line) { return contains(line, ":\tv"); }

std::string quoted(const std::string& path) { return "'" + path + "'"; }

}  // namespace

TEST_CASE("no weak symbol leaves an object of an instruction set") {
  if (!is_installed("nm")) {
    MESSAGE("not checked: there is no nm");
    return;
  }
  REQUIRE(isa_objects().size() == 2);
  for (const std::string& object : isa_objects()) {
    int symbols = 0;
    bool instrumented = false;
    std::string weak;
    run("nm -C " + quoted(object), [&](const std::string& line) {
      ++symbols;
      instrumented = instrumented || is_instrumented(line);
      if (is_weak(line)) weak += line;
    });
    CHECK(symbols > 0);
    if (instrumented)
      MESSAGE("not checked: a sanitizer or coverage adds symbols to " << object);
    else
      CHECK_MESSAGE(weak.empty(), object << " has weak symbols:\n" << weak);
  }
}

// The sanitizers add instructions and symbols of their own.
TEST_CASE("B36: no other object has AVX instructions" * doctest::skip(attune::kSanitized)) {
  if (!is_installed("objdump")) {
    MESSAGE("not checked: there is no objdump");
    return;
  }
  REQUIRE(portable_objects().size() > 5);
  for (const std::string& object : portable_objects()) {
    std::string avx;
    run("objdump -d --no-show-raw-insn " + quoted(object), [&](const std::string& line) {
      if (avx.empty() && is_avx(line)) avx = line;
    });
    CHECK_MESSAGE(avx.empty(), object << " has an AVX instruction: " << avx);
  }
}

TEST_CASE("a weak symbol and an AVX instruction are seen") {
  CHECK(is_weak("0000000000000000 W attune::Shape::rank() const\n"));
  CHECK(is_weak("                 w __cxa_finalize\n"));
  CHECK(is_weak("0000000000000000 V typeinfo for attune::Error\n"));
  CHECK(is_weak("0000000000000000 u attune::counter\n"));
  CHECK_FALSE(is_weak("0000000000000040 D attune::kernels::kAvx2\n"));
  CHECK_FALSE(is_weak("                 U memcpy\n"));
  CHECK(is_avx("   4:\tvaddps %ymm1,%ymm0,%ymm0\n"));
  CHECK(is_avx("   4:\tvmovaps %xmm1,%xmm0\n"));
  CHECK_FALSE(is_avx("   4:\taddps  %xmm1,%xmm0\n"));
}

TEST_CASE("the objects that should have AVX instructions do: the disassembly is read rightly" *
          doctest::skip(attune::kSanitized)) {
  if (!is_installed("objdump")) return;
  int found = 0;
  for (const std::string& object : isa_objects())
    run("objdump -d --no-show-raw-insn " + quoted(object),
        [&](const std::string& line) { found += is_avx(line); });
  CHECK(found > 100);
}
