// Pictures for the terminal.
#pragma once

#include <span>
#include <string>

#include "attune/lib/view.h"

namespace attune {

// An attention map [queries, keys] of weights in 0 ... 1, a row for each query and two columns for each key, in five
// shades; with a label for each query and key where given (one or two letters read best). One head of one entry:
// weights.select(0, b).select(0, h).
std::string draw_attention(const ConstView& weights, std::span<const std::string> queries = {},
                           std::span<const std::string> keys = {});

// A series as one line of eighth blocks, from its least to its largest: "▁▃▅█", and "?" where it is not finite.
// Points beyond `width` are averaged.
std::string sparkline(std::span<const double> series, int width = 60);

}  // namespace attune
