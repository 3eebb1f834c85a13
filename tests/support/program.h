// The program attune, as a child process, in a folder of its own.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace attune::programs {

namespace fs = std::filesystem;

inline std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Outcome {
  int code = -1;  // of exit; of a signal, its number below 0
  std::string out, err;
};

struct Surroundings {
  std::vector<std::string> environment = {};  // "NO_COLOR=1"
  long largest_file = 0;                      // in bytes; 0: of any size
  std::string out = "", err = "";             // where the standard streams go; empty: into the Outcome
};

// A folder that is gone at the end, in which programs are started.
class Folder {
 public:
  Folder() {
    static int count = 0;
    path_ = fs::temp_directory_path() / fmt::format("attune-program-{}-{}", getpid(), count++);
    fs::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  fs::path operator/(const std::string& name) const { return path_ / name; }
  // What stands in it, but for what children wrote to their standard streams.
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const auto& entry : fs::directory_iterator(path_))
      if (!entry.path().filename().string().starts_with(".std")) list.push_back(entry.path().filename().string());
    return list;
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }

  pid_t start(const std::vector<std::string>& arguments, const Surroundings& with = {}) const {
    std::vector<std::string> words = {ATTUNE_BUILD_DIR "/bin/attune"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<std::string> variables = with.environment;  // of two of a name the first counts
    for (const char* kept :
         {"ATTUNE_ISA", "ATTUNE_THREADS", "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "LD_LIBRARY_PATH"})
      if (const char* value = getenv(kept)) variables.push_back(fmt::format("{}={}", kept, value));
    variables.insert(variables.end(), {"PATH=/usr/bin:/bin", "TERM=xterm"});
    std::vector<char*> argv = pointers(words), envp = pointers(variables);
    const std::string out = with.out.empty() ? (path_ / ".stdout").string() : with.out,
                      err = with.err.empty() ? (path_ / ".stderr").string() : with.err;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child > 0) return child;
    // From here on nothing but system calls: this process may have had threads.
    const int out_file = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err_file = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    bool ok = out_file >= 0 && err_file >= 0 && dup2(out_file, 1) >= 0 && dup2(err_file, 2) >= 0 &&
              chdir(path_.c_str()) == 0;
    if (with.largest_file > 0) {
      const rlimit limit{static_cast<rlim_t>(with.largest_file), static_cast<rlim_t>(with.largest_file)};
      ok = ok && setrlimit(RLIMIT_FSIZE, &limit) == 0;
    }
    if (ok) execve(argv[0], argv.data(), envp.data());
    _exit(126);
  }
  Outcome wait(pid_t child) const {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), bytes_of(path_ / ".stdout"),
            bytes_of(path_ / ".stderr")};
  }
  Outcome run(const std::vector<std::string>& arguments, const Surroundings& with = {}) const {
    return wait(start(arguments, with));
  }
  // The same, where it should succeed.
  std::string good(const std::vector<std::string>& arguments) const {
    const Outcome outcome = run(arguments);
    INFO(fmt::format("{}", fmt::join(arguments, " ")), "\n", outcome.out, outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(outcome.err == "");
    return outcome.out;
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> list;
    for (std::string& word : words) list.push_back(word.data());
    list.push_back(nullptr);
    return list;
  }
  fs::path path_;
};

// Whether it came true within some seconds.
template <class F>
bool soon(F&& condition, double seconds = 20) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// Some text to learn from.
inline std::string some_text(int sentences = 60) {
  std::string text;
  for (int i = 0; i < sentences; ++i) text += fmt::format("the cat {} sat on mat {}.\n", i % 7, i % 5);
  return text;
}

}  // namespace attune::programs
