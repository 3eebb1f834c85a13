// What ./dev says on a machine that lacks something, and how it ends: 3 with a sentence and what to do about it. The
// machine is a folder of made-up programs, which is all of the PATH, and a copy of ./dev.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

namespace {

namespace fs = std::filesystem;

struct Result {
  int status;
  std::string said;
  bool says(const std::string& words) const { return said.find(words) != std::string::npos; }
};

// Debian, for an ordinary user without sudo, where all packages are there; cmake and the compiler do nothing.
class Machine {
 public:
  Machine() : root_(fs::temp_directory_path() / fmt::format("attune-dev-{}", getpid())) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "bin");
    fs::create_directories(root_ / "attune");
    const fs::path source = ATTUNE_SOURCE_DIR;
    fs::copy(source / "dev", root_ / "attune/dev");
    fs::copy(source / "cmake", root_ / "attune/cmake", fs::copy_options::recursive);
    for (const char* tool : {"basename", "cat", "date", "dirname", "env", "find", "grep", "mktemp", "readlink", "rm",
                             "sed", "sh", "sort", "tail", "tr"})
      for (const char* folder : {"/usr/bin", "/bin"})
        if (fs::exists(fs::path(folder) / tool)) {
          fs::create_symlink(fs::path(folder) / tool, root_ / "bin" / tool);
          break;
        }
    has("uname", "echo x86_64");
    has("id", "echo 1000");
    has("nproc", "echo 1");
    has("dpkg-query", "echo installed");
    has("apt-get", "touch ../called; exit 99");
    has("cmake", "[ $1 != --version ] || echo cmake version 3.25.1");
    has("c++", "echo '#define __GNUC__ 12'");
  }
  ~Machine() { fs::remove_all(root_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Gives the machine a program: a script that runs in ./dev's folder.
  void has(const std::string& program, const std::string& script) {
    const fs::path path = root_ / "bin" / program;
    std::ofstream(path) << "#!/bin/sh\n" << script << '\n';
    fs::permissions(path, fs::perms::owner_all);
  }
  void lacks(const std::string& program) { fs::remove(root_ / "bin" / program); }
  void has_file(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / "attune" / path).parent_path());
    std::ofstream(root_ / "attune" / path) << text;
  }
  void may_run(const std::string& path) { fs::permissions(root_ / "attune" / path, fs::perms::owner_all); }
  bool asked_for_packages() const { return fs::exists(root_ / "called"); }

  Result dev(const std::string& words, const std::string& variables = "") const {
    const std::string command =
        fmt::format("env -i PATH={0}/bin {1} {0}/attune/dev {2} 2>&1 </dev/null", root_.string(), variables, words);
    FILE* pipe = popen(command.c_str(), "r");
    REQUIRE(pipe);
    std::string said;
    std::array<char, 4096> piece;
    while (std::fgets(piece.data(), static_cast<int>(piece.size()), pipe)) said += piece.data();
    const int status = pclose(pipe);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, said};
  }

 private:
  fs::path root_;
};

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("dev: where nothing is missing, nothing is asked of the network, and each step says how long it took") {
  const Machine machine;
  const Result result = machine.dev("build");
  INFO(result.said);
  CHECK(result.status == 0);
  CHECK(result.says("== Building build/release"));
  CHECK(result.says("== Done in "));
  CHECK(!machine.asked_for_packages());
}

TEST_CASE("dev: a machine that is not Debian") {
  Machine machine;
  machine.lacks("apt-get");
  const Result result = machine.dev("test");
  INFO(result.said);
  CHECK(result.status == 3);
  CHECK(result.says("This is not Debian: install what cmake/packages.txt names"));
  CHECK(result.says("cmake --workflow --preset release"));
}

TEST_CASE("dev: packages are missing, and there is no root") {
  Machine machine;
  machine.has("dpkg-query", "case $4 in libfmt-dev) echo not-installed;; *) echo installed;; esac");
  const Result result = machine.dev("demo");
  INFO(result.said);
  CHECK(result.status == 3);
  CHECK(result.says("Packages are missing. As root, run:"));
  CHECK(result.says("apt-get update && apt-get install --no-install-recommends -y libfmt-dev\n"));
  CHECK(!machine.asked_for_packages());
}

TEST_CASE("dev: packages are missing, and there is no network") {
  Machine machine;
  machine.has("id", "echo 0");
  machine.has("dpkg-query", "exit 1");  // what it does where it does not know a package
  machine.has("apt-get", "echo \"E: Could not resolve 'deb.debian.org'\"; exit 100");
  const Result result = machine.dev("demo");
  INFO(result.said);
  CHECK(result.status == 3);
  CHECK(result.says("The packages could not be installed: there is no way to the network. As root, run:"));
  CHECK(result.says("-y g++ cmake ninja-build"));
}

