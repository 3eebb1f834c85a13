// What another implementation computed: values and gradients of ops and of attention, in f64 to the last digits, and in
// f32.
#include "../support/golden.h"

#include "attune/autograd/ops.h"
#include "attune/layers/attention.h"
#include "attune/layers/tap.h"

using namespace attune;
using attune::golden::File;

namespace {

// -- attention()

AttentionOptions attention_options(const File& file) {
  AttentionOptions options;
  options.scale = Scale(file.number("scale"));
  if (file.text("causal") == "true")
    options.mask = Mask::causal(file.text("align") == "top_left" ? Align::top_left : Align::bottom_right);
  return options;
}

void compare_attention(const File& file, DType dtype) {
  Tape tape;
  Tensor weights;
  const Observer watch([&](const TapPoint& at) {
    if (at.name == "weights") weights = Tensor::copy_of(at.value.value());
  });
  const Var q = variable(file.as("in.q", dtype));
  const Var k = variable(file.as("in.k", dtype));
  const Var v = variable(file.as("in.v", dtype));
  const Var y = attention(q, k, v, attention_options(file));
  tape.backward(y, file.as("up.y", dtype));
  file.compare("out.y", y.value());
  file.compare("out.weights", weights);
  file.compare("grad.q", q.grad());
  file.compare("grad.k", k.grad());
  file.compare("grad.v", v.grad());
}

// -- Second derivatives: L = sum(up y²) / 2, its gradient, and its Hessian times the direction `dir`.

Var second_order_loss(Var y, Var up) {
  const Var squares = y * y;
  return sum(squares * up) * 0.5;
}

// The leaf of an input whose tangent is the direction.
Var directed(const File& file, const std::string& kind, const std::string& name) {
  return variable(check_kernels::dual_of(file[kind + "." + name], file["dir." + name]));
}

void compare_second_order(const File& file, Tape& tape, Var y, const std::string& output,
                          const std::vector<std::pair<std::string, Var>>& inputs) {
  const Var up = file["up." + output].to(DType::dual);
  const Var loss = second_order_loss(y, up);
  tape.backward(loss);
  file.compare("out." + output, Tensor::copy_of(y.value()).to(f64));
  file.compare("jvp." + output, check_kernels::tangents_of(Tensor::copy_of(y.value())));
  file.compare("out.second_order_loss", Tensor::copy_of(loss.value()).to(f64));
  for (const auto& [name, x] : inputs) {
    const Tensor gradient = Tensor::copy_of(x.grad());
    file.compare("grad." + name, gradient.to(f64));
    file.compare("hvp." + name, check_kernels::tangents_of(gradient));
  }
}

}  // namespace

TEST_CASE("golden: attention, whole, causal, scaled, and with wider values") {
  if (!golden::available()) return;
  for (const char* name : {"sdpa_plain", "sdpa_causal", "sdpa_causal_bottom_right", "sdpa_causal_top_left",
                           "sdpa_scale", "sdpa_dv"}) {
    const File file(name);
    for (const DType dtype : file.dtypes()) compare_attention(file, dtype);
  }
}

TEST_CASE("golden: four tokens, a causal table") {
  if (!golden::available()) return;
  const File file("causal_table");
  for (const DType dtype : file.dtypes()) {
    const NoGrad scope;
    Tensor weights;
    const Observer watch([&](const TapPoint& at) {
      if (at.name == "weights") weights = Tensor::copy_of(at.value.value());
    });
    const Var x = file.as("in.x", dtype);
    const Var q = matmul(x, file.as("param.w_q", dtype));
    const Var k = matmul(x, file.as("param.w_k", dtype));
    const Var v = matmul(x, file.as("param.w_v", dtype));
    const Var y = attention(q, k, v, {.mask = Mask::causal()});
    file.compare("out.weights", weights);
    file.compare("out.y", y.value());
  }
}

TEST_CASE("golden: second derivatives") {
  if (!golden::available()) return;
  {
    const File file("second_sdpa");
    Tape tape;
    const Var q = directed(file, "in", "q");
    const Var k = directed(file, "in", "k");
    const Var v = directed(file, "in", "v");
    const Var y = attention(q, k, v, attention_options(file));
    compare_second_order(file, tape, y, "y", {{"q", q}, {"k", k}, {"v", v}});
  }
}
