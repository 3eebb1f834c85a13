#include "attune/layers/attention.h"

#include <vector>

#include "attune/autograd/ops/detach.h"
#include "attune/autograd/ops/mul.h"
#include "attune/layers/composed_attention.h"
#include "attune/lib/kernels/dropout.h"
#include "attune/lib/kernels/masked.h"
#include "attune/lib/math.h"

namespace attune {
namespace {
constinit thread_local AttentionListener* innermost_listener = nullptr;
}  // namespace

AttentionListener::AttentionListener(Hear hear) : hear_(std::move(hear)), outer_(innermost_listener) {
  innermost_listener = this;
}

AttentionListener::~AttentionListener() { innermost_listener = outer_; }

Var detail::AttentionCall::heard(Var y) const {
  for (const AttentionListener* listener = innermost_listener; listener; listener = listener->outer_)
    listener->hear_(*this, y);
  return y;
}

View detail::swap_heads(const View& x) {
  int order[kMaxRank] = {0, 1, 2, 3, 4, 5};
  std::swap(order[x.rank() - 2], order[x.rank() - 3]);
  return x.permute(std::span(order).first(static_cast<std::size_t>(x.rank())));
}

kernels::Attention detail::AttentionCall::values() const {
  kernels::Attention a{.q = q.value(),
                       .k = k.value(),
                       .v = v.value(),
                       .scale = scale,
                       .softcap = softcap,
                       .mask = mask,
                       .dropout = dropout};
  if (bias) a.bias = bias->value();
  if (sinks) a.sinks = sinks->value();
  return a;
}

// Of what is not there, q takes the place.
std::array<Var, 5> detail::AttentionCall::inputs() const { return {q, k, v, bias.value_or(q), sinks.value_or(q)}; }

namespace {

using detail::AttentionCall;

Shape shape_of_scores(const AttentionCall& call) {
  Shape shape = call.q.shape();
  shape[shape.rank() - 1] = call.k.size(-2);
  return shape;
}

Shape shape_of_rows(const AttentionCall& call) {
  return Shape(std::span(call.q.shape().begin(), call.q.shape().end() - 1));
}

// [2, ..., Hq, L]: what the kernel keeps of each row.
Shape shape_of_statistics(const AttentionCall& call) {
  Shape shape{2};
  for (const Index size : shape_of_rows(call)) shape.append(size);
  return shape;
}

// The result, still without its numbers: in memory as [..., L, Hq, dv].
Var result_of(const AttentionCall& call) {
  Shape shape = call.q.shape();
  const int rank = shape.rank();
  shape[rank - 1] = call.v.size(-1);
  if (rank < 3) return output(shape, call.inputs());
  std::swap(shape[rank - 2], shape[rank - 3]);
  return view_of("attention", output(shape, call.inputs()), detail::swap_heads);
}

Var fused_attention(const AttentionCall& call, const View& statistics) {
  const Var y = result_of(call);
  kernels::attention(into(y), statistics, call.values());
  return record("attention", y, [=] {
    const auto [dq, dk, dv] = add_to(call.q, call.k, call.v);
    kernels::AttentionGradients gradients{dq, dk, dv};
    if (call.bias && call.bias->needs_grad()) gradients.dscores = scratch(shape_of_scores(call), y.dtype());
    if (call.sinks && call.sinks->needs_grad()) gradients.dsinks = scratch(shape_of_rows(call), y.dtype());
    kernels::attention_backward(gradients, y.grad(), y.value(), statistics, call.values());
    if (gradients.dscores)
      if (Out d = add_to(*call.bias)) kernels::sum(d, *gradients.dscores);  // dbias, summed where it was stretched
    if (gradients.dsinks)
      if (Out d = add_to(*call.sinks))  // dsinks, summed over the batch and the queries
        kernels::sum(Out(d.view.reshape({d.view.count(), 1}), d.accumulate), *gradients.dsinks);
  });
}

View statistics_of(const AttentionCall& call) { return saved(shape_of_statistics(call), call.q.dtype()); }

Tensor log_sum_exp_of(const AttentionCall& call, const View& statistics) {
  Tensor result(shape_of_rows(call), call.q.dtype());
  kernels::log(result, statistics.select(0, 1));
  kernels::add(result, result, statistics.select(0, 0));
  return result;
}

// What the taps show, and whether an observer put something else in its place: then nothing but this can go on, nor
// where no kernel does the whole.
struct Watched {
  Var scores, masked, weights;
  bool replaced_scores, replaced_weights;

