#include "maps.h"

#include <fmt/format.h>

#include <algorithm>

#include "attune/autograd/tape.h"
#include "attune/examples/show/terminal.h"
#include "attune/layers/tap.h"

namespace attune::program {
namespace {

double telling(const ConstView& weights, Index first_query) {
  double sum = 0;
  for (Index query = first_query; query < weights.size(0); ++query) {
    double most = 0;
    for (Index key = 1; key + 1 < query; ++key) most = std::max(most, weights.at({query, key}));
    sum += most;
  }
  return sum;
}

}  // namespace

std::string HeadMap::name() const { return fmt::format("layer {}, head {}", layer, head); }

std::vector<HeadMap> attention_maps(const Gpt& model, std::span<const std::int32_t> tokens) {
  Tensor batch({1, static_cast<Index>(tokens.size())}, i32);
  std::copy(tokens.begin(), tokens.end(), batch.data<std::int32_t>().begin());
  std::vector<HeadMap> maps;
  int layer = 0;
  const NoGrad scope;
  const Observer watch([&](const TapPoint& at) {
    if (at.name != "weights") return;
    const ConstView heads = at.value.value().select(0, 0);
    for (Index head = 0; head < heads.size(0); ++head)
      maps.push_back({layer, head, Tensor::copy_of(heads.select(0, head))});
    ++layer;
  });
  model(batch);
  return maps;
}

std::size_t most_telling(const std::vector<HeadMap>& maps, Index first_query) {
  const auto less = [&](const HeadMap& a, const HeadMap& b) {
    return telling(a.weights, first_query) < telling(b.weights, first_query);
  };
  return static_cast<std::size_t>(std::max_element(maps.begin(), maps.end(), less) - maps.begin());
}

std::vector<std::string> labels_of(const std::string& vocabulary, std::span<const std::int32_t> tokens) {
  std::vector<std::string> labels;
  for (const std::int32_t token : tokens)
    labels.push_back(show::visible(vocabulary.substr(static_cast<std::size_t>(token), 1)));
  return labels;
}

}  // namespace attune::program
