#include "attune/layers/saturation/meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>

#include "attune/autograd/checkpoint.h"
#include "attune/layers/saturation/attention_rows.h"
#include "attune/layers/saturation/normalizer_rows.h"
#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/kernels/gemm.h"
#include "attune/lib/math.h"
#include "attune/lib/threads.h"

namespace attune {

using detail::ScoreChange;

namespace {

// What is kept of each row, in this order.
enum Field {
  kEntropy,
  kEffective,
  kParticipation,
  kMaxWeight,
  kRest,
  kDeviation,
  kLogitMax,
  kLogitGap,
  kTrace,
  kFrobenius,
  kSpectral,
  kKeys,
  kSink,
  kOutputSquares,
  kWeightSquares,
  kScoreSquares,
  kQuerySquares,
  kFields
};
constexpr double kNone = HeadReading::kNone;

// Attention's tap may hold numbers of any float type; a norm is in double.
double squared_norm(const ConstView& x) {
  double total = 0;
  visit(x.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
      for (Index i = 0; i < x.size(0); ++i) {
        const T* row = x.as<T>() + i * x.stride(0);
        for (Index j = 0; j < x.size(1); ++j) {
          const auto number = static_cast<double>(row[j * x.stride(1)]);
          total += number * number;
        }
      }
    else if constexpr (std::is_same_v<T, dual>)
      for (Index i = 0; i < x.size(0); ++i)
        for (Index j = 0; j < x.size(1); ++j) total += x.at({i, j}) * x.at({i, j});
  });
  return total;
}

void copy_as_f64(const View& to, const ConstView& x) {
  double* next = to.as<double>();
  visit(x.dtype(), [&]<class T>() {
    for (Index i = 0; i < x.size(0); ++i)
      for (Index j = 0; j < x.size(1); ++j) {
        const T number = x.as<T>()[i * x.stride(0) + j * x.stride(1)];
        if constexpr (std::is_same_v<T, dual>)
          *next++ = number.value;
        else
          *next++ = static_cast<double>(number);
      }
  });
}

// Matrices that are made anew for each head, in memory that stays.
class Scratch {
 public:
  View matrix(std::size_t which, Index rows, Index columns) {
    std::vector<double>& memory = memory_[which];
    if (const auto needed = static_cast<std::size_t>(rows * columns); memory.size() < needed) memory.resize(needed);
    return View(memory.data(), {rows, columns}, f64);
  }

