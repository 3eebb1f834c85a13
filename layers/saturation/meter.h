// The attention meter: how saturated each head is while a model trains, and what its gradients lose on their
// way back.
//
//   AttentionMeter meter(model, {.every = 20});
//   for (Index step = 0; step < steps; ++step) {
//     Tape tape;
//     AttentionMeter::Watch watch(meter, step);     // listens, in one step of 20
//     Var loss = cross_entropy(model(batch.inputs), batch.targets);
//     tape.backward(loss);
//     watch.read();                                 // before the optimizer's step, which consumes gradients
//     optimizer.step();
//     for (const std::string& alarm : meter.alarms()) fmt::print("{}\n", alarm);
//   }
//
// Any attention of any model: it listens to attention() itself. It changes no bit of the training, and allocates
// nothing from its second measurement of the same shapes on. Scores and
// weights are computed again, some rows at a time, and none is kept; what is measured is in double, over the
// keys that each row sees. What stands against it is layers/saturation/theory.h.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attune/autograd/parameter.h"
#include "attune/layers/attention.h"
#include "attune/layers/saturation/row_statistics.h"

namespace attune {

// One number of many rows.
struct Spread {
  double mean = 0, median = 0, p10 = 0, p90 = 0;
};

// What a head's attention would be on the same batch, were its queries and keys others.
struct Counterfactual {
  double entropy = 0;    // median of H / ln n
  double dead = 0;       // share of dead rows
  double deviation = 0;  // median deviation of the scores
};

// One head of one call of attention in one step. Rows that see fewer than two keys take no part in the
// spreads.
struct HeadReading {
  Index step = 0;
  std::string path;  // whose attention: "blocks.1.attention"
  Index call = 0;    // which call of that path in this step
  Index head = 0;
  Index rows = 0;   // how many were measured
  double keys = 0;  // how many keys a row sees: the median

  Spread entropy = {};                // H / ln n
  Spread effective_keys = {};         // exp H
  Spread participation = {};          // 1 / sum p²
  Spread max_weight = {}, rest = {};  // p₁ and 1 - p₁
  Spread deviation = {}, logit_max = {},
         logit_gap = {};  // of the scores; the median deviation is the head's sigma
  Spread trace = {}, frobenius = {}, spectral = {};  // of the Jacobian of weights by scores
  double dead = 0;       // the share of rows with ‖J‖_F below MeterOptions::dead
  double sink_mass = 0;  // mean weight of key 0 in rows from the fifth on

  // The gradient's norm on its way back: at the head's output, its weights, its scores, its queries and its
  // keys (those of its group, where heads share them); and of a single query's. NaN where none was computed.
  double output_gradient = kNone, weights_gradient = kNone, scores_gradient = kNone, query_gradient = kNone,
         key_gradient = kNone;
  Spread row_query_gradient{kNone, kNone, kNone, kNone};
  // Of the head's columns of W_Q and W_K, and the largest singular value of W_Q W_Kᵀ; NaN where the path has
  // no "qkv.weight", or "query.weight" and "key_value.weight", of these widths.
  double w_q_gradient = kNone, w_k_gradient = kNone, w_qk_norm = kNone;

  // Where the head is saturated: with W_Q and W_K multiplied by `gain`, that scores deviate by 1; and with
  // QK-norm.
  double gain = kNone;
  std::optional<Counterfactual> with_gain = {}, with_qk_norm = {};

  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  double freezing_point() const;  // sqrt(2 ln n), of `keys`
  bool is_saturated() const { return with_gain.has_value(); }
};

struct MeterOptions {
  Index every = 20;    // measures steps 0, every, 2 every ...
  Index last = -1;     // and this one, unless every is 0
  double dead = 1e-3;  // a row's ‖J‖_F below which it is dead
  double alarm = 0.5;  // the share of dead rows that is an alarm, where sigma is above the freezing point
};

class AttentionMeter {
 public:
  // The model's parameters are asked for W_Q and W_K; their gradients may belong to an optimizer already.
  template <class Model>
  explicit AttentionMeter(Model& model, const MeterOptions& options = {})
      : AttentionMeter(ParameterList(model), options) {}
  // Without a model: everything but W_Q and W_K.
  explicit AttentionMeter(const MeterOptions& options = {});
  ~AttentionMeter();
  AttentionMeter(const AttentionMeter&) = delete;
  AttentionMeter& operator=(const AttentionMeter&) = delete;

  bool measures(Index step) const {
    return options_.every > 0 && (step % options_.every == 0 || step == options_.last);
  }

  // Open it after the tape, and read before the tape ends. In a step that is not measured it does nothing.
  // Under NoGrad, and without backward, there are no gradients to read, and the rest is measured. Of a call
  // inside of a checkpoint, too, only what forward shows is measured.
  class Watch;

  // What was read last: by calls, in the order in which they were made, then by heads.
  const std::vector<HeadReading>& readings() const { return readings_; }
  // One sentence for each head of it that is saturated, the worst first.
  std::vector<std::string> alarms() const;

  // What measuring has cost so far.
  double seconds() const { return seconds_; }
  Index measured_steps() const { return measured_steps_; }

 private:
  AttentionMeter(const ParameterList& parameters, const MeterOptions& options);
  struct Call;
  struct Rows;
  void hear(const detail::AttentionCall& call, Var y);
  void read();
  void measure(const Call& call);
  HeadReading& next_reading();
  void read_rows(const Call& call, Index head, HeadReading& reading);
  void read_gradients(const Call& call, Index head, HeadReading& reading);
  void read_weights(const Call& call, Index head, HeadReading& reading);
  void read_repairs(const Call& call, Index head, HeadReading& reading);

  MeterOptions options_;
  std::vector<std::shared_ptr<detail::ParameterState>> parameters_;
  std::vector<Call> calls_;
  std::vector<std::string> paths_;  // of the calls, and of more
  std::unique_ptr<Rows> rows_;
  std::vector<HeadReading> readings_;
  std::size_t reading_count_ = 0;
  Index step_ = 0, measured_steps_ = 0;
  double seconds_ = 0;
};

class AttentionMeter::Watch {
 public:
  Watch(AttentionMeter& meter, Index step);
  // Measures what was heard: after backward, so that there are gradients. Does nothing the second time.
  void read();
  bool measures() const { return listener_.has_value(); }
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  AttentionMeter& meter_;
  std::optional<AttentionListener> listener_;
};

// "layer 2 head 1: entropy collapsed, 94 % of rows dead; sigma is 11.3, freezing starts at 3.1; ..."; of a
// head that is not saturated, its entropy and its sigma.
std::string describe(const HeadReading& reading);

// attention.csv: a line of names, and a line for each reading, without line ends. What there is not is empty.
std::string attention_csv_header();
std::string attention_csv_row(const HeadReading& reading);

}  // namespace attune
