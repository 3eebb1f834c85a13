#include "attune/autograd/op_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include "attune/autograd/reverse.h"

namespace attune {
namespace {

using detail::Node;
using detail::ScopeState;
using detail::workspace;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

// Leaves the forward pass of a probe, which has seen enough.
struct Seen {};

// A sum, and the size of what was summed.
struct Dot {
  double sum = 0, terms = 0;
  void add(const Tensor& a, const Tensor& b) {
    const auto x = a.data<double>(), y = b.data<double>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] == 0 || y[i] == 0) continue;  // where one side is masked, the other may be infinite
      sum += x[i] * y[i];
      terms += std::abs(x[i] * y[i]);
    }
  }
};

std::span<dual> memory_of(const Node& owner) {
  auto* numbers = static_cast<dual*>(const_cast<void*>(owner.value.data()));
  return {numbers, static_cast<std::size_t>(owner.value.count())};
}

Tensor normal(const Shape& shape, Rng rng) {
  Tensor result(shape, f64);
  fill_normal(result, rng);
  return result;
}

// What the computation is, and how its leaves get tangents: a factor for each, 0 or 1.
struct Subject {
  std::function<void(Rng, bool some)> draw_tangents;
  std::function<Var()> f;
};

// A random gradient for the result of an op, 0 where the result is not finite: nothing can be said there.
Tensor upstream_of(const Node& y, std::uint32_t index, const Rng& rng) {
  Tensor u = normal(y.value.shape(), rng.split(index));
  const Tensor values = values_of(y.value);
  const auto numbers = u.data<double>();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (!std::isfinite(values.data<double>()[i])) numbers[i] = 0;
  return u;
}

// What a rule did to a gradient.
struct Contribution {
  std::uint32_t root;
  Tensor gradient;
};

enum class Memory { fresh, used };

// One rule, alone: `used` has numbers in all gradients before, which must still be there, and are taken off again.
std::vector<Contribution> run_alone(ScopeState& scope, std::uint32_t index, const Tensor& u, Memory memory, const Rng& rng) {
  auto& w = workspace();
  const Node& y = w.node(index);
  std::map<std::uint32_t, Tensor> before;
  const Node& owner = w.node(y.root);
  for (std::uint16_t k = 0; k < owner.input_count; ++k) {
    const Node& input = w.node(owner.inputs[k]);
    if (!input.needs_grad || input.generation != scope.generation || before.count(input.root)) continue;
    Node& root = w.node(input.root);
    Tensor start = memory == Memory::used ? normal(root.value.shape(), rng.split(input.root))
                                          : full(root.value.shape(), kNan, f64);
    detail::ensure_gradient(root, scope);
    kernels::copy(gradient_place(root), start.to(DType::dual));
    root.touched = memory == Memory::used;
    before.emplace(input.root, std::move(start));
  }
  const Tensor seed = u.to(DType::dual);
  kernels::copy(add_to(VarAccess::make(index, scope.generation)), seed);
  detail::run_rule(y);
  std::vector<Contribution> result;
  for (std::uint32_t i = scope.first_node; i <= index; ++i) {
    Node& root = w.node(i);
    if (root.root == i && root.gradient) {
      if (root.touched && i != y.root) {
        Tensor gradient = values_of(gradient_place(root));
        const auto found = before.find(i);
        if (memory == Memory::used && found != before.end())
          kernels::subtract(gradient, gradient.clone(), found->second);
        result.push_back({i, std::move(gradient)});
      }
      free_gradient(root, scope);
    }
    root.touched = false;
  }
  return result;
}

Dot along_tangents(const std::vector<Contribution>& contributions) {
  Dot dot;
  for (const Contribution& c : contributions) dot.add(c.gradient, tangents_of(workspace().node(c.root).value));
  return dot;
}

// What one draw says of one op.
struct Finding {
  const char* op = "";
  Shape shape;
  std::string place;
  double error = 0;
  bool wrong = false;
};

class Inspection {
 public:
  Inspection(const Subject& subject, const OpChecksOptions& options) : subject_(subject), options_(options) {}