 private:
  std::vector<double> memory_[9];
};

// sigma_1(A Bᵀ) for A, B [C, d]: the root of the largest eigenvalue of M = (Aᵀ A)(Bᵀ B). Power iteration
// whose number of steps doubles: M is squared ten times, which makes 1024.
double largest_singular_value(Scratch& scratch, const ConstView& a_view, const ConstView& b_view) {
  const Index rows = a_view.size(0), d = a_view.size(1);
  const View a = scratch.matrix(0, rows, d), b = scratch.matrix(1, rows, d);
  const View aa = scratch.matrix(2, d, d), bb = scratch.matrix(3, d, d), m = scratch.matrix(4, d, d);
  View power = scratch.matrix(5, d, d), square = scratch.matrix(6, d, d);
  copy_as_f64(a, a_view);
  copy_as_f64(b, b_view);
  kernels::gemm(aa, a.t(), a);
  kernels::gemm(bb, b.t(), b);
  kernels::gemm(m, aa, bb);
  kernels::copy(power, m);
  for (int doubling = 0; doubling < 10; ++doubling) {
    const double norm = std::sqrt(squared_norm(power));
    if (!(norm > 0) || !std::isfinite(norm)) return norm;
    kernels::scale(power, power, 1 / norm);
    kernels::gemm(square, power, power);
    std::swap(power, square);
  }
  const View start = scratch.matrix(0, d, 1), x = scratch.matrix(7, d, 1), y = scratch.matrix(8, d, 1);
  for (Index i = 0; i < d; ++i) start.as<double>()[i] = 1 + math::sin(static_cast<double>(i + 1)) / 2;
  kernels::gemm(x, power, start);
  kernels::gemm(y, m, x);
  return std::sqrt(std::sqrt(squared_norm(y) / squared_norm(x)));
}

// Of numbers in any order, which it changes. None: zeros.
Spread spread_of(std::span<double> x) {
  if (x.empty()) return {};
  Spread spread;
  for (const double e : x) {
    spread.mean += e / static_cast<double>(x.size());
    if (std::isnan(e)) return {kNone, kNone, kNone, kNone};
  }
  const auto quantile = [&](double q) {  // between the two nearest in proportion
    const double place = q * static_cast<double>(x.size() - 1), whole = std::floor(place);
    const auto at = x.begin() + static_cast<std::ptrdiff_t>(whole);
    std::nth_element(x.begin(), at, x.end());
    const double low = *at, high = at + 1 == x.end() ? low : *std::min_element(at + 1, x.end());
    return low + (place - whole) * (high - low);
  };
  spread.median = quantile(0.5);
  spread.p10 = quantile(0.1);
  spread.p90 = quantile(0.9);
  return spread;
}

// Whether full is "path.name", or "name" where there is no path.
bool is_named(std::string_view full, std::string_view path, std::string_view name) {
  if (path.empty()) return full == name;
  return full.size() == path.size() + 1 + name.size() && full.starts_with(path) && full[path.size()] == '.' &&
         full.ends_with(name);
}

// The number of the layer: the last one in "blocks.2.attention"; else nothing.
std::string layer_of(const std::string& path) {
  const auto end = path.find_last_of("0123456789");
  if (end == std::string::npos) return path.empty() ? "attention" : path;
  auto begin = end;
  while (begin > 0 && path[begin - 1] >= '0' && path[begin - 1] <= '9') --begin;
  return "layer " + path.substr(begin, end - begin + 1);
}

}  // namespace

struct AttentionMeter::Call {
  std::size_t path;  // in paths_
  Index number;
  kernels::Attention call;  // plain views: they may be read on any thread
  Normalizer normalizer;
  Var q, k, y;
  bool with_gradient;
  std::optional<ConstView> dy;
};

// One head's rows, field by field.
struct AttentionMeter::Rows {
  Index count = 0;
  std::vector<double> numbers[kFields];
  std::vector<double> picked;
  Scratch scratch;

  void resize(Index rows) {
    count = rows;
    for (auto& field : numbers) field.assign(static_cast<std::size_t>(rows), 0);
  }
  // Of the rows that see two keys or more.
  template <class F>
  std::span<double> pick(Field field, F&& change) {
    picked.clear();
    for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row)
      if (numbers[kKeys][row] >= 2) picked.push_back(change(numbers[field][row]));
    return picked;
  }
  std::span<double> pick(Field field) {
    return pick(field, [](double x) { return x; });
  }
  double sum(Field field) const {
    double total = 0;
    for (const double x : numbers[field]) total += x;
    return total;
  }
};

double HeadReading::freezing_point() const { return std::sqrt(2 * math::log(std::max(1.0, keys))); }

AttentionMeter::AttentionMeter(const MeterOptions& options)
    : options_(options), rows_(std::make_unique<Rows>()) {}
AttentionMeter::AttentionMeter(const ParameterList& parameters, const MeterOptions& options)
    : AttentionMeter(options) {
  parameters_ = parameters.states();
}
AttentionMeter::~AttentionMeter() = default;

AttentionMeter::Watch::Watch(AttentionMeter& meter, Index step) : meter_(meter) {
  if (!meter.measures(step)) return;
  meter.step_ = step;
  meter.calls_.clear();
  meter.reading_count_ = 0;
  listener_.emplace([&meter](const detail::AttentionCall& call, Var y) { meter.hear(call, y); });
}

void AttentionMeter::Watch::read() {
  if (!listener_) return;
  listener_.reset();
  meter_.read();
}

