// What another implementation computed: values and gradients of ops and of attention, in f64 to the last digits, and in
// f32.
#include "../support/golden.h"

#include "attune/autograd/ops.h"
#include "attune/layers/composed_attention.h"
#include "attune/layers/tap.h"

using namespace attune;
using attune::golden::File;

namespace {

// -- attention()

// Settings, and the inputs besides q, k and v, which become variables where they have a gradient.
struct AttentionInputs {
  AttentionOptions options;
  std::vector<std::pair<std::string, Var>> variables;
};

Mask mask_of(const File& file) {
  Mask mask;
  const Align align = file.text("align") == "top_left" ? Align::top_left : Align::bottom_right;
  if (file.text("causal") == "true") mask = mask & Mask::causal(align);
  if (!file.text("window").empty()) mask = mask & Mask::window(static_cast<Index>(file.number("window")), align);
  if (file.has("in.lengths")) {
    std::vector<Index> lengths;
    for (const double length : check_kernels::values(file["in.lengths"])) lengths.push_back(static_cast<Index>(length));
    mask = mask & Mask::padding(lengths);
  }
  if (file.has("in.allow")) mask = mask & Mask::allow(file["in.allow"]);
  return mask;
}

AttentionInputs attention_inputs(const File& file, DType dtype) {
  AttentionInputs inputs{{.mask = mask_of(file), .softcap = file.number("softcap")}, {}};
  const auto variable_of = [&](const std::string& name) {
    const Var x = variable(file.as("in." + name, dtype));
    inputs.variables.emplace_back(name, x);
    return x;
  };
  if (file.has("in.scale")) inputs.options.scale = variable_of("scale");
  else inputs.options.scale = Scale(file.number("scale"));
  if (file.has("in.bias")) inputs.options.bias = variable_of("bias");
  if (file.has("in.sinks")) inputs.options.sinks = variable_of("sinks");
  return inputs;
}

// How attention is computed: fused, or by parts.
AttentionResult fused(Var q, Var k, Var v, const AttentionOptions& options) {
  return attention_with_weights(q, k, v, options);
}
AttentionResult composed(Var q, Var k, Var v, const AttentionOptions& options) {
  return detail::composed_attention(detail::prepare_attention(q, k, v, options));
}

void compare_attention(const File& file, DType dtype, AttentionResult (*attend)(Var, Var, Var, const AttentionOptions&)) {
  Tape tape;
  const Var q = variable(file.as("in.q", dtype));
  const Var k = variable(file.as("in.k", dtype));
  const Var v = variable(file.as("in.v", dtype));
  const AttentionInputs others = attention_inputs(file, dtype);
  const AttentionResult result = attend(q, k, v, others.options);
  tape.backward(result.y, file.as("up.y", dtype));
  file.compare("out.y", result.y.value());
  file.compare("out.weights", result.weights.value());
  file.compare(file.has("out.lse_with_sink") ? "out.lse_with_sink" : "out.lse", result.log_sum_exp.value());
  file.compare("grad.q", q.grad());
  file.compare("grad.k", k.grad());
  file.compare("grad.v", v.grad());
  for (const auto& [name, x] : others.variables) file.compare("grad." + name, x.grad());
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

TEST_CASE("golden: attention with every option, fused and composed") {
  if (!golden::available()) return;
  for (const char* name : {"sdpa_plain", "sdpa_causal", "sdpa_causal_bottom_right", "sdpa_causal_top_left", "sdpa_padding",
                           "sdpa_causal_padding", "sdpa_allow_dead_row", "sdpa_bias", "sdpa_scale", "sdpa_scale_learned",
                           "sdpa_softcap", "sdpa_gqa", "sdpa_mqa", "sdpa_window", "sdpa_sinks", "sdpa_dv"}) {
    const File file(name);
    for (const DType dtype : file.dtypes()) {
      compare_attention(file, dtype, fused);
      compare_attention(file, dtype, composed);
    }
  }
}

TEST_CASE("golden: ONNX's causal attention with cached keys and values before the new ones") {
  if (!golden::available()) return;
  const File file("onnx_attention_4d_causal_with_past_and_present");
  const auto joined_with_past = [&](const char* past, const char* added, DType dtype) {
    const Var before = file.as(past, dtype);
    const Var after = file.as(added, dtype);
    return concat({before, after}, 2);
  };
  for (const DType dtype : {f64, f32})
    for (const Mask& mask : {Mask::causal(), Mask::allow(file["attune.allow"])}) {
      const NoGrad scope;
      const Var k = joined_with_past("in.4", "in.1", dtype);
      const Var v = joined_with_past("in.5", "in.2", dtype);
      const Var y = attention(file.as("in.0", dtype), k, v, {.mask = mask});
      const std::vector<double> ours = check_kernels::values(y.value()), theirs = check_kernels::values(file["out64.0"]);
      REQUIRE(y.shape() == file["out64.0"].shape());
      double error = 0;
      for (std::size_t i = 0; i < ours.size(); ++i) {
        const double allowed = dtype == f32 ? 1e-6 + 1e-5 * std::abs(theirs[i]) : 1e-12 * std::abs(theirs[i]);
        error = std::max(error, std::abs(ours[i] - theirs[i]) / allowed);
      }
      golden::print_line(file.name(), dtype, "out64.0", error);
      CHECK(error <= 1);
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
    const Var y = attention(q, k, v, {.mask = mask_of(file), .scale = file.number("scale")});
    compare_second_order(file, tape, y, "y", {{"q", q}, {"k", k}, {"v", v}});
  }
}
