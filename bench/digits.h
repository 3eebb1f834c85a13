// How far numbers are from what they should be.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "attune/autograd/forward.h"

namespace bench {

// The largest |a - b| and |b| of two tensors, as attune verify measures, and the lengths of a - b and b.
struct Distance {
  double apart = 0, largest = 0, length_apart = 0, length = 0;

  double digits() const { return of(apart, largest); }
  double mean_digits() const { return of(length_apart, length); }

 private:
  static double of(double error, double size) {
    return error == 0 ? 16 : error < size ? std::min(16.0, -std::log10(error / size)) : 0;
  }
};

inline Distance distance(const attune::ConstView& a, const attune::ConstView& b) {
  const attune::Tensor x = attune::values_of(a), y = attune::values_of(b);
  Distance d;
  for (std::size_t i = 0; i < y.data<double>().size(); ++i) {
    const double error = std::abs(x.data<double>()[i] - y.data<double>()[i]), size = std::abs(y.data<double>()[i]);
    d.apart = std::isnan(error) ? error : std::max(d.apart, error);
    d.largest = std::max(d.largest, size);
    d.length_apart = std::hypot(d.length_apart, error);
    d.length = std::hypot(d.length, size);
  }
  return d;
}

}  // namespace bench
