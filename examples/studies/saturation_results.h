// Choosing among the results of the saturation study, and saying in a word what they found.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "attune/examples/show/plot.h"
#include "attune/examples/studies/study.h"

namespace attune::studies::saturation_results {

using Words = std::vector<std::string>;
using Filter = std::vector<std::pair<std::string, std::string>>;

// Series of show::plot.h that are red: what is wrong; and grey.
inline constexpr int kRed = 6, kGrey = 7;
inline constexpr const char* kReference =
    "Reference: an independent computation in another framework (PyTorch 1.13, one to three seeds).";

std::string setting(const Result& result, const std::string& axis);
double number(const Result& result, const std::string& axis);
double outcome(const Result& result, const std::string& name);

// Results whose settings are these, and as usual on every axis that is not named here or in `free`.
std::vector<const Result*> select(const std::vector<Result>& all, const Filter& filter,
                                  const Words& free = {"seed", "steps"});
// The values that results of the kind have on an axis, as they come.
Words values_of(const std::vector<Result>& all, const std::string& kind, const std::string& axis);
Words by_number(Words values);
// The width that the curves are drawn for: 128, or the largest there is.
std::string main_width(const std::vector<Result>& results);

// Steps to 0.9: the median over seeds, and infinite where it is never reached; NaN of no results.
double steps_to_learn(const std::vector<const Result*>& results);
double median_outcome(const std::vector<const Result*>& results, const std::string& name);
double median(std::vector<double> numbers);

// "82", or "never".
std::string steps_text(double steps);
// "82, 91, – (0.86)": each seed's, and the accuracy of those that never get there.
std::string steps_of_seeds(const std::vector<const Result*>& results);
// "5·10⁻¹¹", or "0.043".
std::string power_text(double x);
// "1/√d" for "1/sqrt".
std::string rule_title(const std::string& rule);
// "Adam" for "adam".
std::string optimizer_title(const std::string& optimizer);
// Where the heat map's cell leads: letters, digits and hyphens.
std::string anchor(const std::string& optimizer, const std::string& d, const std::string& rule);

// A column of runs.csv of one run.
std::vector<double> course(const Result& result, const std::string& column);
// All seeds thin, and their median thick. Where training ended early its last number stands.
void add_courses(std::vector<show::Series>& lines, const std::vector<const Result*>& results, const std::string& column,
                 const std::string& name, int color);

}  // namespace attune::studies::saturation_results