  OpChecks run() {
    OpChecks result;
    for (int draw = 0; draw < std::max(2, options_.draws); ++draw) {
      if (!look_at_all(draw)) {
        result.failure = "the computation does not record the same ops each time";
        return result;
      }
    }
    result.ops = static_cast<Index>(findings_.size());
    std::optional<std::uint32_t> first;
    for (const auto& [index, found] : findings_) {
      if (found.wrong) {
        if (!first) first = index;
        result.wrong.push_back({found.op, found.shape, found.place, found.error, "", {}, {}, 0, 0});
      } else if (found.error >= result.error) {
        result.error = found.error;
        result.worst = fmt::format("{} {}{}", found.op, found.shape, in_brackets(found.place));
      }
    }
    if (first) find_worst_element(*first, result.wrong.front());
    return result;
  }

  static std::string in_brackets(const std::string& place) { return place.empty() ? "" : fmt::format(" ({})", place); }

 private:
  // A tape on which `recorded` hears of each op.
  template <class Begins, class Recorded, class Then>
  void on_a_tape(Begins&& begins, Recorded&& recorded, Then&& then) {
    Rng random = Rng(options_.seed).split("dropout");
    Tape tape({.training = options_.training, .random = &random, .places = true, .constants = DType::dual});
    ScopeState& scope = *workspace().innermost;
    scope.sparing = true;
    scope.log->begins = [&](std::uint32_t index) { begins(scope, index); };
    scope.log->recorded = [&](std::uint32_t index) {
      if (workspace().node(index).value.dtype() == DType::dual) recorded(scope, index);
    };
    try {
      subject_.f();
      then(scope);
    } catch (const Seen&) {
    }
  }

  // Returns whether the ops are those of the draws before.
  bool look_at_all(int draw) {
    const Rng rng = Rng(options_.seed).split("ops").split(static_cast<std::uint64_t>(draw));
    const bool some = draw >= 2;
    subject_.draw_tangents(rng.split("leaves"), some);
    std::map<std::uint32_t, Dot> forward;
    bool same = true;
    const auto recorded = [&](ScopeState&, std::uint32_t index) {
      const Node& y = workspace().node(index);
      Dot dot;
      dot.add(upstream_of(y, index, rng), tangents_of(y.value));
      forward[index] = dot;
      give_tangent(y, rng.split("tangents").split(index), some);
    };
    const auto then = [&](ScopeState& scope) {
      same = draw == 0 || forward.size() == findings_.size();
      for (const auto& [index, left] : forward) same = judge(scope, index, left, draw, rng) && same;
    };
    on_a_tape([](ScopeState&, std::uint32_t) {}, recorded, then);
    return same;
  }

  // A tangent that nothing before it knows of. An alias shows one that was given already.
  static void give_tangent(const Node& y, const Rng& rng, bool some) {
    const Node& root = workspace().node(y.root);
    if (root.memory != y.root) return;
    const bool none = some && Rng(rng.split("none")).uniform() < 0.5;
    const Tensor tangent = normal(root.value.shape(), rng);
    const auto place = memory_of(root);
    for (std::size_t i = 0; i < place.size(); ++i) place[i].tangent = none ? 0 : tangent.data<double>()[i];
  }

  bool judge(ScopeState& scope, std::uint32_t index, const Dot& left, int draw, const Rng& rng) {
    const Node& y = workspace().node(index);
    Finding& found = findings_[index];
    if (draw == 0) found = {y.name, y.value.shape(), detail::place_of(scope, y.root), 0, false};
    else if (found.op != y.name || !(found.shape == y.value.shape())) return false;
    const Tensor u = upstream_of(y, index, rng);
    const Memory memory = draw == 0 ? Memory::fresh : Memory::used;
    const auto contributions = run_alone(scope, index, u, memory, rng.split("before"));
    const Dot right = along_tangents(contributions);
    // Below this, rounding is all there is: of u, and of what stood in the gradients before.
    double size = 0;
    for (const double number : u.data<double>()) size += std::abs(number);
    if (memory == Memory::used)
      for (const Contribution& c : contributions) size += static_cast<double>(c.gradient.count());
    const double floor = 64 * kEpsilon * size, terms = std::max(left.terms, right.terms);
    const double difference = std::abs(left.sum - right.sum);
    // As a share of the terms, unless those are rounding themselves.
    const double error = difference / std::max({terms, 1e6 * floor, std::numeric_limits<double>::min()});
    if (!(error <= found.error)) found.error = error;
    found.wrong = found.wrong || !(difference <= options_.tolerance * terms + floor);
    return true;
  }

