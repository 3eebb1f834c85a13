#include "attune/layers/leak.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <stdexcept>

#include "attune/autograd/op.h"
#include "attune/autograd/forward.h"
#include "attune/layers/tap.h"

namespace attune {
namespace {

// Which inputs each output of one sequence may see.
class Sight {
 public:
  Sight(const Mask& mask, Index entry, Index outputs, Index inputs, const LeakOptions& options)
      : outputs_(outputs), inputs_(inputs), sees_(static_cast<std::size_t>(outputs * inputs)) {
    const kernels::AttentionMask one = mask.visible(outputs, inputs);
    const std::optional<ConstView> allowed = allowed_for(one, entry);
    const Index length = one.lengths.empty() ? inputs : one.lengths[static_cast<std::size_t>(entry)];
    for (Index t = 0; t < outputs; ++t)
      for (Index s = 0; s < inputs; ++s) {
        const bool in_band = s >= t + one.first && s <= t + one.last && s < length;
        place(t, s) = (in_band && (!allowed || any_head(*allowed, t, s))) || (options.own && t == s);
      }
    if (options.layers > 1) check(outputs == inputs, "find_leaks: {} outputs of {} inputs have one layer", outputs, inputs);
    const std::vector<char> step = sees_;
    for (int layer = 1; layer < options.layers; ++layer) look_further(step);
  }

  bool operator()(Index t, Index s) const { return sees_[static_cast<std::size_t>(t * inputs_ + s)] != 0; }

 private:
  char& place(Index t, Index s) { return sees_[static_cast<std::size_t>(t * inputs_ + s)]; }

  // [H, L, S], or what stretches to it.
  std::optional<ConstView> allowed_for(const kernels::AttentionMask& mask, Index entry) const {
    if (!mask.allow) return std::nullopt;
    ConstView allowed = *mask.allow;
    check(allowed.rank() <= 4, "find_leaks: allow {} has more axes than [batch, heads, L, S]", allowed.shape());
    if (allowed.rank() == 4) allowed = allowed.select(0, allowed.size(0) == 1 ? 0 : entry);
    const Index heads = allowed.rank() == 3 ? allowed.size(0) : 1;
    return allowed.expand({heads, outputs_, inputs_});
  }
  static bool any_head(const ConstView& allowed, Index t, Index s) {
    for (Index head = 0; head < allowed.size(0); ++head)
      if (allowed.at({head, t, s}) != 0) return true;
    return false;
  }

  void look_further(const std::vector<char>& step) {
    const std::vector<char> before = sees_;
    const auto at = [&](const std::vector<char>& m, Index t, Index s) { return m[static_cast<std::size_t>(t * inputs_ + s)]; };
    for (Index t = 0; t < outputs_; ++t)
      for (Index s = 0; s < inputs_; ++s)
        for (Index between = 0; between < inputs_ && !place(t, s); ++between)
          place(t, s) = at(before, t, between) && at(step, between, s);
  }

  Index outputs_, inputs_;
  std::vector<char> sees_;
};

// A pass through the model, and the gradient of one place of its output.
struct Pass {
  Shape output;
  Tensor gradient;  // of what went in
};

class LeakTest {
 public:
  LeakTest(const std::function<Var(Var)>& f, const Tensor& x, const LeakOptions& options)
      : f_(f), x_(x), options_(options) {}

  // Of output (b, t), which is asked for a random sum of its numbers.
  Pass pass(Index b, Index t) {
    Rng random = Rng(options_.seed).split("dropout");
    Tape tape({.training = options_.training, .random = &random});
    std::optional<Var> leaf;
    const Var y = run(leaf);
    check(leaf.has_value(), "find_leaks: no tap named residual shows what the model makes of its tokens");
    check(y.rank() >= 2 && leaf->rank() >= 2 && y.size(0) == leaf->size(0),
          "find_leaks: an output {} and an input {} are not [batch, time, ...]", y.shape(), leaf->shape());
    Tensor seed(y.shape(), y.dtype());
    const View place = seed.view().select(0, b).select(0, t);
    Rng weights = Rng(options_.seed).split("output");
    Tensor numbers(place.shape(), y.dtype());
    fill_normal(numbers, weights);
    kernels::copy(place, numbers);
    tape.backward(y, seed, {.spare_parameters = true});
    return {y.shape(), leaf->has_grad() ? values_of(leaf->grad()) : Tensor(leaf->shape(), f64)};
  }

