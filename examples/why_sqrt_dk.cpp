// Why QKᵀ is divided by √d_k: what softmax and its derivative do with and without it.
//
//   why_sqrt_dk
//
// q·k of two random vectors has variance d_k. Undivided, scores spread as √d_k: softmax sees numbers far apart, gives all
// to the largest, and its derivative J = diag(p) − p pᵀ passes nothing back. Divided, they spread as 1, whatever d_k is.
//
// Measured are real attention rows over 32 keys. Beside them stands what they must be: exact integrals over the random
// scores, averaged over the length of q (layers/saturation/theory.h).
#include <unistd.h>

#include "attune/attune.h"
#include "attune/examples/show/plot.h"
#include "attune/examples/show/table.h"

using namespace attune;

namespace {

constexpr Index kKeys = 32, kSets = 32, kQueries = 64;  // each set of keys is asked by so many queries

struct Measured {
  double variance;  // of q·k
  std::vector<RowStatistics> rows;
};

Measured measure(Index width, const Scale& scale) {
  Rng rng(static_cast<std::uint64_t>(width));
  Tensor q({kSets, kQueries, width}, f64), k({kSets, kKeys, width}, f64);
  fill_normal(q, rng);
  fill_normal(k, rng);
  const NoGrad scope;
  const Var products = matmul(q, t(k)), scores = products * scale(width);

  Measured measured{mean(products * products).item(), {}};
  const std::span all(scores.value().as<double>(), static_cast<std::size_t>(scores.value().count()));
  for (std::size_t row = 0; row < all.size(); row += kKeys)
    measured.rows.push_back(row_statistics(all.subspan(row, kKeys)));
  return measured;
}

// The same at every width, measured and exact.
struct Curve {
  show::Series entropy, trace, dead;
};

Curve curve_of(const char* name, const Scale& scale, show::Table& table) {
  Curve curve{{.name = name}, {.name = name}, {.name = name}};
  for (Index width = 4; width <= 1024; width *= 2) {
    const Measured measured = measure(width, scale);
    const Sample entropy(measured.rows, &RowStatistics::normalized_entropy);
    const Sample squares(measured.rows, &RowStatistics::sum_squares);
    const Sample slope(measured.rows, &RowStatistics::frobenius);
    const theory::ExpectedRow exact = theory::expected_row(width, scale(width), kKeys);
    table.row({fmt::format("{}", width), fmt::format("{:.1f}", measured.variance), name,
               fmt::format("{:.3f}", entropy.mean()), fmt::format("{:.3f}", exact.normalized_entropy),
               fmt::format("{:.3f}", squares.mean()), fmt::format("{:.3f}", exact.sum_squares),
               fmt::format("{:.3f}", 1 - squares.mean()), fmt::format("{:.1e}", slope.quantile(0.1)),
               fmt::format("{:.0f} %", 100 * slope.below(1e-3))});
    for (show::Series* series : {&curve.entropy, &curve.trace, &curve.dead})
      series->x.push_back(static_cast<double>(width));
    curve.entropy.y.push_back(entropy.mean());
    curve.trace.y.push_back(slope.quantile(0.1));
    curve.dead.y.push_back(100 * slope.below(1e-3));
  }
  return curve;
}

}  // namespace

int main() {
  const show::Terminal terminal = show::terminal(STDOUT_FILENO);
  using enum show::Align;
  show::Table table({{"d_k", right}, {"var q·k", right}, {"scale"}, {"H/ln n", right}, {"exact", right},
                     {"Σp²", right}, {"exact", right}, {"tr J", right}, {"‖J‖ p10", right}, {"dead", right}});
  const Curve scaled = curve_of("1/√d_k", Scale(), table);
  table.rule();
  const Curve raw = curve_of("none", Scale::none(), table);

  fmt::print("{} rows of attention over {} keys; J is the derivative of softmax, a row is dead where ‖J‖ < 0.001.\n\n{}\n",
             kSets * kQueries, kKeys, table.text(terminal));
  const show::Series entropy[] = {scaled.entropy, raw.entropy}, slope[] = {scaled.trace, raw.trace};
  fmt::print("{}\n", show::line_plot(entropy, {.title = "Entropy of a row, as a share of ln n", .x_label = "d_k",
                                               .log_x = true}, terminal));
  fmt::print("{}\n", show::line_plot(slope, {.title = "‖J‖ of the tenth of rows that passes least back", .x_label = "d_k",
                                             .log_x = true, .log_y = true}, terminal));
  fmt::print("Unscaled, scores freeze where √d_k > √(2 ln n), that is, beyond d_k = {:.1f}: then one key takes most of a\n"
             "row, and most rows learn nothing. The mean gradient does not show it: a few rows get far more than others.\n",
             theory::freezing_width(kKeys));
}