  // -- The worst element of a wrong op.

  // The sides for a tangent on one owner's memory alone, and on some of its elements.
  struct Sides {
    double analytic = 0, numeric = 0;
    double difference() const { return std::abs(analytic - numeric); }
  };
  using Factors = std::function<double(std::size_t)>;

  Sides sides(std::uint32_t index, std::uint32_t owner, const Factors& tangent) {
    Sides result;
    const Rng rng = Rng(options_.seed).split("ops").split(0);
    subject_.draw_tangents(rng.split("leaves"), false);
    const auto begins = [&](ScopeState&, std::uint32_t begun) {
      if (begun == wrong_root_) set_tangents(owner, tangent);
    };
    const auto recorded = [&](ScopeState&, std::uint32_t at) {
      if (at != index) return;
      const Node& y = workspace().node(index);
      Dot left;
      left.add(upstream_of(y, index, rng), tangents_of(y.value));
      result = {along_tangents(contributions_).sum, left.sum};
      throw Seen();
    };
    on_a_tape(begins, recorded, [](ScopeState&) {});
    return result;
  }

  // Nothing on the memory of all inputs but this one's.
  void set_tangents(std::uint32_t owner, const Factors& tangent) {
    for (const std::uint32_t other : owners_) {
      const auto place = memory_of(workspace().node(other));
      for (std::size_t i = 0; i < place.size(); ++i) place[i].tangent = other == owner ? tangent(i) : 0;
    }
  }

  // Learns what the op is made of, and what its rule makes of u.
  void take_apart(std::uint32_t index, std::map<std::uint32_t, std::pair<std::string, Shape>>& names) {
    const Rng rng = Rng(options_.seed).split("ops").split(0);
    subject_.draw_tangents(rng.split("leaves"), false);
    const auto recorded = [&](ScopeState& scope, std::uint32_t at) {
      if (at != index) return;
      auto& w = workspace();
      const Node& y = w.node(index);
      wrong_root_ = y.root;
      const Node& root = w.node(y.root);
      for (std::uint16_t k = 0; k < root.input_count; ++k) {
        const Node& input = w.node(root.inputs[k]);
        if (!input.needs_grad || std::count(owners_.begin(), owners_.end(), input.memory)) continue;
        owners_.push_back(input.memory);
        const Node& owner = w.node(input.memory);
        const bool named = owner.parameter && !owner.parameter->name.empty();
        names[input.memory] = {fmt::format("input {}, {}{}", k, owner.name, named ? " " + owner.parameter->name : ""),
                               owner.value.shape()};
      }
      // After the forward, as in the draws: the rule may be installed, and nothing has run it yet.
      contributions_ = run_alone(scope, index, upstream_of(y, index, rng), Memory::fresh, rng);
      for (Contribution& c : contributions_)  // what is not a number stands out by itself
        for (double& number : c.gradient.data<double>())
          if (!std::isfinite(number)) number = std::numeric_limits<double>::max();
      throw Seen();
    };
    on_a_tape([](ScopeState&, std::uint32_t) {}, recorded, [](ScopeState&) {});
  }