  bool goes_on(const AttentionCall& call) const {
    return replaced_scores || replaced_weights || !call.is_softmax();
  }
};

Watched show(const AttentionCall& call) {
  const Var scores = detail::attention_scores(call);
  const Var shown_scores = tap("scores", scores);
  const Var masked = detail::masked_scores(call, shown_scores);
  const Var weights = detail::attention_weights(call, masked);
  const Var shown_weights = tap("weights", weights);
  return {shown_scores, masked, shown_weights, !(shown_scores == scores), !(shown_weights == weights)};
}

Var weigh(const AttentionCall& call, const Watched& watched) {
  return detail::weigh(call, watched.weights,
                       watched.replaced_weights ? std::optional<Var>() : std::optional<Var>(watched.masked));
}

// factor ln n of each row [..., Hq, L, 1], n how many keys the mask lets it see; 0 where it sees none.
Var factor_log_keys(const AttentionCall& call, double factor) {
  Shape shape = shape_of_rows(call);
  const View counts = saved(shape, i32);
  kernels::visible_keys(counts, call.mask, shape_of_scores(call));
  shape.append(1);
  const View logs = saved(shape, call.q.dtype());
  thread_local std::vector<double> known{0, 0};  // ln n by n
  while (static_cast<Index>(known.size()) <= call.k.size(-2))
    known.push_back(math::log(static_cast<double>(known.size())));
  visit(logs.dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, std::int32_t>)
      for (Index row = 0; row < counts.count(); ++row) {
        const double number = factor * known[static_cast<std::size_t>(counts.as<std::int32_t>()[row])];
        if constexpr (std::is_same_v<T, dual>)
          logs.as<T>()[row] = {number, 0};
        else
          logs.as<T>()[row] = static_cast<T>(number);
      }
  });
  return constant_of("visible_keys", logs);
}

void add_normalizer(AttentionCall& call, const AttentionOptions& options) {
  call.normalizer = options.normalizer;
  if (options.normalizer == Normalizer::sigmoid) {
    check(!options.sinks, "attention: sigmoid has no sum in which sinks could take part");
    call.less_log_keys = factor_log_keys(call, -1);
  }
  if (options.normalizer == Normalizer::softmax1) {
    check(!options.sinks, "attention: softmax1 is a sink of score 0, and cannot have others");
    const View zero = saved({call.q.rank() >= 3 ? call.q.size(-3) : 1}, call.q.dtype());
    kernels::fill(zero, 0);
    call.sinks = constant_of("sink", zero);
  }
}

}  // namespace

const char* name_of(Normalizer normalizer) {
  constexpr const char* names[] = {"softmax", "softmax1", "sigmoid", "sparsemax", "entmax15"};
  return names[static_cast<int>(normalizer)];
}

void detail::check_numbers(double softcap, double dropout) {
  check(softcap >= 0, "attention: a softcap of {} is below 0", softcap);
  check(dropout >= 0 && dropout <= 1, "attention: a dropout of {} is not between 0 and 1", dropout);
}

AttentionCall detail::prepare_attention(Var q, Var k, Var v, const AttentionOptions& options,
                                        std::source_location where) {
  for (const Var& x : {q, k, v, options.bias.value_or(q), options.sinks.value_or(q)}) x.value(where);  // is alive
  const Index queries = q.rank() >= 2 ? q.size(-2) : 0, keys = k.rank() >= 2 ? k.size(-2) : 0;
  AttentionCall call{.q = q,
                     .k = k,
                     .v = v,
                     .scale = options.scale(q.rank() >= 1 ? q.size(-1) : 1),
                     .softcap = options.softcap,
                     .bias = options.bias,
                     .sinks = options.sinks,
                     .mask = options.mask.visible(queries, keys),
                     .dropout = {}};
  kernels::check_attention(call.values());
  check_numbers(options.softcap, options.dropout);
  // The mask may be gone when backward comes.
  call.mask.lengths = saved(call.mask.lengths);
  if (const Tensor* allowed = options.mask.allowed()) {
    const Var kept = *allowed;
    call.mask.allow = kept.value();
  }
  if (const std::optional<Var> learned = options.scale.learned()) {
    check(broadcasts_to(learned->shape(), q.shape()), "attention: scale {} does not stretch to q {}", learned->shape(),
          q.shape());
    call.q = mul(q, *learned);
  }
  if (options.dropout > 0 && is_training()) call.dropout = kernels::dropout_mask(draw_stream(where), options.dropout);
  if (options.ssmax) call.q = mul(call.q, factor_log_keys(call, 1));
  if (!(call.q == q)) call.given_q = q;
  add_normalizer(call, options);
  return call;
}

Var attention(Var q, Var k, Var v, const AttentionOptions& options) {
  const AttentionCall call = detail::prepare_attention(q, k, v, options);
  if (is_watched() || !call.is_softmax())
    if (const Watched watched = show(call); watched.goes_on(call)) return call.heard(weigh(call, watched));
  return call.heard(fused_attention(call, statistics_of(call)));
}

AttentionResult attention_with_weights(Var q, Var k, Var v, const AttentionOptions& options) {
  const AttentionCall call = detail::prepare_attention(q, k, v, options);
  if (is_watched() || !call.is_softmax())
    if (const Watched watched = show(call); watched.goes_on(call)) {
      Tensor log_sum_exp(shape_of_rows(call), q.dtype());
      kernels::log_sum_exp(log_sum_exp, watched.masked.value());
      const Var y = call.heard(weigh(call, watched));
      const Var weights = detach(watched.weights);
      return {y, weights, std::move(log_sum_exp)};
    }
  const View statistics = statistics_of(call);
  const Var y = call.heard(fused_attention(call, statistics));
  Tensor weights(shape_of_scores(call), q.dtype());
  kernels::attention_weights(weights, statistics, call.values());
  const Var shown = std::move(weights);
  return {y, shown, log_sum_exp_of(call, statistics)};
}

}  // namespace attune
