// What `attune train --meter` keeps of the attention meter: attention.csv, and a summary of it for the screen.
#pragma once

#include <string>
#include <vector>

#include "attune/examples/show/terminal.h"
#include "attune/layers/gpt.h"
#include "attune/layers/saturation/meter.h"

namespace attune::program {

class MeterLog {
 public:
  // Every so many steps, and the last of `steps`. The model must live as long.
  MeterLog(Gpt& model, Index every, Index steps) : meter_(model, {.every = every, .last = steps - 1}) {}

  AttentionMeter& meter() { return meter_; }
  // Keeps what was read last. The step of a row is how many were made before it.
  void note();

  // attention.csv.
  std::string text() const;
  // Goes on with such a text, of which steps from `step` on are made again. std::runtime_error where it is none.
  void restore(const std::string& text, Index step);

  // Each head's entropy (1: it looks at all keys alike), and what it is at the end: the most saturated first, and what would help.
  // `seconds` is what the training took, of which measuring was a part.
  std::string summary(const show::Terminal& terminal, double seconds) const;

 private:
  struct Row {
    Index step = 0;
    std::string head;    // "blocks.0.attention,0,1"
    double entropy = 0;  // the median's
    std::string line;
  };
  std::vector<double> entropies_of(const std::string& head) const;

  AttentionMeter meter_;
  std::vector<Row> rows_;
};

}  // namespace attune::program