  void find_worst_element(std::uint32_t index, WrongOp& wrong) {
    std::map<std::uint32_t, std::pair<std::string, Shape>> names;
    take_apart(index, names);
    std::optional<std::uint32_t> worst_owner;
    double most = 0;
    for (const std::uint32_t owner : owners_) {
      const Tensor tangent = normal({names[owner].second.count()}, Rng(options_.seed).split("owner"));
      const double difference = sides(index, owner, [&](std::size_t i) { return tangent.data<double>()[i]; }).difference();
      if (difference > most) most = difference, worst_owner = owner;
    }
    if (!worst_owner) return;
    const auto [name, shape] = names[*worst_owner];
    const std::size_t element = worst_element(index, *worst_owner, static_cast<std::size_t>(shape.count()));
    const Sides both = sides(index, *worst_owner, [=](std::size_t i) { return i == element ? 1.0 : 0.0; });
    wrong.input = name;
    wrong.input_shape = shape;
    wrong.analytic = both.analytic;
    wrong.numeric = both.numeric;
    wrong.element.assign(static_cast<std::size_t>(shape.rank()), 0);
    auto left = static_cast<Index>(element);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      wrong.element[static_cast<std::size_t>(axis)] = left % shape[axis];
      left /= shape[axis];
    }
  }

  // The half with the larger difference, until it is few enough to look at one by one.
  std::size_t worst_element(std::uint32_t index, std::uint32_t owner, std::size_t count) {
    const auto within = [&](std::size_t begin, std::size_t end) {
      const Tensor signs = normal({static_cast<Index>(count)}, Rng(options_.seed).split("halves"));
      return sides(index, owner, [&](std::size_t i) {
               return i < begin || i >= end ? 0.0 : std::copysign(1.0, signs.data<double>()[i]);
             }).difference();
    };
    std::size_t begin = 0, end = count;
    while (end - begin > static_cast<std::size_t>(std::max<Index>(1, options_.elements))) {
      const std::size_t middle = begin + (end - begin) / 2;
      if (within(begin, middle) >= within(middle, end)) end = middle;
      else begin = middle;
    }
    std::size_t worst = begin;
    double most = -1;
    for (std::size_t k = begin; k < end; ++k) {
      const double difference = sides(index, owner, [=](std::size_t i) { return i == k ? 1.0 : 0.0; }).difference();
      if (difference > most) most = difference, worst = k;
    }
    return worst;
  }

  const Subject& subject_;
  const OpChecksOptions& options_;
  std::map<std::uint32_t, Finding> findings_;
  // Of the op that is taken apart.
  std::uint32_t wrong_root_ = 0;
  std::vector<std::uint32_t> owners_;
  std::vector<Contribution> contributions_;
};

// Random tangents, on all leaves or on some.
void draw(std::span<dual> numbers, Rng rng, bool some, bool wanted) {
  const bool none = !wanted || (some && Rng(rng.split("none")).uniform() < 0.5);
  for (dual& number : numbers) number.tangent = none ? 0 : rng.normal();
}

}  // namespace

OpChecks check_each_op(const std::function<Var()>& f, const ParameterList& parameters, const OpChecksOptions& options) {
  const Cast cast(parameters, DType::dual);
  const auto draw_tangents = [&](const Rng& rng, bool some) {
    std::uint64_t number = 0;
    for (const auto& p : parameters.states()) {
      ++p->version;
      draw({p->value.as<dual>(), static_cast<std::size_t>(p->value.count())}, rng.split(number++), some, p->trainable);
    }
  };
  return Inspection({draw_tangents, f}, options).run();
}

OpChecks check_each_op(const FunctionOfVars& f, std::span<const Tensor> inputs, const OpChecksOptions& options) {
  std::vector<Tensor> duals;
  for (const Tensor& input : inputs) duals.push_back(input.to(DType::dual));
  const auto draw_tangents = [&](const Rng& rng, bool some) {
    std::uint64_t number = 0;
    for (Tensor& input : duals) draw(input.data<dual>(), rng.split(number++), some, true);
  };
  const auto call = [&] {
    std::vector<Var> vars;
    for (const Tensor& input : duals) vars.push_back(variable(input));
    return f(vars);
  };
  return Inspection({draw_tangents, call}, options).run();
}

std::string WrongOp::text() const {
  std::string text = fmt::format("{} {}{}: its rule is not the derivative of its forward, off by {:.2g} of the terms", op,
                                 shape, Inspection::in_brackets(place), error);
  if (!input.empty())
    text += fmt::format("\n  worst at element [{}] of {} {}: the rule says {:.12g}, forward mode {:.12g} (ratio {:.6g})",
                        fmt::join(element, ", "), input, input_shape, analytic, numeric, analytic / numeric);
  return text;
}

std::string OpChecks::text() const {
  if (!failure.empty()) return "each op: " + failure;
  if (wrong.empty()) {
    if (error == 0) return fmt::format("each op: {} ops, all right, to rounding", ops);
    return fmt::format("each op: {} ops, all right, the worst off by {:.1e}: {}", ops, error, worst);
  }
  std::string text = fmt::format("each op: {} of {} ops wrong, first {}", wrong.size(), ops, wrong.front().text());
  for (std::size_t i = 1; i < wrong.size(); ++i)
    text += fmt::format("\n  also {} {}{}, by {:.2g}", wrong[i].op, wrong[i].shape,
                        Inspection::in_brackets(wrong[i].place), wrong[i].error);
  return text;
}

}  // namespace attune
