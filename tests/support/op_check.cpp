#include "op_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "../lib/kernel_check.h"
#include "attune/autograd/gradcheck.h"
#include "attune/autograd/ops/expand.h"
#include "attune/autograd/ops/mul.h"
#include "attune/autograd/parameter.h"
#include "sanitized.h"

namespace attune::check_ops {
namespace {

using check_kernels::kNan;
using check_kernels::values;

constexpr std::uint64_t kInputSeed = 1, kUpstreamSeed = 101, kDirectionSeed = 201, kStartSeed = 301;

// Numbers that f32 holds exactly, so that every type computes from the same ones.
Tensor draw(const Shape& shape, DType dtype, std::uint64_t seed, double low = -1, double high = 1) {
  return check_kernels::random(shape, f32, seed, low, high).to(dtype);
}

// The numbers -2 ... 2, equally far apart, in an order that the seed decides.
Tensor draw_apart(const Shape& shape, DType dtype, std::uint64_t seed) {
  const std::vector<double> random = values(draw(shape, f64, seed));
  std::vector<std::size_t> order(random.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return random[i] < random[j]; });
  Tensor result(shape, f32);
  for (std::size_t i = 0; i < order.size(); ++i)
    result.data<float>()[order[i]] = -2 + 4 * (static_cast<float>(i) + 0.5f) / static_cast<float>(order.size());
  return result.to(dtype);
}

std::vector<Tensor> draw(const Inputs& inputs, DType dtype) {
  std::vector<Tensor> result;
  for (const Input& input : inputs) {
    const std::uint64_t seed = kInputSeed + result.size();
    result.push_back(input.ids     ? check_kernels::random(input.shape, i32, seed, 0, input.high)
                     : input.apart ? draw_apart(input.shape, dtype, seed)
                                   : draw(input.shape, dtype, seed, input.low, input.high));
  }
  return result;
}

Tensor upstream(const Shape& shape, DType dtype) { return draw(shape, dtype, kUpstreamSeed); }

// What an op made of its inputs. Of an input that got no gradient there is none here.
struct Result {
  Tensor y;
  std::vector<std::optional<Tensor>> gradients;
};

// How one input enters, and whose gradient to read.
struct Entry {
  Var x, leaf;
};

Entry as_leaf(const Tensor& tensor) {
  const Var x = is_float(tensor.dtype()) ? variable(tensor) : Var(tensor);
  return {x, x};
}

// Behind another op, so that nothing keeps its gradient, and its memory may be handed on.
Entry as_result(const Tensor& tensor) {
  const Entry entry = as_leaf(tensor);
  return is_float(tensor.dtype()) ? Entry{entry.x * 1.0, entry.leaf} : entry;
}

// Results then stand where there was NaN: what an op forgets to write shows.
void poison_tape_memory() {
  const NoGrad scope;
  kernels::fill(saved({1 << 13}, f64), kNan);
}

Result compute(const Function& f, std::size_t count, const std::function<Entry(std::size_t)>& enter) {
  poison_tape_memory();
  Tape tape;
  std::vector<Var> x, leaves;
  for (std::size_t k = 0; k < count; ++k) {
    const Entry entry = enter(k);
    x.push_back(entry.x);
    leaves.push_back(entry.leaf);
  }
  const Var y = f(x);
  Result result{Tensor::copy_of(y.value()), {}};
  result.gradients.resize(count);
  if (!y.needs_grad()) return result;
  tape.backward(y, upstream(y.shape(), y.dtype()));
  for (std::size_t k = 0; k < count; ++k)
    if (leaves[k].has_grad()) result.gradients[k] = Tensor::copy_of(leaves[k].grad());
  return result;
}

Result compute(const Function& f, const std::vector<Tensor>& inputs) {
  return compute(f, inputs.size(), [&](std::size_t k) { return as_leaf(inputs[k]); });
}

Tensor compute_constant(const Function& f, const std::vector<Tensor>& inputs) {
  poison_tape_memory();
  const NoGrad scope;
  const std::vector<Var> x(inputs.begin(), inputs.end());
  return Tensor::copy_of(f(x).value());
}

// -- Comparing.

bool same_bits(const Tensor& a, const Tensor& b) {
  const auto bytes = static_cast<std::size_t>(a.count() * size_of(a.dtype()));
  if (a.shape() == b.shape() && a.dtype() == b.dtype() &&
      (bytes == 0 || std::memcmp(a.view().data(), b.view().data(), bytes) == 0))
    return true;
  return check_kernels::same_bits(a, b);
}

bool same_bits(const Result& a, const Result& b) {
  if (!same_bits(a.y, b.y)) return false;
  for (std::size_t k = 0; k < a.gradients.size(); ++k) {
    if (a.gradients[k].has_value() != b.gradients[k].has_value()) return false;
    if (a.gradients[k] && !same_bits(*a.gradients[k], *b.gradients[k])) return false;
  }
  return true;
}

// The same numbers; a zero may have either sign, since adding to a zero loses it.
bool same_numbers(const ConstView& a, const ConstView& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && values(a) == values(b);
}

double largest(const std::vector<double>& numbers) {
  double result = 0;
  for (double number : numbers) result = std::isnan(number) ? kNan : std::max(result, std::abs(number));
  return result;
}

// max |a - b| / scale; the scale is max |b| unless given.
double distance(const std::vector<double>& a, const std::vector<double>& b,
                std::optional<double> scale = {}) {
  double difference = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double apart = std::abs(a[i] - b[i]);
    if (!(apart <= difference)) difference = apart;
  }
  return difference == 0 ? 0 : difference / scale.value_or(largest(b));
}

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