 private:
  Var run(std::optional<Var>& leaf) const {
    if (is_float(x_.dtype())) {
      leaf = variable(x_);
      return f_(*leaf);
    }
    const Observer first([&](const TapPoint& at) {
      if (at.name != "residual" || leaf) return at.value;
      leaf = variable(Tensor::copy_of(at.value.value()));
      return *leaf;
    });
    return f_(x_);
  }

  const std::function<Var(Var)>& f_;
  const Tensor& x_;
  const LeakOptions& options_;
};

// A NaN counts as infinite.
double largest(const ConstView& x) {
  const Tensor numbers = Tensor::copy_of(x);
  double most = 0;
  for (const double number : numbers.data<double>()) {
    const double size = std::isnan(number) ? HUGE_VAL : std::abs(number);
    if (size > most) most = size;
  }
  return most;
}

}  // namespace

LeakReport find_leaks(const std::function<Var(Var)>& f, const Tensor& x, const Mask& mask, const LeakOptions& options) {
  LeakTest test(f, x, options);
  LeakReport report;
  report.mask = mask.text();
  const Shape output = test.pass(0, 0).output;
  for (Index b = 0; b < output[0]; ++b) {
    for (Index t = 0; t < output[1]; ++t) {
      const Pass pass = test.pass(b, t);
      const Index inputs = pass.gradient.size(1);
      const Sight sees(mask, b, output[1], inputs, options);
      for (Index other = 0; other < output[0]; ++other)
        for (Index s = 0; s < inputs; ++s) {
          const LeakPair pair{b, t, other, s, largest(pass.gradient.view().select(0, other).select(0, s))};
          const bool visible = other == b && sees(t, s);
          ++(visible ? report.visible : report.hidden);
          if (visible && pair.gradient == 0) report.blind.push_back(pair);
          if (!visible && pair.gradient != 0) report.leaks.push_back(pair);
        }
    }
  }
  return report;
}

void assert_no_leak(const std::function<Var(Var)>& f, const Tensor& x, const Mask& mask, const LeakOptions& options) {
  const LeakReport report = find_leaks(f, x, mask, options);
  if (!report) throw std::logic_error(report.text());
}

void assert_no_leak(const Gpt& model, const Mask& mask, const LeakOptions& options) {
  Tensor tokens({2, model.options.context}, i32);
  Rng rng = Rng(options.seed).split("tokens");
  for (std::int32_t& token : tokens.data<std::int32_t>()) token = static_cast<std::int32_t>(rng.below(model.options.vocab));
  LeakOptions whole = options;
  whole.layers = std::max(whole.layers, model.options.layers);
  assert_no_leak([&](Var ids) { return model(ids); }, tokens, mask, whole);
}

std::string LeakReport::text() const {
  const auto line = [](const LeakPair& p) {
    const std::string of = fmt::format("output {} of sequence {}", p.output, p.of);
    const std::string in = p.in == p.of ? fmt::format("input {}", p.input)
                                        : fmt::format("input {} of another, {}", p.input, p.in);
    return fmt::format("{} and {}", of, in);
  };
  if (passed())
    return fmt::format("no leak: of {} hidden pairs of places all gradients are exactly 0, of {} visible ones none is "
                       "(mask: {})",
                       hidden, visible, mask);
  std::string text;
  if (!leaks.empty())
    text += fmt::format("leak: {} of {} pairs that the mask {} hides have a gradient, first {}: {:.3g}", leaks.size(), hidden,
                        mask, line(leaks.front()), leaks.front().gradient);
  if (!blind.empty())
    text += fmt::format("{}blind: {} of {} pairs that the mask {} shows have no gradient, first {}", text.empty() ? "" : "\n",
                        blind.size(), visible, mask, line(blind.front()));
  return text;
}

}  // namespace attune
