#include "picture.h"

#include <filesystem>

#include "arguments.h"
#include "attune/lib/file.h"

namespace attune::program {

namespace fs = std::filesystem;

void check_picture_path(const Arguments& arguments) {
  if (!arguments.has("--svg")) return;
  const std::string path = arguments.text("--svg");
  std::error_code ignored;
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : ".";
  if (path.empty()) refuse("--svg '': give the path of a file to write");
  if (fs::is_directory(path, ignored)) refuse("--svg {}: a folder; give the path of a file in it", path);
  if (!fs::is_directory(folder, ignored)) refuse("--svg {}: there is no folder {}", path, folder.string());
}

void write_picture(const std::string& path, const std::string& page) {
  OutputFile file(path);
  file.write(page.data(), page.size());
  file.commit();
}

}  // namespace attune::program