AttentionMeter::Watch::~Watch() { meter_.calls_.clear(); }

namespace {
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};
}  // namespace

void AttentionMeter::hear(const detail::AttentionCall& call, Var y) {
  if (is_recomputing()) return;
  const Stopwatch stopwatch(seconds_);
  const std::size_t place = calls_.size();
  if (place == paths_.size()) paths_.emplace_back();  // they stay for the next step
  current_path(paths_[place]);
  const Index number =
      std::count_if(calls_.begin(), calls_.end(), [&](const Call& c) { return paths_[c.path] == paths_[place]; });
  calls_.push_back(
      {place, number, call.values(), call.normalizer, call.given_q.value_or(call.q), call.k, y, y.needs_grad(), {}});
  if (y.needs_grad()) {
    for (const Var x : {y, calls_.back().q, call.k})
      if (x.needs_grad()) keep_grad(x);
  } else {
    measure(calls_.back());  // its scope may end before read()
  }
}

void AttentionMeter::read() {
  const Stopwatch stopwatch(seconds_);
  ++measured_steps_;
  for (Call& call : calls_)
    if (call.with_gradient) {
      if (call.y.has_grad()) call.dy = call.y.grad();
      measure(call);
    }
  readings_.resize(reading_count_);
  calls_.clear();
}

HeadReading& AttentionMeter::next_reading() {
  if (reading_count_ == readings_.size()) readings_.emplace_back();
  HeadReading& reading = readings_[reading_count_++];
  std::string path = std::move(reading.path);  // keeps its memory
  reading = HeadReading{};
  reading.path = std::move(path);
  return reading;
}

void AttentionMeter::measure(const Call& call) {
  for (Index head = 0; head < detail::heads_of(call.call); ++head) {
    HeadReading& reading = next_reading();
    reading.step = step_;
    reading.path = paths_[call.path];
    reading.call = call.number;
    reading.head = head;
    read_rows(call, head, reading);
    if (call.dy) read_gradients(call, head, reading);
    read_weights(call, head, reading);
    if (reading.dead >= options_.alarm && reading.deviation.median > reading.freezing_point())
      read_repairs(call, head, reading);
  }
}

namespace {

// What one row says, into element `at` of each field.
void note_row(std::vector<double>* fields, std::size_t at, const detail::AttentionRow& row,
              Normalizer normalizer, std::span<double> weights) {
  const RowStatistics s = row_statistics(row.scores, normalizer, weights);
  fields[kEntropy][at] = s.normalized_entropy();
  fields[kEffective][at] = s.entropy;  // its exp later, of all rows at once
  fields[kParticipation][at] = s.participation();
  fields[kMaxWeight][at] = s.max_weight;
  fields[kRest][at] = s.rest;
  fields[kDeviation][at] = s.logit_deviation;
  fields[kLogitMax][at] = s.logit_max;
  fields[kLogitGap][at] = s.logit_gap;
  fields[kTrace][at] = s.trace;
  fields[kFrobenius][at] = s.frobenius;
  fields[kSpectral][at] = s.spectral;
  fields[kKeys][at] = static_cast<double>(s.keys);
  if (row.query >= 4 && !weights.empty()) fields[kSink][at] = weights[0];
}

// dL/ds = p (g - p·g), g = dL/dp.
void note_slopes(std::vector<double>* fields, std::size_t at, const detail::AttentionRow& row,
                 Normalizer normalizer, std::span<const double> weights) {
  thread_local std::vector<double> slopes;
  slopes.resize(weights.size());
  apply_jacobian(slopes, weights, row.weight_slopes, normalizer);
  double weight_squares = 0, score_squares = 0;
  for (std::size_t j = 0; j < weights.size(); ++j) {
    if (std::isfinite(row.scores[j])) weight_squares += row.weight_slopes[j] * row.weight_slopes[j];
    score_squares += slopes[j] * slopes[j];
  }
  fields[kWeightSquares][at] = weight_squares;
  fields[kScoreSquares][at] = score_squares;
}

}  // namespace

