// What another implementation computed with positions: sinusoidal tables, rotary embeddings, ALiBi.
#include "../support/golden.h"

#include "attune/layers/position.h"

using namespace attune;
using attune::golden::File;

namespace {

std::vector<Index> integers(const ConstView& numbers) {
  std::vector<Index> result;
  for (const double number : check_kernels::values(numbers)) result.push_back(static_cast<Index>(number));
  return result;
}

RotaryPairs pairs_of(const File& file) {
  return file.text("pairs") == "interleaved" ? RotaryPairs::interleaved : RotaryPairs::half_split;
}

}  // namespace

TEST_CASE("golden: the sinusoidal table") {
  if (!golden::available()) return;
  const File file("sinusoidal");
  for (const DType dtype : file.dtypes()) file.compare("out.table", sinusoidal_table(40, 8, dtype));
}

TEST_CASE("golden: rotary embeddings, with either pairing") {
  if (!golden::available()) return;
  for (const char* name : {"rope_half_split", "rope_interleaved"}) {
    const File file(name);
    const Rope rope({.width = 6, .context = 1, .base = file.number("base"), .pairs = pairs_of(file)});
    for (const DType dtype : file.dtypes()) {
      Tape tape;
      const Var x = variable(file.as("in.x", dtype));
      const Var y = rope(x, integers(file["in.position"]));
      tape.backward(y, file.as("up.y", dtype));
      file.compare("out.y", y.value());
      file.compare("grad.x", x.grad());
    }
  }
}

TEST_CASE("golden: ALiBi's slopes and bias") {
  if (!golden::available()) return;
  for (const char* name : {"alibi_6", "alibi_8"}) {
    const File file(name);
    const auto heads = static_cast<Index>(file.number("heads"));
    const std::vector<double> slopes = alibi_slopes(heads);
    file.compare("out.slopes", ConstView(slopes.data(), {heads}, f64));
    for (const DType dtype : file.dtypes()) file.compare("out.bias", alibi_bias(heads, 5, 5, dtype));
  }
}

// The tables of the ONNX file are random numbers, so they are given to the op itself; beside them stands a rotation.
TEST_CASE("golden: ONNX's rotary embedding") {
  if (!golden::available()) return;
  const File file("onnx_rotary_embedding");
  for (const DType dtype : {f32, f64}) {
    const NoGrad scope;
    const Var x = file.as("in.0", dtype);
    const Var cos_rows = embedding(file.as("in.1", dtype), file["in.3"]);
    const Var sin_rows = embedding(file.as("in.2", dtype), file["in.3"]);
    const Shape angles{x.size(0), 1, x.size(2), x.size(3) / 2};
    const Var cos = reshape(cos_rows, angles);
    const Var sin = reshape(sin_rows, angles);
    file.compare("out64.0", rotate(x, cos, sin).value());
    const Var real = file.as("real.in", dtype);
    const Rope half({.width = 8, .context = 8});
    const Rope interleaved({.width = 8, .context = 8, .pairs = RotaryPairs::interleaved});
    file.compare("real.out64_half_split", half(real, 3).value());
    file.compare("real.out64_interleaved", interleaved(real, 3).value());
  }
}
