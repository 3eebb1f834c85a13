// Golden files: inputs, outputs and gradients that another implementation computed in double, one safetensors
// file per case. They lie outside of the source tree: where ATTUNE_GOLDEN says, or beside it in
// ../shared/golden; a test that finds none says so and is done.
//
// ATTUNE_TABLE=1 prints every comparison: the largest error, as a share of what is allowed.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "../lib/kernel_check.h"
#include "attune/lib/safetensors.h"

namespace attune::golden {

inline std::filesystem::path folder() {
  const char* given = std::getenv("ATTUNE_GOLDEN");
  return given ? std::filesystem::path(given)
               : std::filesystem::path(ATTUNE_SOURCE_DIR) / ".." / "shared" / "golden";
}

// Whether there are golden files; says so where not.
inline bool available() {
  if (std::filesystem::is_directory(folder())) return true;
  MESSAGE("no golden files in ", folder().string(),
          ": nothing was compared (ATTUNE_GOLDEN names another folder)");
  return false;
}

// A line of the table: the error as a share of what is allowed.
inline void print_line(const std::string& file, DType dtype, const std::string& label, double error) {
  if (std::getenv("ATTUNE_TABLE"))
    fmt::print("{:<28} {:<4} {:<44} {:8.1e}\n", file, name_of(dtype), label, error);
}

// An error above 1 is too large.
struct Comparison {
  double error = 0;
  std::size_t worst = 0;
};

class File {
 public:
  explicit File(const std::string& name)
      : name_(name), file_(read_safetensors(folder() / (name + ".safetensors"))) {}

  const std::string& name() const { return name_; }
  bool has(const std::string& tensor) const { return file_.find(tensor) != nullptr; }
  bool is_nasty() const { return text("note").rfind("Nasty", 0) == 0; }
  // f64, and f32 where plain f32 code can be expected to follow.
  std::vector<DType> dtypes() const { return is_nasty() ? std::vector<DType>{f64} : std::vector<DType>{f64, f32}; }
  const std::vector<NamedTensor>& tensors() const { return file_.tensors; }

  std::string text(const std::string& key) const {
    const auto found = file_.metadata.find(key);
    return found == file_.metadata.end() ? std::string() : found->second;
  }
  double number(const std::string& key, double otherwise = 0) const {
    const std::string value = text(key);
    return value.empty() ? otherwise : std::stod(value);
  }

  const Tensor& operator[](const std::string& tensor) const {
    const Tensor* found = file_.find(tensor);
    if (!found) FAIL(name_, " has no ", tensor);
    return *found;
  }
  // As f32 or f64; token ids stay what they are.
  Tensor as(const std::string& tensor, DType dtype) const {
    const Tensor& stored = (*this)[tensor];
    return stored.dtype() == i32 ? stored.clone() : stored.to(dtype);
  }

  // Holds `actual` against the stored tensor of that name, or against another one: in f64 to the file's own
  // tolerance, in f32 to 1e-6 + 1e-5 of the tensor's largest element. Infinities are exact, and so are zeros, unless
  // they are what rounding left of a small number.
  enum class Zeros { exact, rounded };
  void compare(const std::string& tensor, const ConstView& actual, Zeros zeros = Zeros::exact) const {
    compare(tensor, actual, (*this)[tensor], zeros);
  }
  void compare(const std::string& label, const ConstView& actual, const Tensor& stored, Zeros zeros = Zeros::exact) const {
    INFO(name_, " ", label, " ", name_of(actual.dtype()));
    REQUIRE(actual.shape() == stored.shape());
    const Comparison result = difference(actual, stored, zeros);
    print_line(name_, actual.dtype(), label, result.error);
    INFO("element ", result.worst, " is ", check_kernels::values(actual)[result.worst], ", not ",
         check_kernels::values(stored)[result.worst]);
    CHECK(result.error <= 1);
  }

 private:
  Comparison difference(const ConstView& actual, const Tensor& stored, Zeros zeros) const {
    const std::vector<double> ours = check_kernels::values(actual), theirs = check_kernels::values(stored);
    double largest = 0;
    for (const double number : theirs)
      if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
    const bool single = actual.dtype() == f32;
    const double relative = single ? 0 : number("rtol", 1e-12);
    const double absolute = single ? 1e-6 + 1e-5 * largest : number("atol", 1e-13);
    Comparison result;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      double error = std::abs(ours[i] - theirs[i]) / (absolute + relative * std::abs(theirs[i]));
      const bool exact = theirs[i] == 0 ? zeros == Zeros::exact : !std::isfinite(theirs[i]);
      if (exact) error = ours[i] == theirs[i] ? 0 : check_kernels::kInf;
      if (std::isnan(error)) error = check_kernels::kInf;
      if (error > result.error) result = {error, i};
    }
    return result;
  }

  std::string name_;
  SafetensorsFile file_;
};

}  // namespace attune::golden
