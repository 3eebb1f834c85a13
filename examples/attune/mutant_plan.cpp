#include "mutant_plan.h"

#include <cmath>
#include <limits>
#include <utility>

namespace attune::program {

const std::vector<std::string> kMutantKinds = {"wrong sign",          "factor 2",
                                               "factor 1.001",        "factor 1 + 1e-6",
                                               "factor 1 + 1e-9",     "no gradient at all",
                                               "a term dropped",      "operands swapped",
                                               "transposed",          "sum over a broadcast axis missing",
                                               "adds to garbage",     kAssigns,
                                               "a stale saved value", "an off-by-one row",
                                               "the mask ignored",    "the scale missing"};

namespace {

// What a rule wrote for one input, for each element of its result's gradient.
struct Terms {
  Shape shape;
  Jacobian rows;
};

Terms terms_of(MutantSubject& subject, const MutantTarget& target) {
  Terms terms;
  const Mutant spy(
      {.op = target.op, .which = target.which, .input = target.input, .terms = [&](const View& written, Index) {
         const Tensor numbers = Tensor::copy_of(written);
         terms.shape = written.shape();
         terms.rows.emplace_back(numbers.data<double>().begin(), numbers.data<double>().end());
       }});
  subject.of_random();
  return terms;
}

void set_zero(const View& all, Index element) {
  visit(all.dtype(), [&]<class T>() { all.as<T>()[element] = T(0); });
}

class Planner {
 public:
  Planner(MutantSubject& subject, const MutantTarget& target)
      : subject_(subject), target_(target), terms_(terms_of(subject, target)) {}

  std::vector<Planned> plan() {
    for (const auto& [kind, factor] : {std::pair{"wrong sign", -1.0},
                                       {"factor 2", 2.0},
                                       {"factor 1.001", 1.001},
                                       {"factor 1 + 1e-6", 1 + 1e-6},
                                       {"factor 1 + 1e-9", 1 + 1e-9},
                                       {"no gradient at all", 0.0}})
      add(kind, "", {.change = scaled_by(factor)});
    drop_terms();
    swap_operands();
    const Shape& shape = terms_.shape;
    if (shape.rank() >= 2 && shape.last() > 1 && shape.last(1) > 1) add("transposed", "", {.change = transposed()});
    forget_sums();
    add("adds to garbage", "where it is the first", {.garbage = true});
    add(kAssigns, "where it is not the first", {.assigns = true});
    make_stale();
    if (shape.rank() >= 1 && shape[0] > 1) {
      add("an off-by-one row", "each is the next one's", {.change = rows_shifted()});
      add("an off-by-one row", "the last is missing", {.change = without_last_row()});
    }
    return std::move(plan_);
  }

 private:
  void add(std::string kind, std::string detail, MutantOptions options) {
    plan_.push_back({std::move(kind), std::move(detail), aimed(target_, std::move(options))});
  }

  // One product of all that are summed: the largest. And all those of other elements' gradients, or of the element's
  // own, as in softmax's y (dy - dy·y).
  void drop_terms() {
    Index result = 0, written = 0;
    double largest = -1;
    bool own = false, others = false;
    for (std::size_t j = 0; j < terms_.rows.size(); ++j)
      for (std::size_t i = 0; i < terms_.rows[j].size(); ++i) {
        const double size = std::abs(terms_.rows[j][i]);
        (i == j ? own : others) |= size > 0;
        if (!(size > largest)) continue;
        largest = size, result = static_cast<Index>(j), written = static_cast<Index>(i);
      }
    add("a term dropped", fmt::format("element {} of dy, in element {}", result, written),
        {.terms = [=](const View& all, Index element) {
          if (element == result) set_zero(all, written);
        }});
    if (!own || !others || target_.result != terms_.shape) return;
    add("a term dropped", "what comes from other elements", {.terms = [](const View& all, Index element) {
          for (Index i = 0; i < all.count(); ++i)
            if (i != element) set_zero(all, i);
        }});
    add("a term dropped", "what comes from the element itself",
        {.terms = [](const View& all, Index element) { set_zero(all, element); }});
  }

  void swap_operands() {
    for (const MutantTarget& other : subject_.targets())
      if (other.op == target_.op && other.which == target_.which && other.input > target_.input &&
          other.shape.count() == target_.shape.count() && target_.shape.count() > 1)
        add("operands swapped", fmt::format("with input {}", other.input), {.swapped_with = other.input});
  }

  // Along an axis along which the input was stretched, only the first counts.
  void forget_sums() {
    const Shape &result = target_.result, &shape = target_.shape;
    const int lacking = result.rank() - shape.rank();
    const bool stretched = broadcasts_to(shape, result);
    for (int axis = 0; axis < result.rank(); ++axis) {
      const bool repeats = axis < lacking ? stretched || axis == 0 : stretched && shape[axis - lacking] == 1;
      if (!repeats || result[axis] < 2) continue;
      add("sum over a broadcast axis missing", fmt::format("axis {} of {}", axis, result),
          {.upstream = [=](const View& dy) { kernels::fill(dy.slice(axis, 1, dy.size(axis)), 0); }});
    }
  }

  // Its numbers are those of other elements. Whether the rule reads them at all shows where they are NaN, or, of
  // integers, where they are other ones.
  void make_stale() {
    const std::vector<double> right = subject_.of_random();
    for (int saved = 0; saved < static_cast<int>(target_.saved.size()); ++saved) {
      const auto poison = [](const View& numbers) {
        if (numbers.dtype() == i32)
          moved_on()(numbers);
        else
          kernels::fill(numbers, std::numeric_limits<double>::quiet_NaN());
      };
      const Mutant poisoned(aimed(target_, {.stale = poison, .saved = saved}));
      if (subject_.of_random() == right) continue;
      add("a stale saved value", target_.saved[static_cast<std::size_t>(saved)], {.stale = moved_on(), .saved = saved});
    }
  }

  MutantSubject& subject_;
  const MutantTarget& target_;
  Terms terms_;
  std::vector<Planned> plan_;
};

}  // namespace

MutantOptions aimed(const MutantTarget& target, MutantOptions options) {
  options.op = target.op, options.which = target.which, options.input = target.input;
  return options;
}

std::string op_of(const OpSample& sample) { return sample.name.substr(0, sample.name.find(',')); }

std::vector<Planned> mutants_of(MutantSubject& subject, const MutantTarget& target) {
  std::vector<Planned> plan = Planner(subject, target).plan();
  for (Planned& planned : mutants_by_formula(subject.sample(), target)) plan.push_back(std::move(planned));
  return plan;
}

}  // namespace attune::program
