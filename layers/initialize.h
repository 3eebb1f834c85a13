// How weights start: rules by name, all drawn from the model's Rng (Philox), so that a seed gives the same model
// everywhere.
#pragma once

#include <cmath>

#include "attune/autograd/parameter.h"
#include "attune/lib/random.h"

namespace attune {

// A negative or infinite spread is an error.
class Init {
 public:
  static Init zeros() { return Init(Kind::normal, 0); }
  static Init normal(double deviation) { return Init(Kind::normal, deviation); }
  // Uniform in [-limit, limit).
  static Init uniform(double limit) { return Init(Kind::uniform, limit); }
  // Of deviation 1/sqrt(in), which keeps the scale of x (LeCun et al. 1998).
  static Init lecun_normal() { return Init(Kind::lecun_normal); }
  // Of variance 2/(in + out), a compromise between forward and backward (Glorot & Bengio 2010).
  static Init xavier_normal() { return Init(Kind::xavier_normal); }
  static Init xavier_uniform() { return Init(Kind::xavier_uniform); }
  // Of variance 2/in, since relu drops half of it (He et al. 2015).
  static Init he_normal() { return Init(Kind::he_normal); }
  static Init he_uniform() { return Init(Kind::he_uniform); }
  // For maps that write into a residual stream to which 2 * layers of them add: each starts smaller, so that the total
  // does not grow with depth (Radford et al. 2019).
  static Init residual(double deviation, int layers) { return normal(deviation / std::sqrt(2.0 * layers)); }

  // The deviation of the weights of a map from `in` to `out`.
  double deviation(Index in, Index out) const {
    const double from = in > 0 ? static_cast<double>(in) : 1, both = from + static_cast<double>(out);
    switch (kind_) {
      case Kind::normal: return number_;
      case Kind::uniform: return number_ / std::sqrt(3.0);
      case Kind::lecun_normal: return 1 / std::sqrt(from);
      case Kind::xavier_normal:
      case Kind::xavier_uniform: return std::sqrt(2 / both);
      case Kind::he_normal:
      case Kind::he_uniform: return std::sqrt(2 / from);
    }
    return 0;
  }

  // A parameter [in, out].
  Parameter operator()(Index in, Index out, Rng& rng) const {
    Parameter parameter(Shape{in, out});
    const double spread = deviation(in, out);
    if (is_uniform()) fill_uniform(parameter.mutable_value(), rng, -spread * std::sqrt(3.0), spread * std::sqrt(3.0));
    else fill_normal(parameter.mutable_value(), rng, 0, spread);
    return parameter;
  }

 private:
  enum class Kind { normal, uniform, lecun_normal, xavier_normal, xavier_uniform, he_normal, he_uniform };
  explicit Init(Kind kind, double number = 0) : kind_(kind), number_(number) {
    check(number >= 0 && std::isfinite(number), "init: a spread of {} is none", number);
  }
  bool is_uniform() const {
    return kind_ == Kind::uniform || kind_ == Kind::xavier_uniform || kind_ == Kind::he_uniform;
  }

  Kind kind_;
  double number_;
};

}  // namespace attune
