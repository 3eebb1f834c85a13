// The floors: lib knows nothing of autograd, autograd nothing of layers, and no library knows of the
// programs. Every #include of the source tree is read; one that goes up fails with its file and line.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kFloors = {"lib", "autograd", "layers", "examples"};  // from the ground up

bool starts_with(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }

// The height of the floor that a path such as "lib/view.h" belongs to; nothing for a path outside of all.
std::optional<std::size_t> height(const std::string& path) {
  const auto floor = std::find(kFloors.begin(), kFloors.end(), path.substr(0, path.find('/')));
  if (floor == kFloors.end()) return std::nullopt;
  return static_cast<std::size_t>(floor - kFloors.begin());
}

// What an #include line names, with its first quote or bracket: `"attune/lib/view.h`, `<vector`. Empty
// otherwise.
std::string included(const std::string& line) {
  const std::size_t hash = line.find_first_not_of(" \t");
  if (hash == std::string::npos || line[hash] != '#') return "";
  const std::size_t word = line.find_first_not_of(" \t", hash + 1);
  if (word == std::string::npos || line.compare(word, 7, "include") != 0) return "";
  const std::size_t open = line.find_first_of("\"<", word);
  if (open == std::string::npos) return "";
  return line.substr(open, line.find_first_of("\">", open + 1) - open);
}

// Why the file at `path` (from the top of the tree) must not have this line; empty where it may.
std::string objection(const std::string& path, const std::string& line) {
  const std::string include = included(line);
  if (include.empty()) return "";
  const std::string name = include.substr(1);
  if (starts_with(name, "spdlog/") && !starts_with(path, "examples/")) return "only programs log";
  if (name == "immintrin.h" && !starts_with(path, "lib/kernels/")) return "only lib/kernels knows registers";

  if (name == "attune/attune.h") return starts_with(path, "examples/") ? "" : "attune.h is for programs";
  if (starts_with(name, "attune/")) {
    const auto from = height(path), to = height(name.substr(7));
    if (!to) return "there is no such floor";
    return *to > *from ? "goes up" : "";
  }
  // A path without attune/ is for the files of one program: the libraries name whole paths, which installed
  // ones have.
  if (include[0] == '"' && !starts_with(path, "examples/")) return "does not start with attune/";
  return "";
}

std::vector<fs::path> sources(const fs::path& folder) {
  std::vector<fs::path> found;
  if (!fs::exists(folder)) return found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension();
    if (extension == ".h" || extension == ".cpp" || extension == ".inl") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

TEST_CASE("includes only go down") {
  const fs::path root = ATTUNE_SOURCE_DIR;
  int files = 0, includes = 0;
  for (const std::string& floor : kFloors) {
    for (const fs::path& file : sources(root / floor)) {
      const std::string path = fs::relative(file, root).generic_string();
      std::ifstream text(file);
      std::string line;
      for (int number = 1; std::getline(text, line); ++number) {
        const std::string why = objection(path, line);
        if (!why.empty()) FAIL_CHECK(path << ":" << number << ": " << why << ": " << line);
        includes += !included(line).empty();
      }
      ++files;
    }
  }
  CHECK(files > 20);  // the tree was found, and its lines were understood
  CHECK(includes > files);
}

TEST_CASE("an include that goes up is seen") {
  CHECK(objection("lib/view.h", "#include \"attune/lib/shape.h\"") == "");
  CHECK(objection("autograd/tape.h", "#include \"attune/lib/view.h\"") == "");
  CHECK(objection("layers/gpt.h", "#include \"attune/autograd/ops.h\"  // the ops") == "");
  CHECK(objection("examples/copy.cpp", "#include \"attune/attune.h\"") == "");
  CHECK(objection("examples/copy.cpp", "#include <spdlog/spdlog.h>") == "");
  CHECK(objection("lib/kernels/avx2.cpp", "#include <immintrin.h>") == "");
  CHECK(objection("lib/view.h", "// #include \"attune/layers/gpt.h\"") == "");

  CHECK(objection("lib/view.h", "#include \"attune/autograd/tape.h\"") == "goes up");
  CHECK(objection("lib/view.h", "  #  include \"attune/layers/gpt.h\"") == "goes up");
  CHECK(objection("autograd/tape.h", "#include <attune/layers/gpt.h>") == "goes up");
  CHECK(objection("layers/gpt.h", "#include \"attune/examples/tasks.h\"") == "goes up");
  CHECK(objection("layers/gpt.h", "#include \"attune/tests/help.h\"") == "there is no such floor");
  CHECK(objection("autograd/tape.h", "#include \"attune/attune.h\"") == "attune.h is for programs");
  CHECK(objection("autograd/tape.h", "#include \"../layers/gpt.h\"") == "does not start with attune/");
  CHECK(objection("layers/gpt.cpp", "#include <spdlog/spdlog.h>") == "only programs log");
  CHECK(objection("lib/tensor.cpp", "#include <immintrin.h>") == "only lib/kernels knows registers");
}
