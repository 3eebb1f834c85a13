// The other half of theory.h: rows drawn at random, measured, and compared with what the theory says.
//
//   const auto rows = draw_rows({.sigma = 8, .keys = 128, .rows = 10000});
//   const Sample trace(rows, &RowStatistics::trace);
//   trace.z_score(theory::expected_row(8, 128).trace);   // within ±3, nearly always
//
// Numbers are functions of the seed and of where they stand, the same everywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "attune/layers/saturation/row_statistics.h"

namespace attune {

// Numbers drawn alike, and what is said of their mean. Not empty.
class Sample {
 public:
  explicit Sample(std::vector<double> values);
  // Of each row what `field` says: a member of RowStatistics, or a function of one.
  template <class Field>
  Sample(std::span<const RowStatistics> rows, Field field) : Sample(collect(rows, field)) {}
  template <class Field>
  Sample(const std::vector<RowStatistics>& rows, Field field) : Sample(std::span(rows), field) {}

  double mean() const { return mean_; }
  double root_mean_square() const { return root_mean_square_; }
  double standard_error() const { return standard_error_; }  // of the mean
  // How many standard errors the mean lies above `exact`; 0 where it lies on it.
  double z_score(double exact) const;
  // 0 <= q <= 1, between the two nearest numbers in proportion (as NumPy does).
  double quantile(double q) const;
  double median() const { return quantile(0.5); }
  // The share below a number.
  double below(double threshold) const;
  std::span<const double> sorted() const { return sorted_; }

 private:
  template <class Field>
  static std::vector<double> collect(std::span<const RowStatistics> rows, Field field);
  std::vector<double> sorted_;
  double mean_, root_mean_square_, standard_error_;
};

struct DrawnRows {
  double sigma = 1;  // the scores' deviation
  Index keys = 2, rows = 10000;
  std::uint64_t seed = 1;
};
// softmax of `keys` scores sigma z, z ~ N(0, 1).
std::vector<RowStatistics> draw_rows(const DrawnRows& options);

struct DrawnGradients {
  Index width = 64;       // d, of queries and keys
  Index value_width = 0;  // dv; 0: as `width`
  double scale = 1;
  Index keys = 32, rows = 10000;
  std::uint64_t seed = 1;
};
// ‖dL/dq‖ of each row, where q, k, v and the output's gradient are N(0, I): drawn from its exact
// distribution, without drawing every element. Given |q| and the scores, J does not see the keys' parts at
// right angles to q.
Sample draw_query_gradients(const DrawnGradients& options);

// -- Below: how the template does it.

template <class Field>
std::vector<double> Sample::collect(std::span<const RowStatistics> rows, Field field) {
  std::vector<double> values;
  values.reserve(rows.size());
  for (const RowStatistics& row : rows) values.push_back(std::invoke(field, row));
  return values;
}

}  // namespace attune