// Leaves the row of the kernel table and the threads as they were.
class Restored {
 public:
  Restored() : row_(row()), threads_(threads()) {}
  ~Restored() {
    set_row(row_);
    set_threads(threads_);
  }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  std::string row_;
  int threads_;
};

// -- Shapes that broadcast.

std::vector<Inputs> broadcasting_pairs(const Input& a, const Input& b) {
  const Shape full{2, 3, 4};
  const auto narrowed = [&](int axes) {
    Shape shape = full;
    for (int axis = 0; axis < 3; ++axis)
      if (axes >> axis & 1) shape[axis] = 1;
    return shape;
  };
  const auto without_leading = [](const Shape& shape, int axes) {
    return Shape(std::span(shape.begin() + axes, shape.end()));
  };
  std::vector<Inputs> pairs;
  const auto add = [&](const Shape& first, const Shape& second) {
    pairs.push_back({{first, a.low, a.high}, {second, b.low, b.high}});
  };
  for (int in_a = 0; in_a < 8; ++in_a)
    for (int in_b = 0; in_b < 8; ++in_b) add(narrowed(in_a), narrowed(in_b));
  for (int missing = 1; missing <= 3; ++missing) {
    add(without_leading(full, missing), full);
    add(full, without_leading(full, missing));
    add(without_leading(full, missing), narrowed(5));
    add(narrowed(6), without_leading(full, missing));
  }
  add({0, 1}, {3});
  add({1, 4}, {0, 1});
  return pairs;
}

// -- The checks.

class Examination {
 public:
  explicit Examination(const OpCase& op) : op_(op), called_(op.name.substr(0, op.name.find(','))) {
    report_.name = op.name;
  }

  OpReport run() {
    const std::vector<Check> per_inputs = {
        {"values", &Examination::check_values},       {"f32", &Examination::check_single},
        {"gradcheck", &Examination::check_gradients}, {"dual", &Examination::check_dual},
        {"second", &Examination::check_second},       {"strided", &Examination::check_strided},
        {"f(x,x)", &Examination::check_same},         {"adds", &Examination::check_adds},
        {"constants", &Examination::check_constants}, {"saves", &Examination::check_saves}};
    for (const Inputs& inputs : op_.inputs)
      for (const Check& check : per_inputs) guarded(check.name, inputs, [&] { (this->*check.run)(inputs); });
    if (op_.broadcasts) check_broadcast();
    guarded("rows", {}, [&] { check_rows(); });
    for (const Point& point : op_.points)
      for (DType dtype : {f32, f64, DType::dual}) guarded("points", {}, [&] { check_point(point, dtype); });
    check_errors();
    return std::move(report_);
  }

 private:
  struct Check {
    const char* name;
    void (Examination::*run)(const Inputs&);
  };

  // -- What was found.