void AttentionMeter::read_rows(const Call& call, Index head, HeadReading& reading) {
  const Index queries = call.call.q.size(-2), keys = call.call.k.size(-2),
              entries = detail::entries_of(call.call);
  Rows& rows = *rows_;
  rows.resize(entries * queries);
  const Index step = std::min(detail::rows_per_block(keys), std::max<Index>(queries, 1));
  const Index blocks = (queries + step - 1) / step;
  const ConstView* dy = call.dy ? &*call.dy : nullptr;
  parallel_for(entries * blocks, 1, [&](Index first, Index last) {
    for (Index item = first; item < last; ++item) {
      const Index entry = item / blocks, begin = item % blocks * step, end = std::min(queries, begin + step);
      detail::each_attention_row(call.call, {entry, head}, begin, end, dy, {},
                                 [&](const detail::AttentionRow& row) {
                                   const auto at = static_cast<std::size_t>(entry * queries + row.query);
                                   thread_local std::vector<double> weights;
                                   weights.resize(row.scores.size());
                                   note_row(rows.numbers, at, row, call.normalizer, weights);
                                   if (dy) note_slopes(rows.numbers, at, row, call.normalizer, weights);
                                 });
    }
  });

  reading.keys = spread_of(rows.pick(kKeys)).median;
  reading.rows = static_cast<Index>(rows.picked.size());
  reading.entropy = spread_of(rows.pick(kEntropy));
  reading.effective_keys =
      spread_of(rows.pick(kEffective, [](double entropy) { return math::exp(entropy); }));
  reading.participation = spread_of(rows.pick(kParticipation));
  reading.max_weight = spread_of(rows.pick(kMaxWeight));
  reading.rest = spread_of(rows.pick(kRest));
  reading.deviation = spread_of(rows.pick(kDeviation));
  reading.logit_max = spread_of(rows.pick(kLogitMax));
  reading.logit_gap = spread_of(rows.pick(kLogitGap));
  reading.trace = spread_of(rows.pick(kTrace));
  reading.spectral = spread_of(rows.pick(kSpectral));
  reading.frobenius = spread_of(rows.pick(kFrobenius));
  const auto dead =
      std::count_if(rows.picked.begin(), rows.picked.end(), [&](double x) { return x < options_.dead; });
  if (reading.rows > 0) reading.dead = static_cast<double>(dead) / static_cast<double>(reading.rows);
  const Index late = entries * std::max<Index>(0, queries - 4);
  if (late > 0) reading.sink_mass = rows.sum(kSink) / static_cast<double>(late);
}

void AttentionMeter::read_gradients(const Call& call, Index head, HeadReading& reading) {
  const Index heads = detail::heads_of(call.call), entries = detail::entries_of(call.call);
  const auto norm = [&](const ConstView& gradient) {
    double squares = 0;
    for (Index entry = 0; entry < entries; ++entry)
      squares += squared_norm(detail::matrix_of(gradient, {entry, head}, heads));
    return std::sqrt(squares);
  };
  reading.output_gradient = norm(*call.dy);
  reading.weights_gradient = std::sqrt(rows_->sum(kWeightSquares));
  reading.scores_gradient = std::sqrt(rows_->sum(kScoreSquares));
  if (call.k.has_grad()) reading.key_gradient = norm(call.k.grad());
  if (!call.q.has_grad()) return;
  const ConstView dq = call.q.grad();
  const Index queries = call.call.q.size(-2);
  for (Index entry = 0; entry < entries; ++entry) {
    const ConstView matrix = detail::matrix_of(dq, {entry, head}, heads);
    for (Index i = 0; i < queries; ++i)
      rows_->numbers[kQuerySquares][static_cast<std::size_t>(entry * queries + i)] =
          squared_norm(matrix.slice(0, i, i + 1));
  }
  reading.query_gradient = std::sqrt(rows_->sum(kQuerySquares));
  reading.row_query_gradient = spread_of(rows_->pick(kQuerySquares, [](double x) { return std::sqrt(x); }));
}

