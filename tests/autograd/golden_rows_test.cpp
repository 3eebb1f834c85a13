// What other implementations computed of ops that go along rows: softmax and its kin, normalisations, losses.
// Values and gradients in f64 to the last digits, and in f32.
#include "../support/golden.h"
#include "attune/autograd/ops.h"

using namespace attune;
using attune::golden::File;

namespace {

// f of the tensors of those names, the result called `output`: its value, and every gradient that the file
// has.
void compare(const std::string& name, const std::string& output, const std::vector<std::string>& inputs,
             const std::function<Var(const File&, std::span<const Var>)>& f) {
  const File file(name);
  for (const DType dtype : file.dtypes()) {
    Tape tape;
    std::vector<Var> x;
    for (const std::string& input : inputs) x.push_back(variable(file.as(input, dtype)));
    const Var y = f(file, x);
    tape.backward(y, file.as("up." + output, dtype));
    file.compare("out." + output, y.value());
    for (std::size_t i = 0; i < x.size(); ++i)
      file.compare("grad." + inputs[i].substr(inputs[i].find('.') + 1), x[i].grad());
  }
}

CrossEntropyOptions loss_options(const File& file) {
  const std::string reduction = file.text("reduction");
  return {.ignored = static_cast<Index>(file.number("ignore_index", -100)),
          .smoothing = file.number("smoothing"),
          .reduction = reduction == "sum"    ? Reduction::sum
                       : reduction == "none" ? Reduction::none
                                             : Reduction::mean};
}

// Second derivatives: L = sum(up y²) / 2, its gradient, and its Hessian times the direction `dir`.
void compare_second(const std::string& name, const std::string& output,
                    const std::vector<std::string>& inputs,
                    const std::function<Var(const File&, std::span<const Var>)>& f) {
  const File file(name);
  Tape tape;
  std::vector<Var> x;
  const auto plain = [](const std::string& input) { return input.substr(input.find('.') + 1); };
  for (const std::string& input : inputs)
    x.push_back(variable(check_kernels::dual_of(file[input], file["dir." + plain(input)])));
  const Var y = f(file, x);
  const Var up = file["up." + output].to(DType::dual), squares = y * y, loss = sum(squares * up) * 0.5;
  tape.backward(loss);
  const Tensor result = Tensor::copy_of(y.value());
  file.compare("out." + output, result.to(f64));
  file.compare("jvp." + output, check_kernels::tangents_of(result));
  file.compare("out.second_order_loss", Tensor::copy_of(loss.value()).to(f64));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Tensor gradient = Tensor::copy_of(x[i].grad());
    file.compare("grad." + plain(inputs[i]), gradient.to(f64));
    file.compare("hvp." + plain(inputs[i]), check_kernels::tangents_of(gradient));
  }
}

Var layer_norm_of(const File& file, std::span<const Var> x) {
  return layer_norm(x[0], x[1], x[2], file.number("eps"));
}
Var cross_entropy_of(const File& file, std::span<const Var> x) {
  return cross_entropy(x[0], file["in.targets"], loss_options(file));
}

}  // namespace

TEST_CASE("golden: softmax, log_softmax and logsumexp") {
  if (!golden::available()) return;
  compare("softmax", "y", {"in.x"}, [](const File&, std::span<const Var> x) { return softmax(x[0]); });
  compare("log_softmax", "y", {"in.x"},
          [](const File&, std::span<const Var> x) { return log_softmax(x[0]); });
  compare("logsumexp", "y", {"in.x"},
          [](const File&, std::span<const Var> x) { return logsumexp(x[0], -1); });
}

TEST_CASE("golden: sparsemax and entmax15") {
  if (!golden::available()) return;
  compare("sparsemax", "y", {"in.x"}, [](const File&, std::span<const Var> x) { return sparsemax(x[0]); });
  compare("entmax15", "y", {"in.x"}, [](const File&, std::span<const Var> x) { return entmax15(x[0]); });
}

TEST_CASE("golden: layer norm and rms norm") {
  if (!golden::available()) return;
  compare("layer_norm", "y", {"in.x", "param.weight", "param.bias"}, layer_norm_of);
  compare("rms_norm", "y", {"in.x", "param.weight"},
          [](const File& file, std::span<const Var> x) { return rms_norm(x[0], x[1], file.number("eps")); });
}

TEST_CASE("golden: cross-entropy, with every reduction, ignored targets and smoothing") {
  if (!golden::available()) return;
  for (const char* name :
       {"cross_entropy_mean", "cross_entropy_sum", "cross_entropy_none", "cross_entropy_ignore",
        "cross_entropy_smooth", "cross_entropy_ignore_smooth", "cross_entropy_ignore_smooth_none"})
    compare(name, "loss", {"in.logits"}, cross_entropy_of);
}

TEST_CASE("golden: nll of log_softmax is cross-entropy") {
  if (!golden::available()) return;
  for (const char* name :
       {"cross_entropy_mean", "cross_entropy_ignore_smooth", "cross_entropy_ignore_smooth_none"})
    compare(name, "loss", {"in.logits"}, [](const File& file, std::span<const Var> x) {
      const Var log_probabilities = log_softmax(x[0]);
      return nll(log_probabilities, file["in.targets"], loss_options(file));
    });
}

TEST_CASE("golden: mean squared error") {
  if (!golden::available()) return;
  for (const char* name : {"mse_mean", "mse_sum"})
    compare(name, "loss", {"in.x", "in.target"}, [](const File& file, std::span<const Var> x) {
      return mse(x[0], x[1], loss_options(file).reduction);
    });
}

TEST_CASE("golden: second derivatives of layer norm and cross-entropy") {
  if (!golden::available()) return;
  compare_second("second_layer_norm", "y", {"in.x", "param.weight", "param.bias"}, layer_norm_of);
  compare_second("second_cross_entropy", "loss", {"in.logits"}, cross_entropy_of);
}

TEST_CASE("golden: ONNX's softmax over the middle axis, and its layer norm with a large epsilon") {
  if (!golden::available()) return;
  const File softmax_file("onnx_softmax_axis_1"), norm_file("onnx_layer_normalization_3d_axis2_epsilon");
  const double epsilon = 0.10000000149011612;  // 0.1 in f32, as its attributes have it
  const NoGrad scope;
  for (const DType dtype : {f64, f32}) {
    softmax_file.compare("out64.0", softmax(softmax_file.as("in.0", dtype), 1).value());
    const Tensor x = norm_file.as("in.0", dtype), weight = norm_file.as("in.1", dtype),
                 bias = norm_file.as("in.2", dtype);
    norm_file.compare("out64.0", layer_norm(x, weight, bias, epsilon).value());
    norm_file.compare("out64.1", mean(x, 2, Axes::stay).value());
    const Var variance = var(x, 2, {.reduced = Axes::stay});
    Tensor deviation = Tensor::copy_of((variance + epsilon).value()), inverse(deviation.shape(), dtype);
    kernels::sqrt(deviation, deviation);
    kernels::divide(inverse, ones({}, dtype), deviation);
    norm_file.compare("out64.2", inverse);
  }
}