  void fail(const char* check, const Inputs& inputs, const std::string& what) {
    std::string shapes;
    for (const Input& input : inputs) shapes += fmt::format("{}{}", shapes.empty() ? "" : ", ", input.shape);
    report_.failures.push_back(
        fmt::format("{}: {}{}{}: {}", op_.name, check, shapes.empty() ? "" : " of ", shapes, what));
  }
  void measured(Column column, const char* check, const Inputs& inputs, double error, double bound,
                const std::string& what) {
    auto& worst = report_.worst[column];
    if (!(error <= worst)) worst = error;
    if (!(error <= bound))
      fail(check, inputs, fmt::format("{} is off by {:.2e}, allowed is {:.0e}", what, error, bound));
  }
  void compared(Column column, const char* check, const Inputs& inputs, bool equal, const std::string& what) {
    report_.equal[column] += equal;
    if (!equal) fail(check, inputs, what);
  }
  template <class F>
  void guarded(const char* check, const Inputs& inputs, F&& run) {
    try {
      run();
    } catch (const std::exception& error) {
      fail(check, inputs, fmt::format("it threw: {}", error.what()));
    }
  }

  // -- One check each.

  void check_values(const Inputs& inputs) {
    const std::vector<Tensor> numbers = draw(inputs, f64);
    const std::vector<Plain> plain(numbers.begin(), numbers.end());
    compare_values(Column::values, "values", inputs, compute(op_.f, numbers).y, op_.reference(plain));
    if (!op_.any_dtype) return;
    std::vector<Tensor> integers;
    for (const Input& input : inputs)
      integers.push_back(check_kernels::random(input.shape, i32, kInputSeed, -1000, 1000));
    const std::vector<Plain> whole(integers.begin(), integers.end());
    compare_values(Column::values, "values in i32", inputs, compute_constant(op_.f, integers),
                   op_.reference(whole));
  }
  void compare_values(Column column, const char* check, const Inputs& inputs, const Tensor& y,
                      const Plain& expected) {
    if (y.shape() != expected.shape)
      return fail(check, inputs, fmt::format("the shape is {}, not {}", y.shape(), expected.shape));
    measured(column, check, inputs, distance(values(y), expected.numbers), kValueBound, "the value");
  }

  void check_single(const Inputs& inputs) {
    const Result single = compute(op_.f, draw(inputs, f32)), twice = compute(op_.f, draw(inputs, f64));
    const auto compare = [&](const Tensor& a, const Tensor& b, const std::string& what) {
      measured(Column::single, "f32", inputs, distance(values(a), values(b)), op_.f32_bound, what);
    };
    compare(single.y, twice.y, "the value");
    for (std::size_t k = 0; k < inputs.size(); ++k)
      if (twice.gradients[k])
        compare(*single.gradients[k], *twice.gradients[k], fmt::format("gradient {}", k));
  }

  void check_gradients(const Inputs& inputs) {
    if (op_.differentiable) measured_gradients(Column::gradcheck, "gradcheck", inputs);
  }
  void measured_gradients(Column column, const char* check, const Inputs& inputs) {
    std::vector<Tensor> numbers = draw(inputs, f64);
    std::vector<Tensor*> moved;
    for (Tensor& tensor : numbers)
      if (is_float(tensor.dtype())) moved.push_back(&tensor);
    const auto f = [&](std::span<const Var> vars) {
      std::vector<Var> x;
      std::size_t next = 0;
      for (const Tensor& tensor : numbers) x.push_back(is_float(tensor.dtype()) ? vars[next++] : Var(tensor));
      return op_.f(x);
    };
    const auto count = [](const Input& input) { return input.shape.count(); };
    const Index largest_count = count(*std::max_element(
        inputs.begin(), inputs.end(), [&](const Input& a, const Input& b) { return count(a) < count(b); }));
    const GradcheckReport found =
        gradcheck(f, moved, {.tolerance = kGradcheckBound, .elements = largest_count > 10000 ? 8 : 40});
    measured(column, check, inputs, found.error(), kGradcheckBound, "a gradient");
    if (!found) fail(check, inputs, found.text());
  }

  // Directions for the inputs: in all of them, or zero but for one.
  std::vector<Tensor> directions(const Inputs& inputs, std::optional<std::size_t> only) {
    std::vector<Tensor> result;
    for (std::size_t k = 0; k < inputs.size(); ++k)
      result.push_back(only.value_or(k) == k ? draw(inputs[k].shape, f64, kDirectionSeed + k)
                                             : Tensor(inputs[k].shape, f64));
    return result;
  }
  std::vector<std::optional<std::size_t>> choices(const Inputs& inputs) {
    std::vector<std::optional<std::size_t>> result = {std::nullopt};
    for (std::size_t k = 0; inputs.size() > 1 && k < inputs.size(); ++k)
      if (!inputs[k].ids) result.push_back(k);
    return result;
  }
  std::vector<Tensor> with_tangents(const std::vector<Tensor>& numbers,
                                    const std::vector<Tensor>& direction) {
    std::vector<Tensor> result;
    for (std::size_t k = 0; k < numbers.size(); ++k)
      result.push_back(is_float(numbers[k].dtype()) ? check_kernels::dual_of(numbers[k], direction[k])
                                                    : numbers[k].clone());
    return result;
  }

