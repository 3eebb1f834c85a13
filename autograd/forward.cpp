#include "attune/autograd/forward.h"

#include "attune/autograd/op.h"

namespace attune {
namespace {

// A tape on which all is dual.
class DualTape {
 public:
  explicit DualTape(const ForwardOptions& options)
      : random_(Rng(options.seed).split("dropout")),
        tape_({.training = options.training, .random = &random_, .constants = DType::dual}) {}
  Tape* operator->() { return &tape_; }

 private:
  Rng random_;
  Tape tape_;
};

void check_directions(const char* op, std::size_t inputs, std::size_t directions) {
  check(inputs == directions, "{}: {} inputs and {} directions", op, inputs, directions);
}
void check_direction(const char* op, std::size_t input, const Shape& x, const Tensor& v) {
  check(x == v.shape(), "{}: input {} is {}, and its direction {}", op, input, x, v.shape());
}

std::vector<Tensor> inputs_along(const char* op, std::span<const Tensor> x, std::span<const Tensor> v) {
  check_directions(op, x.size(), v.size());
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < x.size(); ++i) {
    check_direction(op, i, x[i].shape(), v[i]);
    result.push_back(dual_of(x[i], v[i]));
  }
  return result;
}

std::vector<Var> leaves(const std::vector<Tensor>& inputs) {
  std::vector<Var> vars;
  for (const Tensor& input : inputs) vars.push_back(variable(input));
  return vars;
}

// The tangents of parameters that are dual now.
void set_tangents(const char* op, const ParameterList& parameters, std::span<const Tensor> v) {
  check_directions(op, parameters.states().size(), v.size());
  for (std::size_t i = 0; i < v.size(); ++i) {
    detail::ParameterState& p = *parameters.states()[i];
    check_direction(op, i, p.value.shape(), v[i]);
    ++p.version;
    const Tensor numbers = v[i].to(f64);
    auto* place = p.value.as<dual>();
    for (const double tangent : numbers.data<double>()) (place++)->tangent = p.trainable ? tangent : 0;
  }
}

dual number(const char* op, Var loss) {
  check(loss.value().count() == 1, "{}: a loss is one number, not {}", op, loss.shape());
  return *loss.value().as<dual>();
}

void push(HessianProduct& result, const ConstView& gradient) {
  result.gradient.push_back(values_of(gradient));
  result.product.push_back(tangents_of(gradient));
}

}  // namespace

Derivative jvp(const FunctionOfVars& f, std::span<const Tensor> x, std::span<const Tensor> v,
               const ForwardOptions& options) {
  const std::vector<Tensor> inputs = inputs_along("jvp", x, v);
  DualTape tape(options);
  const Var y = f(leaves(inputs));
  return {values_of(y.value()), tangents_of(y.value())};
}

HessianProduct hvp(const FunctionOfVars& f, std::span<const Tensor> x, std::span<const Tensor> v,
                   const ForwardOptions& options) {
  const std::vector<Tensor> inputs = inputs_along("hvp", x, v);
  DualTape tape(options);
  const std::vector<Var> vars = leaves(inputs);
  const Var loss = f(vars);
  const dual value = number("hvp", loss);
  tape->backward(loss);
  HessianProduct result{value.value, value.tangent, {}, {}};
  for (const Var var : vars)
    push(result, var.has_grad() ? var.grad() : ConstView(Tensor(var.shape(), DType::dual)));
  return result;
}

Derivative jvp(const std::function<Var()>& f, const ParameterList& parameters, std::span<const Tensor> v,
               const ForwardOptions& options) {
  const Cast cast(parameters, DType::dual);
  set_tangents("jvp", parameters, v);
  DualTape tape(options);
  const Var y = f();
  return {values_of(y.value()), tangents_of(y.value())};
}

HessianProduct hvp(const std::function<Var()>& loss, const ParameterList& parameters, std::span<const Tensor> v,
                   const ForwardOptions& options) {
  const Cast cast(parameters, DType::dual);
  set_tangents("hvp", parameters, v);
  DualTape tape(options);
  const Var y = loss();
  const dual value = number("hvp", y);
  tape->backward(y);
  HessianProduct result{value.value, value.tangent, {}, {}};
  for (const auto& p : parameters.states()) push(result, p->gradient);
  return result;
}

std::vector<Tensor> random_direction(const ParameterList& parameters, std::uint64_t seed) {
  std::vector<Tensor> result;
  for (const auto& p : parameters.states()) {
    Rng rng = Rng(seed).split(result.size());
    result.emplace_back(p->value.shape(), f64);
    fill_normal(result.back(), rng);
  }
  return result;
}

Tensor dual_of(const ConstView& value, const ConstView& tangent) {
  check(value.shape() == tangent.shape(), "dual_of: values {} and tangents {}", value.shape(), tangent.shape());
  Tensor result = Tensor::copy_of(value).to(DType::dual);
  const Tensor tangents = Tensor::copy_of(tangent).to(f64);
  auto* place = result.data<dual>().data();
  for (const double number : tangents.data<double>()) (place++)->tangent = number;
  return result;
}

Tensor values_of(const ConstView& x) { return Tensor::copy_of(x).to(f64); }

Tensor tangents_of(const ConstView& x) {
  Tensor result(x.shape(), f64);
  if (x.dtype() != DType::dual) return result;
  const Tensor numbers = Tensor::copy_of(x);
  double* place = result.data<double>().data();
  for (const dual& number : numbers.data<dual>()) *place++ = number.tangent;
  return result;
}

}  // namespace attune
