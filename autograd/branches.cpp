// What a tape shows of the things that fool a gradient check: kinks, and saturated rows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "attune/autograd/gradcheck.h"
#include "attune/autograd/workspace.h"

namespace attune::detail {
namespace {

bool is_any_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class Hash {  // FNV-1a
 public:
  void add(std::uint64_t word) { value_ = (value_ ^ word) * 0x100000001b3u; }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

std::uint64_t hash_of_signs(const ConstView& x) {
  Hash hash;
  const Tensor numbers = values_of(x);
  for (const double number : numbers.data<double>()) hash.add(number > 0 ? 1 : number < 0 ? 2 : 3);
  return hash.value();
}

// Which elements of each input came through.
std::uint64_t hash_of_choices(const Node& node) {
  Hash hash;
  std::vector<double> chosen;
  const Tensor y = values_of(node.value);
  chosen.assign(y.data<double>().begin(), y.data<double>().end());
  std::sort(chosen.begin(), chosen.end());
  for (std::uint16_t k = 0; k < node.input_count; ++k) {
    const Tensor x = values_of(workspace().node(node.inputs[k]).value);
    for (const double number : x.data<double>()) hash.add(std::binary_search(chosen.begin(), chosen.end(), number));
  }
  return hash.value();
}

std::uint64_t hash_of_integers(const ConstView& x) {
  Hash hash;
  const Tensor numbers = Tensor::copy_of(x);
  for (const std::int32_t number : numbers.data<std::int32_t>()) hash.add(static_cast<std::uint32_t>(number));
  return hash.value();
}

// Of a row: all but its largest, together; and whether the row had more than one element that was not hidden.
struct Row {
  double largest = 0, others = 0;
  Index positive = 0;
};
Row row_of(const double* y, Index length) {
  Row row;
  const double* top = std::max_element(y, y + length);
  for (const double* at = y; at != y + length; ++at) {
    if (at != top) row.others += *at;
    row.positive += *at > 0;
  }
  row.largest = *top;
  return row;
}

}  // namespace

std::vector<Branch> branches_of_scope() {
  const Workspace& w = workspace();
  std::vector<Branch> result;
  for (std::uint32_t index = w.innermost->first_node; index < w.node_count; ++index) {
    const Node& node = workspace().node(index);
    if (node.input_count == 0) continue;
    if (node.value.dtype() == DType::i32) result.push_back({node.name, hash_of_integers(node.value)});
    else if (is_any_of(node.name, {"relu", "leaky_relu", "abs", "sign"}))
      result.push_back({node.name, hash_of_signs(workspace().node(node.inputs[0]).value)});
    else if (is_any_of(node.name, {"sparsemax", "entmax15"}))
      result.push_back({node.name, hash_of_signs(node.value)});  // its support
    else if (is_any_of(node.name, {"max", "min", "maximum", "minimum", "clamp"}))
      result.push_back({node.name, hash_of_choices(node)});
  }
  return result;
}

std::vector<std::string> differing(const std::vector<Branch>& a, const std::vector<Branch>& b) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i].hash != b[i].hash && std::find(result.begin(), result.end(), a[i].op) == result.end())
      result.push_back(a[i].op);
  return result;
}

bool scope_has(const char* op) {
  const Workspace& w = workspace();
  for (std::uint32_t index = w.innermost->first_node; index < w.node_count; ++index)
    if (std::string_view(workspace().node(index).name) == op) return true;
  return false;
}

std::vector<std::string> saturated_rows_of_scope() {
  const Workspace& w = workspace();
  std::vector<std::string> result;
  for (std::uint32_t index = w.innermost->first_node; index < w.node_count; ++index) {
    const Node& node = workspace().node(index);
    if (!is_any_of(node.name, {"softmax", "sparsemax", "entmax15", "attention_weights"}) || node.value.rank() == 0 || node.value.count() == 0)
      continue;
    const Tensor y = values_of(node.value), x = values_of(workspace().node(node.inputs[0]).value);
    const Index length = y.shape().last(), rows = y.count() / length;
    Index saturated = 0;
    for (Index i = 0; i < rows; ++i) {
      const Row row = row_of(y.data<double>().data() + i * length, length);
      const double* logits = x.data<double>().data() + i * length;
      const auto seen = std::count_if(logits, logits + length, [](double logit) { return logit > -INFINITY; });
      const bool sums_to_one = std::abs(row.largest + row.others - 1) < 1e-6;  // else it goes along another axis
      saturated += sums_to_one && row.others < 1e-12 && seen > 1;
    }
    if (saturated > 0)
      result.push_back(fmt::format("{} {}: {} of {} rows are saturated (1 - the largest weight is below 1e-12): "
                                   "no gradient passes them that f64 could measure, so nothing is verified there",
                                   node.name, node.value.shape(), saturated, rows));
  }
  return result;
}

}  // namespace attune::detail