TEST_CASE("dev: a word asks for the packages it needs, and no others") {
  Machine machine;
  machine.has("dpkg-query", "exit 1");
  const Result format = machine.dev("format"), coverage = machine.dev("coverage"), demo = machine.dev("demo"),
               browser = machine.dev("browser"), asan = machine.dev("asan");
  INFO(format.said, coverage.said, demo.said, browser.said, asan.said);
  CHECK(format.says("-y clang-format-16 git\n"));
  CHECK(coverage.says(" gcovr\n"));
  CHECK(browser.says(" chromium chromium-driver python3\n"));
  CHECK(asan.says(" clang-16 llvm-16 libclang-rt-16-dev\n"));  // which clang-16 only recommends
  CHECK_FALSE(demo.says(" chromium"));
  CHECK(coverage.says(" g++ "));
  CHECK(!demo.says("gcovr"));
  CHECK(!demo.says("clang"));
}

TEST_CASE("dev: an old CMake") {
  Machine machine;
  machine.has("cmake", "echo cmake version 3.20.4");
  const Result result = machine.dev("test");
  INFO(result.said);
  CHECK(result.status == 3);
  CHECK(result.says("CMake 3.20 ("));
  CHECK(result.says(") is too old: 3.25 or newer is needed."));
  for (const char* new_enough : {"3.25.0", "3.31.2", "4.0.1", "10.2.0"}) {
    machine.has("cmake", fmt::format("[ $1 != --version ] || echo cmake version {}", new_enough));
    CHECK_MESSAGE(machine.dev("build").status == 0, new_enough);
  }
}

TEST_CASE("dev: an old compiler, another, and none") {
  Machine machine;
  machine.has("g++-10", "echo '#define __GNUC__ 10'");
  const Result old = machine.dev("build", "CXX=g++-10");
  INFO(old.said);
  CHECK(old.status == 3);
  CHECK(old.says("g++ 10 ("));
  CHECK(old.says(") is too old: g++ 12 or clang++ 16 is needed, or newer."));

  machine.has("clang++-14", "echo '#define __GNUC__ 4'; echo '#define __clang_major__ 14'");
  CHECK(machine.dev("build", "CXX=clang++-14").says("clang++ 14 ("));
  machine.has("clang++-16", "echo '#define __GNUC__ 4'; echo '#define __clang_major__ 16'");
  CHECK(machine.dev("build", "CXX=clang++-16").status == 0);

  const Result absent = machine.dev("build", "CXX=icc");
  INFO(absent.said);
  CHECK(absent.status == 3);
  CHECK(absent.says("CXX names the compiler 'icc', which is not here."));
}

TEST_CASE("dev: a build keeps the compiler it was made with, and says so") {
  Machine machine;
  machine.has("clang++-16", "echo '#define __clang_major__ 16'");
  machine.has_file("build/release/CMakeCache.txt", "CMAKE_CXX_COMPILER:FILEPATH=/usr/bin/g++-12\n");
  const Result result = machine.dev("build", "CXX=clang++-16");
  INFO(result.said);
  CHECK(result.status == 3);
  CHECK(result.says("build/release was made with /usr/bin/g++-12, and CXX asks for "));
  CHECK(result.says("rm -r build/release"));
}

TEST_CASE("dev: a machine of another kind") {
  Machine machine;
  machine.has("uname", "echo aarch64");
  const Result result = machine.dev("demo");
  INFO(result.said);
  CHECK(result.status == 3);
  CHECK(result.says("This machine is aarch64; Attune runs on x86-64."));
}

TEST_CASE("dev: a step that fails says what to do, and ends with 1") {
  Machine machine;
  machine.has("cmake", "case $1 in --version) echo cmake version 3.25.1;; --build) exit 2;; esac");
  const Result result = machine.dev("build");
  INFO(result.said);
  CHECK(result.status == 1);
  CHECK(result.says("== Failed after "));
  CHECK(result.says(" s: Building build/release"));
  CHECK(result.says("cmake --build build/release -j1"));
}

TEST_CASE("dev: called wrongly, it says what there is, and ends with 2") {
  const Machine machine;
  const Result unknown = machine.dev("tset"), preset = machine.dev("build fast");
  CHECK(unknown.status == 2);
  CHECK(unknown.says("tset: no such word"));
  CHECK(preset.status == 2);
  CHECK(preset.says("fast: no such preset. There are release, debug,"));
}

