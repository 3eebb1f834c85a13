// Whole files and locked folders. What a full disk and a death in the middle do to a file: safetensors_test.cpp.
#include "attune/lib/file.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

using namespace attune;

namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  fs::path path = fs::temp_directory_path() / fmt::format("attune-file-{}", getpid());
};

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("a file appears with its commit, whole, and without one not at all") {
  const Folder folder;
  const fs::path path = folder.path / "letters";
  for (const bool committed : {false, true}) {
    {
      OutputFile file(path);
      file.write("abc", 3);
      CHECK(!fs::exists(path));
      if (committed) file.commit();
    }
    CHECK(fs::exists(path) == committed);
    CHECK(files_in(folder.path) == (committed ? 1 : 0));
  }
  const InputFile file(path);
  char letters[2];
  file.read(1, letters, 2);
  CHECK(file.size() == 3);
  CHECK(std::string(letters, 2) == "bc");
  CHECK_THROWS_AS(InputFile(folder.path), std::runtime_error);
}

TEST_CASE("a folder is locked once, as long as its lock lives") {
  const Folder folder;
  {
    const FolderLock lock(folder.path);
    CHECK_THROWS_WITH_AS(FolderLock(folder.path),
                         fmt::format("file: {} is in use by another process", folder.path.string()).c_str(),
                         std::runtime_error);
  }
  const FolderLock again(folder.path);
  CHECK(files_in(folder.path) == 0);
  CHECK_THROWS_WITH_AS(
      FolderLock(folder.path / "none"),
      fmt::format("file: {} cannot be opened: No such file or directory", (folder.path / "none").string()).c_str(),
      std::runtime_error);
}
