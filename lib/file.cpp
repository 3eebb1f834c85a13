#include "attune/lib/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "attune/lib/error.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

// Throws with the system's reason unless `ok`.
void check_file(bool ok, const fs::path& path, const char* fault) {
  if (ok) return;
  const std::string reason = std::generic_category().message(errno);
  check_environment(false, "file: {} {}: {}", path.native(), fault, reason);
}

// Renaming is only safe once the folder is on the disk too.
void synchronize_folder(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  check_file(descriptor >= 0, folder, "cannot be opened");
  // Some file systems do not know how, and say so.
  const bool ok = fsync(descriptor) == 0 || errno == EINVAL || errno == ENOTSUP;
  const int error = errno;
  close(descriptor);
  errno = error;
  check_file(ok, folder, "cannot be brought to the disk");
}

// A writer holds a lock on its temporary file for as long as it lives; what nobody holds was left by one that died.
bool lock(int descriptor) { return flock(descriptor, LOCK_EX | LOCK_NB) == 0; }

// Whether the file still has a name.
bool is_linked(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) != 0 || status.st_nlink > 0;
}

// Whether `name` is `target`.<digits>-<digits>.tmp, as temporary files are called.
bool is_temporary_of(const std::string& target, const std::string& name) {
  constexpr std::string_view end = ".tmp";
  if (!name.starts_with(target + ".") || !name.ends_with(end)) return false;
  const std::string_view middle =
      std::string_view(name).substr(target.size() + 1, name.size() - target.size() - 1 - end.size());
  const std::size_t dash = middle.find('-');
  const auto is_number = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == part.npos;
  };
  return dash != middle.npos && is_number(middle.substr(0, dash)) && is_number(middle.substr(dash + 1));
}

// Removes what writers of `path` that died have left behind. No fault of it is worth an error.
void remove_leftovers(const fs::path& path) {
  std::error_code ignored;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (auto entry = fs::directory_iterator(folder, ignored); entry != fs::directory_iterator();
       entry.increment(ignored)) {
    if (ignored) return;
    if (!is_temporary_of(path.filename().native(), entry->path().filename().native())) continue;
    const int descriptor = open(entry->path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (descriptor < 0) continue;
    if (lock(descriptor) && is_linked(descriptor)) unlink(entry->path().c_str());
    close(descriptor);
  }
}

}  // namespace

InputFile::InputFile(const fs::path& path) : path_(path) {
  // O_NONBLOCK: a pipe that nobody writes to must not hold us up. It means nothing to a regular file.
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  check_file(descriptor_ >= 0, path_, "cannot be opened");
  struct stat status {};
  const bool known = fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    check_environment(false, "file: {} is {}", path_.native(),
                      known && S_ISDIR(status.st_mode) ? "a folder" : "no regular file");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() { close(descriptor_); }

void InputFile::read(std::uint64_t offset, void* to, std::size_t bytes) const {
  auto* next = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = pread(descriptor_, next, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    check_file(got >= 0, path_, "cannot be read");
    check_environment(got > 0, "file: {} ends at byte {}, where more was expected", path_.native(), offset);
    next += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

OutputFile::OutputFile(const fs::path& path) : path_(path) {
  std::error_code ignored;
  check_environment(!fs::is_directory(path, ignored), "file: {} is a folder", path.native());
  remove_leftovers(path);
  // Another name for every writer.
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    temporary_ = fmt::format("{}.{}-{}.tmp", path.native(), getpid(), attempt);
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    check_file(descriptor_ >= 0 || errno == EEXIST, path_, "cannot be written");
    if (descriptor_ < 0) continue;
    // Before it was locked, somebody may have taken it for a leftover.
    const bool is_ours = lock(descriptor_) || errno != EWOULDBLOCK;
    if (!is_ours || !is_linked(descriptor_)) release();
  }
}

void OutputFile::release() {
  close(descriptor_);
  descriptor_ = -1;
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void OutputFile::write(const void* from, std::size_t bytes) {
  auto* next = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = ::write(descriptor_, next, bytes);
    if (put < 0 && errno == EINTR) continue;
    check_file(put > 0, path_, "cannot be written");
    next += put;
    bytes -= static_cast<std::size_t>(put);
  }
}

void OutputFile::commit() {
  check_file(fsync(descriptor_) == 0, path_, "cannot be brought to the disk");
  // Still open, and so locked: nobody takes it for a leftover.
  check_file(rename(temporary_.c_str(), path_.c_str()) == 0, path_, "cannot be replaced");
  temporary_.clear();
  release();
  synchronize_folder(path_);
}

FolderLock::FolderLock(const fs::path& folder) {
  descriptor_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  check_file(descriptor_ >= 0, folder, "cannot be opened");
  if (lock(descriptor_) || errno != EWOULDBLOCK) return;
  close(descriptor_);
  check_environment(false, "file: {} is in use by another process", folder.native());
}

FolderLock::~FolderLock() { close(descriptor_); }

}  // namespace attune