  void check_dual(const Inputs& inputs) {
    const std::vector<Tensor> numbers = draw(inputs, f64);
    const Result backward = compute(op_.f, numbers);
    for (const auto& only : choices(inputs)) {
      const std::vector<Tensor> direction = directions(inputs, only);
      const Result forward = compute(op_.f, with_tangents(numbers, direction));
      Dot along, against;
      if (is_float(forward.y.dtype()))
        along.add(check_kernels::tangents(forward.y), values(upstream(forward.y.shape(), f64)));
      for (std::size_t k = 0; k < inputs.size(); ++k)
        if (backward.gradients[k]) against.add(values(*backward.gradients[k]), values(direction[k]));
      const std::string name =
          only ? fmt::format("the direction of input {}", *only) : "the direction of all";
      measured(Column::dual, "dual", inputs, distance(along, against), kDualBound, name);
      measured(Column::dual, "dual", inputs, distance(values(forward.y), values(backward.y)), kDualBound,
               "the value");
    }
  }

  // The derivative of the gradients along a direction, by the four-point formula that gradcheck has.
  void check_second(const Inputs& inputs) {
    if (!op_.differentiable) return;
    const std::vector<Tensor> numbers = draw(inputs, f64), direction = directions(inputs, std::nullopt);
    const double h = 0x1p-10;
    const auto at = [&](double shift) {
      std::vector<Tensor> moved;
      for (std::size_t k = 0; k < numbers.size(); ++k) {
        moved.push_back(numbers[k].clone());
        if (!is_float(moved[k].dtype())) continue;
        const auto to = moved[k].data<double>();
        for (std::size_t i = 0; i < to.size(); ++i)
          to[i] += shift * std::as_const(direction[k]).data<double>()[i];
      }
      return compute(op_.f, moved);
    };
    const Result steps[] = {at(h), at(-h), at(2 * h), at(-2 * h)};
    const Result found = compute(op_.f, with_tangents(numbers, direction));
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (!found.gradients[k]) continue;
      std::vector<double> sides[4], numeric;
      for (std::size_t side = 0; side < 4; ++side) sides[side] = values(*steps[side].gradients[k]);
      for (std::size_t i = 0; i < sides[0].size(); ++i)
        numeric.push_back((8 * (sides[0][i] - sides[1][i]) - (sides[2][i] - sides[3][i])) / (12 * h));
      // An op that is nearly linear has second derivatives below the rounding of differences.
      const double scale = std::max(largest(numeric), 1e-4 * largest(values(*found.gradients[k])));
      const double error = distance(check_kernels::tangents(*found.gradients[k]), numeric, scale);
      measured(Column::second, "second", inputs, error, kSecondBound,
               fmt::format("the tangent of gradient {}", k));
    }
  }

  void check_strided(const Inputs& inputs) {
    if (!op_.strided) return;
    for (DType dtype : {f32, f64}) {
      const std::vector<Tensor> numbers = draw(inputs, dtype);
      const Result expected = compute(op_.f, numbers);
      const Result behind =
          compute(op_.f, inputs.size(), [&](std::size_t k) { return as_result(numbers[k]); });
      compared(Column::strided, "strided", inputs, same_bits(behind, expected),
               "other bits where inputs are results");
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        if (inputs[k].shape.rank() == 0) continue;
        for (const Arrangement& arrangement : arrangements())
          arranged(inputs, numbers, k, arrangement, expected);
        for (int axis = 0; axis < inputs[k].shape.rank(); ++axis) stretched(inputs, numbers, k, axis);
      }
    }
  }
  // Operand k in other memory: the same values; and the same gradients, with zeros around that of k.
  void arranged(const Inputs& inputs, const std::vector<Tensor>& numbers, std::size_t k,
                const Arrangement& to, const Result& expected) {
    const Shape& shape = inputs[k].shape;
    Tensor memory(to.memory(shape), numbers[k].dtype());
    if (is_float(memory.dtype())) kernels::fill(memory, kNan);
    kernels::copy(to.place(memory.view(), shape), numbers[k]);
    const Result found = compute(op_.f, inputs.size(), [&](std::size_t at) {
      if (at != k) return as_leaf(numbers[at]);
      const Var root = as_leaf(memory).x;
      return Entry{view_of("arranged", root, [&](const View& v) { return to.place(v, shape); }), root};
    });
    bool equal = same_bits(found.y, expected.y);
    for (std::size_t at = 0; at < inputs.size(); ++at) {
      equal &= found.gradients[at].has_value() == expected.gradients[at].has_value();
      if (!equal || !found.gradients[at]) continue;
      if (at != k) {
        equal &= same_bits(*found.gradients[at], *expected.gradients[at]);
      } else {
        Tensor around(memory.shape(), memory.dtype());
        kernels::copy(to.place(around.view(), shape), *expected.gradients[k]);
        equal &= same_numbers(*found.gradients[k], around);
      }
    }
    compared(Column::strided, "strided", inputs, equal,
             fmt::format("other numbers where input {} is {}", k, to.name));
  }
  // Operand k repeated along an axis by a stride of 0, against its copy.
  void stretched(const Inputs& inputs, const std::vector<Tensor>& numbers, std::size_t k, int axis) {
    const Shape& shape = inputs[k].shape;
    if (shape[axis] == 0) return;
    const Tensor narrow = Tensor::copy_of(numbers[k].view().slice(axis, 0, 1));
    const Tensor whole = Tensor::copy_of(narrow.view().expand(shape));
    const auto with = [&](const std::function<Entry()>& enter) {
      return compute(op_.f, inputs.size(),
                     [&](std::size_t at) { return at == k ? enter() : as_leaf(numbers[at]); });
    };
    const Result expected = with([&] { return as_leaf(whole); });
    const Result found = with([&] {
      const Var x = as_leaf(narrow).x;
      return Entry{expand(x, shape), x};
    });
    bool equal = same_bits(found.y, expected.y);
    if (found.gradients[k]) {
      Tensor total(narrow.shape(), narrow.dtype());
      kernels::sum(total, *expected.gradients[k]);
      equal &= same_numbers(*found.gradients[k], total);
    }
    compared(Column::strided, "strided", inputs, equal,
             fmt::format("other numbers where input {} is stretched along axis {}", k, axis));
  }

  void check_broadcast() {
    for (const Inputs& inputs : broadcasting_pairs(op_.inputs.back()[0], op_.inputs.back()[1]))
      guarded("broadcast", inputs, [&] {
        const std::vector<Tensor> numbers = draw(inputs, f64);
        const Result found = compute(op_.f, numbers);
        compare_values(Column::broadcast, "broadcast", inputs, found.y,
                       op_.reference(std::vector<Plain>(numbers.begin(), numbers.end())));
        if (!op_.differentiable) return;
        for (std::size_t k = 0; k < inputs.size(); ++k)
          if (!found.gradients[k] || found.gradients[k]->shape() != inputs[k].shape)
            fail("broadcast", inputs, fmt::format("gradient {} has another shape than its input", k));
        measured_gradients(Column::broadcast, "broadcast", inputs);
        check_dual(inputs);
        check_adds(inputs);
      });
  }

  // Every two operands of one shape as one Var.
  void check_same(const Inputs& inputs) {
    for (std::size_t j = 0; j < inputs.size(); ++j)
      for (std::size_t i = 0; i < j; ++i) {
        if (inputs[i].ids || inputs[j].ids || inputs[i].shape != inputs[j].shape) continue;
        Inputs alike = inputs;  // the numbers of the narrower range suit both
        alike[i].low = alike[j].low = std::max(inputs[i].low, inputs[j].low);
        alike[i].high = alike[j].high = std::min(inputs[i].high, inputs[j].high);
        std::vector<Tensor> numbers = draw(alike, f64);
        numbers[j] = numbers[i].clone();
        const Result apart = compute(op_.f, numbers);
        for (Entry (*enter)(const Tensor&) : {as_leaf, as_result}) {
          std::optional<Entry> shared;
          const Result one = compute(op_.f, inputs.size(), [&](std::size_t k) {
            const Entry entry = k == j ? *shared : enter(numbers[k]);
            if (k == i) shared = entry;
            return entry;
          });
          if (!same_bits(one.y, apart.y)) fail("f(x,x)", inputs, "another value than of two");
          if (!apart.gradients[i] || !apart.gradients[j]) continue;
          measured_sum(Column::same, "f(x,x)", inputs, *one.gradients[i], *apart.gradients[i],
                       *apart.gradients[j]);
        }
      }
  }
  // Relative to what is added rather than to the sum, which may cancel.
  void measured_sum(Column column, const char* check, const Inputs& inputs, const Tensor& total,
                    const Tensor& a, const Tensor& b) {
    const std::vector<double> first = values(a), second = values(b);
    std::vector<double> expected = first;
    for (std::size_t i = 0; i < first.size(); ++i) expected[i] += second[i];
    const double scale = std::max(largest(first), largest(second));
    measured(column, check, inputs, distance(values(total), expected, scale), kSumBound,
             "the sum of gradients");
  }

  // All inputs are parameters, whose gradients start with numbers of their own.
  void check_adds(const Inputs& inputs) {
    if (!op_.differentiable) return;
    const std::vector<Tensor> numbers = draw(inputs, f64);
    const Result fresh = compute(op_.f, numbers);
    std::vector<Parameter> parameters(inputs.size());
    std::vector<Tensor> start;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      start.push_back(draw(inputs[k].shape, f64, kStartSeed + k));
      if (inputs[k].ids) continue;
      parameters[k] = Parameter(numbers[k]);
      kernels::copy(parameters[k].mutable_grad(), start[k]);
    }
    Tape tape;
    std::vector<Var> x;
    for (std::size_t k = 0; k < inputs.size(); ++k)
      x.push_back(parameters[k].exists() ? Var(parameters[k]) : Var(numbers[k]));
    const Var y = op_.f(x);
    tape.backward(y, upstream(y.shape(), f64));
    for (std::size_t k = 0; k < inputs.size(); ++k)
      if (fresh.gradients[k])
        measured_sum(Column::adds, "adds", inputs, Tensor::copy_of(parameters[k].grad()), start[k],
                     *fresh.gradients[k]);
  }

  // Each input in turn as a constant, then all.
  void check_constants(const Inputs& inputs) {
    const std::vector<Tensor> numbers = draw(inputs, f64);
    const Result expected = compute(op_.f, numbers);
    for (std::size_t k = 0; k < inputs.size(); ++k)
      if (expected.gradients[k].has_value() != (op_.differentiable && !inputs[k].ids))
        fail("constants", inputs, fmt::format("whether input {} has a gradient", k));
    for (std::size_t constant = 0; constant < inputs.size(); ++constant) {
      const Result found = compute(op_.f, inputs.size(), [&](std::size_t k) {
        if (k != constant) return as_leaf(numbers[k]);
        const Var x = numbers[k];
        return Entry{x, x};
      });
      bool equal = same_bits(found.y, expected.y) && !found.gradients[constant];
      for (std::size_t k = 0; k < inputs.size(); ++k)
        if (k != constant && expected.gradients[k])
          equal &= found.gradients[k] && same_bits(*found.gradients[k], *expected.gradients[k]);
      if (!equal)
        fail("constants", inputs, fmt::format("another result where input {} has no gradient", constant));
    }
    const NoGrad scope;
    const std::vector<Var> x(numbers.begin(), numbers.end());
    const Var y = op_.f(x);
    if (y.needs_grad()) fail("constants", inputs, "the result needs a gradient that no input has");
    if (!same_bits(Tensor::copy_of(y.value()), expected.y))
      fail("constants", inputs, "another value without a record");
  }

  void check_rows() {
    const Restored before;
    std::vector<Result> expected;
    for (const std::string& name : supported_rows())
      for (int count = 1; count <= kMostThreads; ++count) {
        set_row(name);
        set_threads(count);
        std::size_t at = 0;
        for (const Inputs& inputs : op_.inputs)
          for (DType dtype : {f32, f64, DType::dual}) {
            Result found = compute_in(inputs, dtype);
            if (at == expected.size())
              expected.push_back(std::move(found));
            else
              compared(Column::rows, "rows", inputs, same_bits(found, expected[at]),
                       fmt::format("other bits in {} on {} with {} threads", dtype, name, count));
            ++at;
          }
      }
  }
  Result compute_in(const Inputs& inputs, DType dtype) {
    if (dtype != DType::dual) return compute(op_.f, draw(inputs, dtype));
    return compute(op_.f, with_tangents(draw(inputs, f64), directions(inputs, std::nullopt)));
  }

  // Inputs become NaN between forward and backward. Where backward minds, their values were declared as
  // saved; where it does not, its gradients must not know.
  void check_saves(const Inputs& inputs) {
    const auto is_empty = [](const Input& input) { return input.shape.count() == 0; };
    if (!op_.differentiable || std::any_of(inputs.begin(), inputs.end(), is_empty)) return;
    std::vector<Tensor> numbers = draw(inputs, f64);
    const Result expected = compute(op_.f, numbers);
    Tape tape;
    std::vector<Var> x;
    for (const Tensor& tensor : numbers) x.push_back(as_leaf(tensor).x);
    const Var y = op_.f(x);
    for (Tensor& tensor : numbers)
      if (is_float(tensor.dtype())) kernels::fill(tensor, kNan);
    try {
      tape.backward(y, upstream(y.shape(), f64));
      report_.saves = Saves::nothing;
    } catch (const std::invalid_argument& error) {
      report_.saves = Saves::values;
      if (!std::string_view(error.what()).starts_with("backward: a tensor of shape ")) throw;
      if (op_.saves == Saves::nothing) fail("saves", inputs, error.what());
      return;
    }
    if (op_.saves == Saves::values) fail("saves", inputs, "inputs may change before backward");
    for (std::size_t k = 0; k < inputs.size(); ++k)
      if (expected.gradients[k] && !same_bits(Tensor::copy_of(x[k].grad()), *expected.gradients[k]))
        fail("saves", inputs, fmt::format("gradient {} reads values that were not declared as saved", k));
  }

  // In f32 and f64 the slopes are the gradients; in dual, the tangents along each operand alone.
  void check_point(const Point& point, DType dtype) {
    if (dtype == f32 && !fits_f32(point)) return;
    std::vector<Tensor> numbers;
    for (double at : point.at) numbers.push_back(full({}, at, dtype));
    for (std::size_t k = 0; k < point.at.size(); ++k) {
      if (dtype == DType::dual) numbers[k].data<dual>()[0].tangent = 1;
      Tape tape;
      std::vector<Var> x;
      for (const Tensor& number : numbers) x.push_back(variable(number));
      const Var y = op_.f(x);
      known(point, dtype, "the value", y.item(), point.y);
      if (!point.slopes.empty()) known(point, dtype, fmt::format("slope {}", k), slope(tape, y, x[k]), point.slopes[k]);
      if (dtype == DType::dual) numbers[k].data<dual>()[0].tangent = 0;
    }
  }
  static double slope(Tape& tape, Var y, Var x) {
    if (y.dtype() == DType::dual) return y.value().as<dual>()->tangent;
    if (!y.needs_grad()) return 0;
    tape.backward(y);
    return x.has_grad() ? x.grad().item() : 0;
  }
  static bool fits_f32(const Point& point) {
    for (double number : point.at)
      if (std::isfinite(number) && static_cast<float>(number) != number) return false;
    std::vector<double> numbers = point.slopes;
    numbers.push_back(point.y);
    return std::none_of(numbers.begin(), numbers.end(), [](double number) {
      const double size = std::abs(number);
      return std::isfinite(size) && size != 0 && (size < 1.2e-38 || size > 3e38);
    });
  }
  // Infinities, zeros and NaN are exact.
  void known(const Point& point, DType dtype, const std::string& what, double found, double expected) {
    const bool same = found == expected || (std::isnan(found) && std::isnan(expected));
    const double error = same                                        ? 0
                         : std::isfinite(expected) && expected != 0 ? std::abs((found - expected) / expected)
                                                                    : kNan;
    std::string at;
    for (double number : point.at) at += fmt::format("{}{}", at.empty() ? "" : ", ", number);
    measured(Column::points, "points", {}, dtype == f32 ? error * (kPointBound / 3e-7) : error, kPointBound,
             fmt::format("{} in {} at {} is {}, not {}, and", what, dtype, at, found, expected));
  }

  // -- Messages.

  static std::string message_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const std::invalid_argument& error) {
      return error.what();
    } catch (const std::exception& error) {
      return fmt::format("another kind of error: {}", error.what());
    }
    return "no error";
  }
  void refused(const std::function<void()>& call, const std::string& message) {
    const std::string found = message_of(call);
    compared(Column::errors, "errors", {}, found == message,
             fmt::format("\"{}\", not \"{}\"", found, message));
  }
  // In words of the op's choice, but under its name rather than a kernel's.
  void refused_i32(const std::function<void()>& call) {
    const std::string found = message_of(call);
    compared(Column::errors, "errors", {},
             found.starts_with(called_ + ": ") && found.find("i32") != std::string::npos,
             fmt::format("\"{}\" does not say that {} refuses i32", found, called_));
  }

  void check_errors() {
    for (const Refusal& refusal : op_.errors) {
      const Tape tape;
      refused(refusal.call, refusal.message);
    }
    if (op_.inputs.empty() || op_.composed) return;
    const Inputs& inputs = op_.inputs.front();
    refused([&] { compute_on_dead_vars(inputs); },
            called_ + ": a Var was used after its tape had ended, or on another thread");
    if (op_.any_dtype) return;
    std::vector<Tensor> integers;
    for (const Input& input : inputs) integers.emplace_back(input.shape, i32);
    refused([&] { compute(op_.f, integers); }, called_ + ": it computes with f32, f64 or dual, and got i32");
    check_mixed_types(inputs);
  }
  void compute_on_dead_vars(const Inputs& inputs) {
    const std::vector<Tensor> numbers = draw(inputs, f64);
    std::vector<Var> dead;
    {
      const NoGrad scope;
      dead.assign(numbers.begin(), numbers.end());
    }
    const NoGrad scope;
    op_.f(dead);
  }
  void check_mixed_types(const Inputs& inputs) {
    std::vector<std::size_t> operands;
    for (std::size_t k = 0; k < inputs.size(); ++k)
      if (!inputs[k].ids) operands.push_back(k);
    if (operands.size() < 2) return;
    for (std::size_t k : operands) {
      std::vector<Tensor> mixed = draw(inputs, f64);
      mixed[k] = mixed[k].to(f32);
      refused([&] { compute(op_.f, mixed); }, fmt::format("{}: element types {} differ", called_,
                                                          k == operands[0] ? "f32 and f64" : "f64 and f32"));
      mixed[k] = Tensor(mixed[k].shape(), i32);
      refused_i32([&] { compute(op_.f, mixed); });
    }
  }

  const OpCase& op_;
  std::string called_;  // as the op's messages call it
  OpReport report_;
};

