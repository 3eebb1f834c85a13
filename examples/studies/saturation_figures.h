// The figures of the saturation study's report, each of which its own file draws. A figure without panels is
// one for which there are no results.
#pragma once

#include <vector>

#include "attune/examples/studies/study.h"

namespace attune::studies {

using Results = std::vector<Result>;

// saturation_theory_figures.cpp: random rows and random gradients, on the exact lines.
Figure theory_figure(const Results& results);
Figure fan_figure(const Results& results);
// Its two first panels, to be shown elsewhere.
Panel fan_picture(const Results& results);

// saturation_training_figures.cpp: a head learns, or does not.
Figure accuracy_figure(const Results& results);
Figure heat_figure(const Results& results);
Figure inside_figure(const Results& results);
Figure strips_figure(const Results& results);
Figure curves_figure(const Results& results);

// saturation_sweep_figures.cpp: what the initial sigma decides, and what else there is.
Figure collapse_figure(const Results& results);
Figure keys_figure(const Results& results);
Figure normaliser_figure(const Results& results);
Figure rates_figure(const Results& results);

}  // namespace attune::studies
