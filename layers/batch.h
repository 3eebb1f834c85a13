// What a model is trained on at one step.
#pragma once

#include "attune/lib/tensor.h"

namespace attune {

// inputs i32 [B, T], and for each position what should follow: targets i32 [B, T], -100 where nothing is asked.
struct Batch {
  Tensor inputs, targets;
};

}  // namespace attune
