#include "layer_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attune/autograd/gradcheck.h"
#include "attune/autograd/ops.h"
#include "attune/lib/random.h"
#include "sanitized.h"

namespace attune::check_layers {
namespace {

using check_kernels::values;
using check_ops::Column;
using check_ops::Input;

constexpr std::uint64_t kInputSeed = 1, kUpstreamSeed = 101, kDirectionSeed = 201;

Tensor upstream(const Shape& shape, DType dtype) {
  return check_kernels::random(shape, f32, kUpstreamSeed).to(dtype);
}

// A dual has a tangent, in a random direction.
std::vector<Tensor> draw(const check_ops::Inputs& inputs, DType dtype) {
  std::vector<Tensor> result;
  for (const Input& input : inputs) {
    const std::uint64_t seed = result.size();
    if (input.ids) {
      result.push_back(check_kernels::random(input.shape, i32, kInputSeed + seed, 0, input.high));
      continue;
    }
    const Tensor single = check_kernels::random(input.shape, f32, kInputSeed + seed, input.low, input.high);
    result.push_back(dtype == DType::dual
                         ? check_kernels::dual_of(
                               single.to(f64), check_kernels::random(input.shape, f64, kDirectionSeed + seed))
                         : single.to(dtype));
  }
  return result;
}

// max |a - b| / max |b|
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (const double apart = std::abs(a[i] - b[i]); !(apart <= difference)) difference = apart;
    largest = std::max(largest, std::abs(b[i]));
  }
  return difference == 0 ? 0 : difference / largest;
}

// A sum, and how much of it may cancel.
struct Dot {
  double sum = 0, terms = 0;
  void add(const std::vector<double>& a, const std::vector<double>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      sum += a[i] * b[i];
      terms += std::abs(a[i] * b[i]);
    }
  }
};

// Relative to the larger side; where its terms cancel, to a thousandth of them.
double distance(const Dot& a, const Dot& b) {
  const double difference = std::abs(a.sum - b.sum);
  if (difference == 0) return 0;
  return difference / std::max({std::abs(a.sum), std::abs(b.sum), 1e-3 * std::max(a.terms, b.terms)});
}

// How an input enters a tape, and whose gradient to read.
struct Entry {
  Var x, leaf;
};
Entry as_leaf(const Tensor& tensor) {
  const Var x = is_float(tensor.dtype()) ? variable(tensor) : Var(tensor);
  return {x, x};
}

// The value, then the gradients of the inputs that have one, and of the parameters.
struct Result {
  Tensor y;
  std::vector<Tensor> gradients;
};

bool same_bits(const Result& a, const Result& b) {
  if (!check_kernels::same_bits(a.y, b.y) || a.gradients.size() != b.gradients.size()) return false;
  for (std::size_t k = 0; k < a.gradients.size(); ++k)
    if (!check_kernels::same_bits(a.gradients[k], b.gradients[k])) return false;
  return true;
}

class Examination {
 public:
  explicit Examination(const LayerCase& layer) : layer_(layer) {
    report_.name = layer.name;
    report_.reasons = {
        {Column::second, "an op's row has it, and gpt_gradients_test.cpp Hessians of a whole model"},
        {Column::broadcast, "the inputs of a layer do not stretch"},
        {Column::same, "the inputs of a layer play different parts"},
        {Column::saves, "what is saved, ops save"},
        {Column::points, "where a kink is, and what is infinite or NaN, ops decide"}};
  }

  check_ops::OpReport run() {
    for (const auto check :
         {&Examination::check_values, &Examination::check_single, &Examination::check_gradients,
          &Examination::check_dual, &Examination::check_strided, &Examination::check_adds,
          &Examination::check_rows, &Examination::check_errors})
      guarded(check);
    return std::move(report_);
  }

