#include "attune/layers/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "attune/lib/math.h"

namespace attune {
namespace {

std::vector<double> numbers_of(const ConstView& logits) {
  check(logits.rank() == 1 && logits.count() > 0, "sample: logits of {} are not [vocabulary]", logits.shape());
  std::vector<double> numbers;
  for (Index i = 0; i < logits.count(); ++i) numbers.push_back(logits.at({i}));
  return numbers;
}

void check_logits(const std::vector<double>& logits) {
  double most = -HUGE_VAL;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    check(!(logits[i] != logits[i]), "sample: logit {} is NaN", i);
    most = std::max(most, logits[i]);
  }
  check(most > -HUGE_VAL, "sample: all {} logits are -inf", logits.size());
  check(most < HUGE_VAL, "sample: a logit is inf");
}

void check_options(const SampleOptions& o) {
  check(o.temperature >= 0 && o.temperature < HUGE_VAL, "sample: a temperature of {} is not a finite number of at least 0",
        o.temperature);
  check(o.top_k >= 0, "sample: top_k is {}; 0 stands for all", o.top_k);
  check(o.top_p > 0 && o.top_p <= 1, "sample: top_p is {}, and lies above 0 and up to 1", o.top_p);
}

// Token numbers from the largest logit to the least, the first of equals first.
std::vector<std::int32_t> ranked(const std::vector<double>& logits) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return at(a) > at(b); });
  return order;
}

// How many of the weights, the largest first, are needed to reach a share of their sum.
std::size_t nucleus(std::span<const double> weights, double share) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (sum >= share * all) return i + 1;
  }
  return weights.size();
}

// The last `context` of the tokens, as a batch of one.
Tensor window(std::span<const std::int32_t> tokens, Index context) {
  const auto count = std::min(tokens.size(), static_cast<std::size_t>(context));
  Tensor batch({1, static_cast<Index>(count)}, i32);
  const auto last = tokens.last(count);
  std::copy(last.begin(), last.end(), batch.data<std::int32_t>().begin());
  return batch;
}

ConstView last_logits(Var logits) { return logits.value().select(0, 0).select(0, -1); }

// A model and what it has read.
class Reader {
 public:
  explicit Reader(const Gpt& model) : model_(model), cache_(model.cache()) {}

  // Calls use(logits) of what follows the tokens, of which the model reads those that it has not.
  template <class F>
  std::int32_t after(std::span<const std::int32_t> tokens, F&& use) {
    const NoGrad scope;
    const Index context = model_.options.context;
    if (static_cast<Index>(tokens.size()) > context) return use(last_logits(model_(window(tokens, context))));
    const auto unread = tokens.subspan(static_cast<std::size_t>(cache_.length()));
    return use(last_logits(model_(window(unread, context), cache_)));
  }

 private:
  const Gpt& model_;
  GptCache cache_;
};

}  // namespace

std::int32_t sample(const ConstView& view, const SampleOptions& options, Rng& rng) {
  check_options(options);
  const std::vector<double> logits = numbers_of(view);
  check_logits(logits);
  std::vector<std::int32_t> order = ranked(logits);
  if (options.temperature == 0) return order.front();
  if (options.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(options.top_k)));
  const double most = logits[static_cast<std::size_t>(order.front())];
  std::vector<double> weights;
  for (const std::int32_t id : order)
    weights.push_back(math::exp((logits[static_cast<std::size_t>(id)] - most) / options.temperature));
  weights.resize(nucleus(weights, options.top_p));
  const double target = rng.uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (target < sum) return order[i];
  }
  return order[weights.size() - 1];
}

std::vector<std::int32_t> generate(const Gpt& model, std::span<const std::int32_t> prompt,
                                   const GenerateOptions& options, Rng& rng) {
  check(!prompt.empty(), "generate: the prompt is empty");
  check(options.tokens >= 0, "generate: {} tokens", options.tokens);
  Reader reader(model);
  std::vector<std::int32_t> all(prompt.begin(), prompt.end());
  for (Index i = 0; i < options.tokens; ++i) {
    const std::int32_t next =
        reader.after(all, [&](const ConstView& logits) { return sample(logits, options.sampling, rng); });
    if (std::count(options.stop.begin(), options.stop.end(), next) > 0) break;
    all.push_back(next);
    if (options.each) options.each(next);
  }
  return std::vector<std::int32_t>(all.begin() + static_cast<std::ptrdiff_t>(prompt.size()), all.end());
}

}  // namespace attune
