#include "mutant_subject.h"

namespace attune::program {

MutantSubject::MutantSubject(OpSample& sample) : sample_(sample) {
  Rng random = stream();
  targets_ = mutant_targets([&] { return sample_.f(variables()); }, &random);
  random = stream();
  const Tape tape({.random = &random});
  shape_ = sample_.f(variables()).shape();
  upstream_ = Tensor(shape_, f64);
  Rng numbers(23);
  fill_normal(upstream_, numbers);
}

Jacobian MutantSubject::analytic() {
  Jacobian rows;
  for (std::size_t element = 0; element < static_cast<std::size_t>(shape_.count()); ++element)
    rows.push_back(row(element));
  return rows;
}

Jacobian MutantSubject::numeric(double eps) {
  Jacobian rows(static_cast<std::size_t>(shape_.count()));
  for (Tensor& input : sample_.inputs)
    for (double& element : input.data<double>()) {
      const double before = element;
      const auto at = [&](double x) {
        element = x;
        return values();
      };
      const std::vector<double> ahead = at(before + eps), behind = at(before - eps);
      element = before;
      for (std::size_t row = 0; row < rows.size(); ++row) rows[row].push_back((ahead[row] - behind[row]) / (2 * eps));
    }
  return rows;
}

std::vector<double> MutantSubject::row(std::size_t element) {
  Tensor one(shape_, f64);
  one.data<double>()[element] = 1;
  return gradient(one);
}

std::vector<double> MutantSubject::of_zeros() { return gradient(Tensor(shape_, f64)); }
std::vector<double> MutantSubject::of_random() { return gradient(upstream_); }

std::vector<Var> MutantSubject::variables() const {
  std::vector<Var> vars;
  for (const Tensor& input : sample_.inputs) vars.push_back(variable(input));
  return vars;
}

std::vector<double> MutantSubject::gradient(const Tensor& upstream) {
  Rng random = stream();
  Tape tape({.random = &random});
  const std::vector<Var> vars = variables();
  tape.backward(sample_.f(vars), upstream);
  std::vector<double> all;
  for (const Var x : vars) {
    const Tensor part = x.has_grad() ? Tensor::copy_of(x.grad()) : Tensor(x.shape(), f64);
    all.insert(all.end(), part.data<double>().begin(), part.data<double>().end());
  }
  return all;
}

std::vector<double> MutantSubject::values() {
  Rng random = stream();
  const Tape tape({.random = &random});
  const Tensor y = Tensor::copy_of(sample_.f(variables()).value());
  return {y.data<double>().begin(), y.data<double>().end()};
}

}  // namespace attune::program