 private:
  void guarded(void (Examination::*check)()) {
    try {
      (this->*check)();
    } catch (const std::exception& error) {
      report_.failures.push_back(fmt::format("{}: it threw: {}", layer_.name, error.what()));
    }
  }
  void measured(Column column, double error, double bound, const std::string& what) {
    double& worst = report_.worst[column];
    if (!(error <= worst)) worst = error;
    if (!(error <= bound))
      report_.failures.push_back(
          fmt::format("{}: {} is off by {:.2e}, allowed is {:.0e}", layer_.name, what, error, bound));
  }
  void compared(Column column, bool equal, const std::string& what) {
    report_.equal[column] += equal;
    if (!equal) report_.failures.push_back(fmt::format("{}: {}", layer_.name, what));
  }
  void without(Column column, const char* reason) { report_.reasons[column] = reason; }

  // Gradients of parameters are zeroed first.
  Result compute(DType dtype, std::size_t count, const std::function<Entry(std::size_t)>& enter) const {
    const ParameterList parameters = layer_.parameters(dtype);
    for (const auto& state : parameters.states()) {
      kernels::fill(state->gradient, 0);
      state->has_gradient = false;
    }
    if (layer_.under_nograd) {
      const NoGrad scope;
      return forward(dtype, count, enter);
    }
    return differentiated(dtype, count, enter);
  }
  Result forward(DType dtype, std::size_t count, const std::function<Entry(std::size_t)>& enter) const {
    std::vector<Var> x;
    for (std::size_t k = 0; k < count; ++k) x.push_back(enter(k).x);
    return {Tensor::copy_of(layer_.f(dtype, x).value()), {}};
  }
  Result differentiated(DType dtype, std::size_t count,
                        const std::function<Entry(std::size_t)>& enter) const {
    Rng random(7);
    Tape tape({.random = &random});
    std::vector<Var> x, leaves;
    for (std::size_t k = 0; k < count; ++k) {
      const Entry entry = enter(k);
      x.push_back(entry.x);
      leaves.push_back(entry.leaf);
    }
    const Var y = layer_.f(dtype, x);
    tape.backward(y, upstream(y.shape(), dtype));
    Result result{Tensor::copy_of(y.value()), {}};
    for (const Var leaf : leaves)
      if (leaf.has_grad()) result.gradients.push_back(Tensor::copy_of(leaf.grad()));
    const ParameterList parameters = layer_.parameters(dtype);
    for (const auto& state : parameters.states())
      result.gradients.push_back(Tensor::copy_of(state->gradient));
    return result;
  }
  Result compute(DType dtype, const std::vector<Tensor>& numbers) const {
    return compute(dtype, numbers.size(), [&](std::size_t k) { return as_leaf(numbers[k]); });
  }
  Result compute(DType dtype) const { return compute(dtype, draw(layer_.inputs, dtype)); }

  void check_values() {
    const std::vector<Tensor> numbers = draw(layer_.inputs, f64);
    const Tensor y = compute(f64, numbers).y;
    const Plain expected = layer_.reference(std::vector<Plain>(numbers.begin(), numbers.end()));
    compared_shape(y.shape(), expected.shape);
    measured(Column::values, distance(values(y), expected.numbers), kValueBound, "the value");
  }
  void compared_shape(const Shape& found, const Shape& expected) {
    if (found != expected)
      report_.failures.push_back(fmt::format("{}: the shape is {}, not {}", layer_.name, found, expected));
  }

  void check_single() {
    const Result single = compute(f32), twice = compute(f64);
    measured(Column::single, distance(values(single.y), values(twice.y)), layer_.f32_bound,
             "the value in f32");
    for (std::size_t k = 0; k < twice.gradients.size(); ++k)
      if (!vanishes(twice, k))
        measured(Column::single, distance(values(single.gradients[k]), values(twice.gradients[k])),
                 layer_.f32_bound, fmt::format("gradient {} in f32", k));
  }
  // Whether a gradient is nothing but rounding, as that of the bias of keys, which shifts all scores of a row
  // alike.
  static bool vanishes(const Result& result, std::size_t k) {
    const auto largest = [](const Tensor& x) {
      double most = 0;
      for (const double number : values(x)) most = std::max(most, std::abs(number));
      return most;
    };
    double most = 0;
    for (const Tensor& gradient : result.gradients) most = std::max(most, largest(gradient));
    return largest(result.gradients[k]) <= 1e-12 * most;
  }

