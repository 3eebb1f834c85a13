// Which row of the kernel table runs: chosen once from what the CPU and the operating system support, best first.
// ATTUNE_ISA=scalar|avx2|avx512 forces one; a name that is unknown, or that this machine cannot run, is an error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attune/lib/kernels/table.h"

namespace attune {

// The names of the rows that this machine can run, best first; "scalar" is always the last.
const std::vector<std::string>& supported_rows();

// The name of the row in use, and another choice (std::runtime_error where it is unknown or unsupported).
std::string_view row();
void set_row(std::string_view name);

namespace kernels {
const Table& table();
}  // namespace kernels

}  // namespace attune
