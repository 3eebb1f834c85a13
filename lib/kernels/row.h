// What a file of an instruction set includes, and nothing more: the table it fills and the macro it inlines with.
// Such a file must not pull in the standard library's inline functions: compiled for AVX-512 and merged by the
// linker, one of them would run on a machine without it.
#pragma once

#include "attune/lib/kernels/table.h"

#define INLINE inline __attribute__((always_inline, unused))
