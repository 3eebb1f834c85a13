// Learning-rate schedules: functions of the step t = 0, 1, ..., that know of no optimizer.
//
//   optimizer.set_lr(schedule(step));   // before the step; so the rate that is logged is the rate that was used
//
// A step below 0 counts as 0. No setting gives a NaN: a phase of no steps is skipped.
#pragma once

#include "attune/lib/number.h"

namespace attune {

struct Constant {
  double lr = 1e-3;

  double operator()(Index) const { return lr; }
};

// Up in a line over `warmup` steps, the first of them already above 0; down along half a cosine until `total`; then
// min_lr (Loshchilov & Hutter 2017).
struct WarmupCosine {
  double lr = 1e-3, min_lr = 0;
  Index warmup = 0, total = 1;

  double operator()(Index step) const;
};

// The same with a line down.
struct WarmupLinear {
  double lr = 1e-3, min_lr = 0;
  Index warmup = 0, total = 1;

  double operator()(Index step) const;
};

// factor / sqrt(width) * min(1 / sqrt(n), n / warmup^1.5) with n = t + 1: up in a line until n = warmup, then down as
// 1 / sqrt(n) ("Noam": Vaswani et al. 2017).
struct InverseSquareRoot {
  double factor = 1;
  Index width = 1, warmup = 4000;

  double operator()(Index step) const;
};

// lr times `factor` once for every `every` steps that are over. Where `every` is below 1 it stays lr.
struct StepDecay {
  double lr = 1e-3, factor = 0.1;
  Index every = 0;

  double operator()(Index step) const;
};

}  // namespace attune
