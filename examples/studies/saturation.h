// Study "saturation": why scores are divided by √d, measured. Its runs are made in saturation.cpp, its report
// is put together in saturation_report.cpp out of saturation_figures.h, and what both are held against stands in
// saturation_reference.h.
#pragma once

#include "attune/examples/studies/study.h"

namespace attune::studies {

const Study& saturation();
Report saturation_report(const Request& request, const std::vector<Result>& results);

}  // namespace attune::studies