  void check_gradients() {
    if (layer_.under_nograd) return without(Column::gradcheck, "a cache is read under NoGrad");
    if (layer_.draws)
      return without(Column::gradcheck, "each call draws another mask; the op's row has a fixed one");
    const GradcheckOptions options{.tolerance = check_ops::kGradcheckBound, .elements = 40};
    std::vector<Tensor> numbers = draw(layer_.inputs, f64);
    std::vector<Tensor*> moved;
    for (Tensor& tensor : numbers)
      if (is_float(tensor.dtype())) moved.push_back(&tensor);
    const auto f = [&](Vars vars) {
      std::vector<Var> x;
      std::size_t next = 0;
      for (const Tensor& tensor : numbers) x.push_back(is_float(tensor.dtype()) ? vars[next++] : Var(tensor));
      return layer_.f(f64, x);
    };
    if (!moved.empty()) measured_gradients(gradcheck(f, moved, options));
    const ParameterList parameters = layer_.parameters(f64);
    if (parameters.states().empty()) return;
    measured_gradients(gradcheck_parameters(
        parameters, [&] { return layer_.f(f64, std::vector<Var>(numbers.begin(), numbers.end())); },
        options));
  }
  void measured_gradients(const GradcheckReport& found) {
    measured(Column::gradcheck, found.error(), check_ops::kGradcheckBound, "a gradient");
    if (!found) report_.failures.push_back(fmt::format("{}: {}", layer_.name, found.text()));
  }

  // Along the tangents of all inputs and parameters.
  void check_dual() {
    if (layer_.under_nograd) return without(Column::dual, "a cache is read under NoGrad");
    const std::vector<Tensor> inputs = draw(layer_.inputs, DType::dual);
    const Result backward = compute(f64), forward = compute(DType::dual, inputs);
    std::vector<std::vector<double>> directions;
    for (const Tensor& input : inputs)
      if (is_float(input.dtype())) directions.push_back(check_kernels::tangents(input));
    const ParameterList parameters = layer_.parameters(DType::dual);
    for (const auto& state : parameters.states()) directions.push_back(check_kernels::tangents(state->value));
    Dot along, against;
    along.add(values(upstream(forward.y.shape(), f64)), check_kernels::tangents(forward.y));
    for (std::size_t k = 0; k < backward.gradients.size(); ++k)
      against.add(values(backward.gradients[k]), directions[k]);
    measured(Column::dual, distance(along, against), check_ops::kDualBound, "the derivative forward");
    measured(Column::dual, distance(values(forward.y), values(backward.y)), check_ops::kDualBound,
             "the value of duals");
  }

