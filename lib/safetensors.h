// Tensors in files, in the format that other frameworks read and write: safetensors
// (https://github.com/huggingface/safetensors, "Format"): 8 bytes of length, a header of JSON, the numbers.
//
// A file is not trusted: whatever its bytes are, reading it gives tensors or a std::runtime_error that names
// the file, the place and the fault, and takes no more memory than a small multiple of the file's size.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/lib/tensor.h"

namespace attune {

// Free text about a file, by key.
using Metadata = std::map<std::string, std::string>;

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

struct SafetensorsFile {
  std::vector<NamedTensor> tensors;  // in the order of the header
  Metadata metadata;

  // The tensor of that name, or nullptr.
  const Tensor* find(std::string_view name) const;
};

// Reads a whole file. F32, F64 and I32 load as what they are; F16 and BF16 as f32, without loss; BOOL and U8
// as i32; I64 as i32 where every number fits. Another type, and a rank above 6, is an error.
SafetensorsFile read_safetensors(const std::filesystem::path& path);

struct NamedView {
  std::string name;
  ConstView view;
};

// Writes f32, f64 and i32 views, of any strides, as their row-major contents; a dual is an error. The order
// in the file is the reference implementation's: wider types first, then by name. The numbers start at a
// multiple of 64 bytes, and the metadata has a "format", which other readers ask for: "pt" unless given.
//
// What stood at `path` is replaced at once, when the new file is safely on disk: after an error or a crash
// the old file is whole. std::runtime_error where the disk or the folder fails; nothing is left behind then.
void write_safetensors(const std::filesystem::path& path, std::vector<NamedView> tensors,
                       Metadata metadata = {});

}  // namespace attune
