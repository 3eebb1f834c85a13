// Files that are read or written whole, and folders that one process writes at a time. Every fault is a
// std::runtime_error that names the file and the system's reason.
#pragma once

#include <cstdint>
#include <filesystem>

namespace attune {

// A regular file, open for reading.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }  // in bytes, when it was opened
  // Exactly that many bytes from there.
  void read(std::uint64_t offset, void* to, std::size_t bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

// A file that appears at its path whole, or not at all: until commit() what is written stands under another
// name in the same folder, which goes away with this object; or, where its process dies, with the next that
// writes to that path.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* from, std::size_t bytes);
  // Replaces what stands at the path. After it returns, neither a crash nor a loss of power brings the old
  // file back.
  void commit();

 private:
  void release();

  std::filesystem::path path_, temporary_;
  int descriptor_ = -1;
};

// While it lives, no other FolderLock of that folder can be made, in this process or another. It leaves nothing
// behind, whatever ends its process. Where the file system knows no locks, it holds nothing.
class FolderLock {
 public:
  // The error says that the folder is in use, where another holds it.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace attune