  void check_strided() {
    for (const DType dtype : {f32, f64}) {
      const std::vector<Tensor> numbers = draw(layer_.inputs, dtype);
      const Result expected = compute(dtype, numbers);
      for (std::size_t k = 0; k < numbers.size(); ++k)
        for (const check_ops::Arrangement& arrangement : check_ops::arrangements())
          compared(Column::strided, same_bits(arranged(dtype, numbers, k, arrangement, expected), expected),
                   fmt::format("other bits where input {} is {}", k, arrangement.name));
    }
  }
  // With input k in other memory. Its own gradient may have zeros of another sign, since adding to a zero
  // loses it.
  Result arranged(DType dtype, const std::vector<Tensor>& numbers, std::size_t k,
                  const check_ops::Arrangement& to, const Result& expected) const {
    const Shape& shape = numbers[k].shape();
    Tensor memory(to.memory(shape), numbers[k].dtype());
    if (is_float(memory.dtype())) kernels::fill(memory, check_kernels::kNan);
    kernels::copy(to.place(memory.view(), shape), numbers[k]);
    Result found = compute(dtype, numbers.size(), [&](std::size_t at) {
      if (at != k) return as_leaf(numbers[at]);
      const Var root = as_leaf(memory).x;
      return Entry{view_of("arranged", root, [&](const View& v) { return to.place(v, shape); }), root};
    });
    std::size_t gradient = 0;
    for (std::size_t at = 0; at < k; ++at) gradient += is_float(numbers[at].dtype());
    if (!is_float(memory.dtype()) || found.gradients.empty()) return found;
    Tensor seen = Tensor::copy_of(to.place(found.gradients[gradient].view(), shape));
    if (values(seen) == values(expected.gradients[gradient])) seen = expected.gradients[gradient].clone();
    found.gradients[gradient] = std::move(seen);
    return found;
  }

  void check_adds() {
    if (layer_.under_nograd) return without(Column::adds, "a cache is read under NoGrad");
    const ParameterList parameters = layer_.parameters(f64);
    if (parameters.states().empty()) return without(Column::adds, "it has no parameters");
    const Result once = compute(f64);
    const std::vector<Tensor> numbers = draw(layer_.inputs, f64);
    Rng random(7);
    Tape tape({.random = &random});
    const Var y = layer_.f(f64, std::vector<Var>(numbers.begin(), numbers.end()));
    tape.backward(y, upstream(y.shape(), f64));
    const std::size_t first = once.gradients.size() - parameters.states().size();
    for (std::size_t k = 0; k < parameters.states().size(); ++k) {
      if (vanishes(once, first + k)) continue;
      std::vector<double> twice = values(once.gradients[first + k]);
      for (double& number : twice) number *= 2;
      measured(Column::adds, distance(values(parameters.states()[k]->gradient), twice), kAddsBound,
               fmt::format("the sum of gradients of parameter {}", k));
    }
  }

  void check_rows() {
    const std::string row_before(row());
    const int threads_before = threads();
    check_ops::Inputs inputs = layer_.inputs;
    for (Input& input : inputs) input.shape[0] *= layer_.larger;
    std::vector<Result> expected;
    for (const std::string& name : supported_rows())
      for (int count = 1; count <= kMostThreads; ++count) {
        set_row(name);
        set_threads(count);
        std::size_t at = 0;
        for (const DType dtype : {f32, f64, DType::dual}) {
          Result found = compute(dtype, draw(inputs, dtype));
          if (at == expected.size())
            expected.push_back(std::move(found));
          else
            compared(Column::rows, same_bits(found, expected[at]),
                     fmt::format("other bits in {} on {} with {} threads", dtype, name, count));
          ++at;
        }
      }
    set_row(row_before);
    set_threads(threads_before);
  }

  void check_errors() {
    for (const check_ops::Refusal& refusal : layer_.errors) {
      const Tape tape;
      std::string found = "no error";
      try {
        refusal.call();
      } catch (const std::invalid_argument& error) {
        found = error.what();
      }
      compared(Column::errors, found == refusal.message,
               fmt::format("\"{}\", not \"{}\"", found, refusal.message));
    }
  }

  const LayerCase& layer_;
  check_ops::OpReport report_;
};

}  // namespace

check_ops::OpReport examine(const LayerCase& layer) { return Examination(layer).run(); }

void check_layer(const LayerCase& layer) {
  CHECK_MESSAGE(!layer.inputs.empty(), layer.name, " is checked on nothing");
  check_ops::OpReport report = examine(layer);
  for (const std::string& failure : report.failures) FAIL_CHECK(failure);
  add_to_table(std::move(report));
}

}  // namespace attune::check_layers