void AttentionMeter::read_weights(const Call& call, Index head, HeadReading& reading) {
  const std::string& path = paths_[call.path];
  const auto find = [&](std::string_view name) -> const detail::ParameterState* {
    for (const auto& state : parameters_)
      if (is_named(state->name, path, name)) return state.get();
    return nullptr;
  };
  const Index width = call.call.q.size(-1), heads = detail::heads_of(call.call);
  const Index key_heads = call.call.k.rank() >= 3 ? call.call.k.size(-3) : 1;
  const Index query_columns = heads * width, value_columns = key_heads * call.call.v.size(-1);
  const Index key_columns = key_heads * width, key_head = head / (heads / key_heads);
  const detail::ParameterState *queries = find("qkv.weight"), *keys = queries;
  Index query_total = query_columns + key_columns + value_columns, key_total = query_total,
        first_key = query_columns;
  if (!queries) {
    queries = find("query.weight"), keys = find("key_value.weight");
    query_total = query_columns, key_total = key_columns + value_columns, first_key = 0;
  }
  if (!queries || !keys || queries->value.rank() != 2 || keys->value.rank() != 2) return;
  if (queries->value.size(1) != query_total || keys->value.size(1) != key_total) return;
  const auto columns = [&](const ConstView& matrix, Index begin) {
    return matrix.slice(1, begin, begin + width);
  };
  const Index query_begin = head * width, key_begin = first_key + key_head * width;
  if (queries->value.size(0) == keys->value.size(0))
    reading.w_qk_norm =
        largest_singular_value(rows_->scratch, columns(queries->value, query_begin), columns(keys->value, key_begin));
  if (call.dy && queries->has_gradient)
    reading.w_q_gradient = std::sqrt(squared_norm(columns(queries->gradient, query_begin)));
  if (call.dy && keys->has_gradient)
    reading.w_k_gradient = std::sqrt(squared_norm(columns(keys->gradient, key_begin)));
}

void AttentionMeter::read_repairs(const Call& call, Index head, HeadReading& reading) {
  const Index queries = call.call.q.size(-2), entries = detail::entries_of(call.call);
  const auto imagine = [&](const ScoreChange& change) {
    Rows& rows = *rows_;
    rows.resize(entries * queries);
    parallel_for(entries, 1, [&](Index first, Index last) {
      for (Index entry = first; entry < last; ++entry)
        detail::each_attention_row(
            call.call, {entry, head}, 0, queries, nullptr, change, [&](const detail::AttentionRow& row) {
              note_row(rows.numbers, static_cast<std::size_t>(entry * queries + row.query), row,
                       call.normalizer, {});
            });
    });
    Counterfactual what{.entropy = spread_of(rows.pick(kEntropy)).median,
                        .dead = 0,
                        .deviation = spread_of(rows.pick(kDeviation)).median};
    const auto frobenius = rows.pick(kFrobenius);
    const auto dead =
        std::count_if(frobenius.begin(), frobenius.end(), [&](double x) { return x < options_.dead; });
    what.dead = static_cast<double>(dead) / static_cast<double>(std::max<std::size_t>(1, frobenius.size()));
    return what;
  };
  const double sigma = reading.deviation.median;
  reading.gain = 1 / std::sqrt(sigma);  // scores grow with the square of what multiplies both W_Q and W_K
  reading.with_gain = imagine({.factor = 1 / sigma});
  reading.with_qk_norm = imagine({.unit_vectors = true});
}