TEST_CASE("dev bench: without a name those that take seconds; with a wrong one it says what there is") {
  Machine machine;
  machine.has("cmake", "[ $1 != --version ] && echo cmake \"$@\" || echo cmake version 3.25.1");
  for (const char* source : {"tape_bench", "gemm_bench", "ulp", "accuracy"}) {
    machine.has_file(fmt::format("bench/{}.cpp", source), "int main() {}\n");
    const std::string program = fmt::format("build/release/bin/{}", source);
    machine.has_file(program, fmt::format("#!/bin/sh\necho {} has run: $*\n", source));
    machine.may_run(program);
  }
  machine.has_file("bench/peak.cpp", "double peak() { return 1; }\n");  // a part of others

  const Result wrong = machine.dev("bench upl"), all = machine.dev("bench"), ulp = machine.dev("bench ulp exp");
  INFO(wrong.said, all.said, ulp.said);
  CHECK(wrong.status == 2);
  CHECK(wrong.says("upl: no such benchmark. There are accuracy, gemm, tape, ulp\n"));
  CHECK(all.status == 0);
  CHECK(all.says("--target gemm_bench tape_bench\n"));
  CHECK(all.says("gemm_bench has run:\n"));
  CHECK(all.says("tape_bench has run:\n"));
  CHECK_FALSE(all.says("ulp"));
  CHECK_FALSE(all.says("accuracy"));
  CHECK(ulp.status == 0);
  CHECK(ulp.says("--target ulp\n"));
  CHECK(ulp.says("ulp has run: exp\n"));
  CHECK(machine.dev("bench tape").says("tape_bench has run:\n"));
  CHECK(machine.dev("bench tape_bench").says("tape_bench has run:\n"));
}

TEST_CASE("dev: a word that is called wrongly says so before anything is built") {
  Machine machine;
  for (const char* file : {"bench/peak.cpp", "lib/shape.cpp", "autograd/tape.cpp", "layers/gpt.cpp"})
    machine.has_file(file, "");
  for (const char* program : {"bench/gemm_bench.cpp", "bench/ulp.cpp"}) machine.has_file(program, "int main() {}\n");
  const auto refuses = [&](const std::string& words, const std::string& sentence) {
    const Result result = machine.dev(words);
    INFO(words, "\n", result.said);
    CHECK(result.status == 2);
    CHECK(result.says(sentence));
    CHECK_FALSE(result.says("== "));
  };
  refuses("bench gem", "gem: no such benchmark. There are gemm, ulp");
  refuses("bench peak", "peak: no such benchmark. There are gemm, ulp");
  refuses("browser report.html", "browser wants nothing, or a report.html and a folder");
  refuses("tidy shap3", "No source's path has 'shap3' in it");
  refuses("install", "install: name the folder");
}

TEST_CASE("dev: a relative path is relative to where one stands") {
  Machine machine;
  machine.has("cmake", "[ $1 != --version ] && echo cmake \"$@\" || echo cmake version 3.25.1");
  machine.has("clang-format-16", "echo clang-format \"$@\"");
  const std::string here = fs::current_path().string();
  const Result install = machine.dev("install out"), format = machine.dev("format a.h /b.h ../c.h");
  INFO(install.said, format.said);
  CHECK(install.says(fmt::format("cmake --install build/release --prefix {}/out\n", here)));
  CHECK(format.says(fmt::format("clang-format -i {0}/a.h /b.h {0}/../c.h\n", here)));
}

TEST_CASE("dev alone lists every word that it knows") {
  const Machine machine;
  const Result result = machine.dev("");
  CHECK(result.status == 0);
  std::istringstream lines(text_of(ATTUNE_SOURCE_DIR "/dev"));
  int words = 0;
  for (std::string line; std::getline(lines, line);) {  // a word is a line such as `  asan | tsan)`
    const bool indented = line.size() > 3 && line.substr(0, 2) == "  " && line[2] >= 'a' && line[2] <= 'z';
    if (!indented || line.back() != ')' || line.find('(') != std::string::npos) continue;
    std::istringstream names(line.substr(0, line.size() - 1));
    for (std::string name; names >> name;) {
      if (name == "|") continue;
      CHECK_MESSAGE(result.says("\n  " + name + " "), name);
      ++words;
    }
  }
  CHECK(words >= 14);
}

TEST_CASE("dev: every function that it calls is there") {
  std::string scripts = text_of(ATTUNE_SOURCE_DIR "/dev");
  for (const auto& file : fs::directory_iterator(ATTUNE_SOURCE_DIR "/cmake/dev"))
    if (file.path().extension() == ".sh") scripts += text_of(file.path());
  // A call begins a line, or stands in $( ); a name of ours has an underscore, as run_tests.
  const std::regex call(R"((\n +|\$\()([a-z]+_[a-z_]+)[ \n)])");
  int calls = 0;
  for (std::sregex_iterator found(scripts.begin(), scripts.end(), call), end; found != end; ++found, ++calls) {
    const std::string name = (*found)[2];
    CHECK_MESSAGE(scripts.find("\n" + name + "() {") != std::string::npos, name);
  }
  CHECK(calls >= 35);
}