Shape reversed(const Shape& shape) {
  Shape result = shape;
  std::reverse_copy(shape.begin(), shape.end(), &result[0]);
  return result;
}

}  // namespace

std::span<const Arrangement> arrangements() {
  static const Arrangement all[] = {
      {"a window",
       [](const Shape& shape) {
         Shape larger = shape;
         for (int axis = 0; axis < shape.rank(); ++axis) larger[axis] += 3;
         return larger;
       },
       [](const View& memory, const Shape& shape) {
         View result = memory;
         for (int axis = 0; axis < shape.rank(); ++axis) result = result.slice(axis, 1, 1 + shape[axis]);
         return result;
       }},
      {"every other element",
       [](const Shape& shape) {
         Shape larger = shape;
         larger[shape.rank() - 1] *= 2;
         return larger;
       },
       [](const View& memory, const Shape& shape) { return memory.slice(-1, 0, 2 * shape.last(), 2); }},
      {"axes reversed", reversed,
       [](const View& memory, const Shape& shape) {
         std::vector<int> order;
         for (int axis = shape.rank(); axis-- > 0;) order.push_back(axis);
         return memory.permute(order);
       }},
  };
  return all;
}

Input real(const Shape& shape, double low, double high) { return {shape, low, high, false}; }
Input apart(const Shape& shape) { return {.shape = shape, .apart = true}; }
Input ids(const Shape& shape, Index count) { return {shape, 0, static_cast<double>(count), true}; }

std::vector<Inputs> odd_sizes(int operands, double low, double high) {
  std::vector<Inputs> result;
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{0}, Shape{2, 0, 3}, Shape{15}, Shape{16}, Shape{17},
                             Shape{3, 1, 33}, Shape{2, 1, 3, 1, 2, 5}, Shape{41, 53, 67}})
    result.emplace_back(static_cast<std::size_t>(operands), real(shape, low, high));
  return result;
}

OpReport examine(const OpCase& op) { return Examination(op).run(); }

void check_op(const OpCase& op) {
  CHECK_MESSAGE(!op.inputs.empty(), op.name, " is checked on nothing");
  OpReport report = examine(op);
  for (const std::string& failure : report.failures) FAIL_CHECK(failure);
  add_to_table(std::move(report));
}

}  // namespace attune::check_ops