std::string describe(const HeadReading& r) {
  const std::string who = fmt::format("{} head {}", layer_of(r.path), r.head);
  if (!r.is_saturated())
    return fmt::format(
        "{}: entropy {:.2f} of ln n, {:.0f} % of rows dead; sigma is {:.1f}, freezing starts at {:.1f}", who,
        r.entropy.median, 100 * r.dead, r.deviation.median, r.freezing_point());
  const auto effect = [](const Counterfactual& c) {
    return fmt::format("entropy {:.2f} of ln n, {:.0f} % dead", c.entropy, 100 * c.dead);
  };
  return fmt::format(
      "{}: entropy collapsed, {:.0f} % of rows dead; sigma is {:.1f}, freezing starts at {:.1f}; on this batch QK-norm "
      "would bring it to {:.1f} ({}), W_Q and W_K at {:.2f} of their size to {:.1f} ({})",
      who, 100 * r.dead, r.deviation.median, r.freezing_point(), r.with_qk_norm->deviation,
      effect(*r.with_qk_norm), r.gain, r.with_gain->deviation, effect(*r.with_gain));
}

std::vector<std::string> AttentionMeter::alarms() const {
  std::vector<const HeadReading*> saturated;
  for (const HeadReading& reading : readings_)
    if (reading.is_saturated()) saturated.push_back(&reading);
  std::stable_sort(saturated.begin(), saturated.end(), [](auto* a, auto* b) { return a->dead > b->dead; });
  std::vector<std::string> sentences;
  for (const HeadReading* reading : saturated) sentences.push_back(describe(*reading));
  return sentences;
}

namespace {

struct SpreadColumn {
  const char* name;
  Spread HeadReading::*member;
};
constexpr SpreadColumn kSpreads[] = {{"entropy", &HeadReading::entropy},
                                     {"effective_keys", &HeadReading::effective_keys},
                                     {"participation", &HeadReading::participation},
                                     {"max_weight", &HeadReading::max_weight},
                                     {"rest", &HeadReading::rest},
                                     {"logit_deviation", &HeadReading::deviation},
                                     {"logit_max", &HeadReading::logit_max},
                                     {"logit_gap", &HeadReading::logit_gap},
                                     {"trace", &HeadReading::trace},
                                     {"frobenius", &HeadReading::frobenius},
                                     {"spectral", &HeadReading::spectral},
                                     {"row_query_gradient", &HeadReading::row_query_gradient}};
struct NumberColumn {
  const char* name;
  double HeadReading::*member;
};
constexpr NumberColumn kNumbers[] = {{"dead", &HeadReading::dead},
                                     {"sink_mass", &HeadReading::sink_mass},
                                     {"output_gradient", &HeadReading::output_gradient},
                                     {"weights_gradient", &HeadReading::weights_gradient},
                                     {"scores_gradient", &HeadReading::scores_gradient},
                                     {"query_gradient", &HeadReading::query_gradient},
                                     {"key_gradient", &HeadReading::key_gradient},
                                     {"w_q_gradient", &HeadReading::w_q_gradient},
                                     {"w_k_gradient", &HeadReading::w_k_gradient},
                                     {"w_qk_norm", &HeadReading::w_qk_norm}};

void append(std::string& line, double number) {
  if (std::isnan(number))
    line += ',';
  else
    fmt::format_to(std::back_inserter(line), ",{:.9g}", number);
}

}  // namespace

std::string attention_csv_header() {
  std::string line = "step,path,call,head,rows,keys";
  for (const SpreadColumn& column : kSpreads)
    for (const char* part : {"mean", "median", "p10", "p90"})
      line += fmt::format(",{}_{}", column.name, part);
  for (const NumberColumn& column : kNumbers) line += fmt::format(",{}", column.name);
  return line;
}

std::string attention_csv_row(const HeadReading& r) {
  std::string line = fmt::format("{},{},{},{},{},{:g}", r.step, r.path, r.call, r.head, r.rows, r.keys);
  for (const SpreadColumn& column : kSpreads) {
    const Spread& spread = r.*column.member;
    for (const double number : {spread.mean, spread.median, spread.p10, spread.p90}) append(line, number);
  }
  for (const NumberColumn& column : kNumbers) append(line, r.*column.member);
  return line;
}

}  // namespace attune
