#include "attune/lib/kernels/elementwise.h"

#include <cmath>
#include <cstring>

#include "attune/lib/kernels/map_each.h"
#include "attune/lib/kernels/rowwise.h"
#include "attune/lib/kernels/run.h"

namespace attune::kernels {
namespace {

constexpr std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

// The operands of one call, the output first, stretched to its shape and with axes merged where that is possible.
class Loop {
 public:
  Loop(const char* op, const Out& y, std::span<const ConstView* const> inputs) {
    arguments_.accumulate = y.accumulate;
    arguments_.data[0] = y.view.data();
    bool flat = y.view.is_contiguous();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ConstView& x = *inputs[i];
      check(x.dtype() == y.view.dtype(), "{}: element types {} and {} differ", op, y.view.dtype(), x.dtype());
      arguments_.data[i + 1] = const_cast<void*>(x.data());
      flat = flat && x.is_contiguous() && x.shape() == y.view.shape();
    }
    arguments_.dense = flat;
    if (flat) [[likely]] {
      arguments_.outer_rank = 0;
      arguments_.inner_size = y.view.count();
      for (Index& stride : arguments_.inner_strides) stride = 1;
    } else {
      operands_ = static_cast<int>(inputs.size()) + 1;
      gather_axes(op, y.view, inputs);
    }
  }

  MapArguments& arguments() { return arguments_; }

  void run(const Bodies& bodies, DType type, Index cost) const { run(body_of(bodies, type), type, cost); }
  void run(Body body, DType type, Index cost) const {
    const Index blocks = (arguments_.inner_size + kMapBlock - 1) / kMapBlock;
    Index items = blocks;
    for (int axis = 0; axis < arguments_.outer_rank; ++axis) items *= arguments_.outer_sizes[axis];
    const Index block = arguments_.inner_size < kMapBlock ? arguments_.inner_size : kMapBlock;
    kernels::run(body, type, &arguments_, items, 8 + block * cost);
  }

 private:
  void gather_axes(const char* op, const View& y, std::span<const ConstView* const> inputs) {
    Strides strides[kMapOperands];
    strides[0] = y.strides();
    for (int o = 1; o < operands_; ++o) {
      const ConstView& x = *inputs[at(o - 1)];
      check(broadcasts_to(x.shape(), y.shape()), "{}: {} does not stretch to {}", op, x.shape(), y.shape());
      strides[o] = x.expand(y.shape()).strides();
    }
    Shape sizes;  // merged axes, the first the innermost
    Strides merged[kMapOperands] = {};
    for (int axis = y.rank() - 1; axis >= 0; --axis) {
      if (y.shape()[axis] == 1) continue;
      const int last = sizes.rank() - 1;
      bool merges = last >= 0;
      for (int o = 0; merges && o < operands_; ++o)
        merges = strides[o][at(axis)] == merged[o][at(last)] * sizes[last];
      if (merges) {
        sizes[last] *= y.shape()[axis];
      } else {
        for (int o = 0; o < operands_; ++o) merged[o][at(last + 1)] = strides[o][at(axis)];
        sizes.append(y.shape()[axis]);
      }
    }
    if (sizes.rank() == 0) sizes.append(1);
    arguments_.inner_size = sizes[0];
    arguments_.outer_rank = sizes.rank() - 1;
    for (int o = 0; o < operands_; ++o) arguments_.inner_strides[o] = merged[o][0];
    for (int outer = 0; outer < arguments_.outer_rank; ++outer) {
      const int from = sizes.rank() - 1 - outer;  // the outermost first
      arguments_.outer_sizes[outer] = sizes[from];
      for (int o = 0; o < operands_; ++o) arguments_.outer_strides[o][outer] = merged[o][at(from)];
    }
  }

  MapArguments arguments_;
  int operands_ = 0;
};

void map(const char* op, const Bodies& bodies, Index cost, const Out& y,
         std::initializer_list<const ConstView*> inputs, double first = 0, double second = 0) {
  if (!y) return;
  check(is_float(y.view.dtype()), "{}: {} has no arithmetic", op, y.view.dtype());
  Loop loop(op, y, std::span(inputs.begin(), inputs.size()));
  loop.arguments().parameters[0] = first;
  loop.arguments().parameters[1] = second;
  loop.run(bodies, y.view.dtype(), cost);
}

}  // namespace

void copy(const Out& y, const ConstView& x) {
  if (!y) return;
  const DType type = y.view.dtype();
  check(is_float(type) || !y.accumulate, "copy: i32 cannot accumulate");
  const ConstView* inputs[] = {&x};
  // The bits of an i32 move as those of an f32 do: a plain copy computes nothing.
  Loop("copy", y, inputs).run(table().copy, is_float(type) ? type : f32, 1);
}

void fill(const Out& y, double value) {
  if (!y) return;
  if (!is_float(y.view.dtype()))
    check(value >= -0x1p31 && value < 0x1p31 && value == std::trunc(value),
          "fill: {} is not an integer that i32 can hold", value);
  copy(y, Number(value, y.view.dtype()));
}

void scale(const Out& y, const ConstView& x, double factor) { map("scale", table().scale, 1, y, {&x}, factor); }

void add(const Out& y, const ConstView& a, const ConstView& b) { map("add", table().add, 1, y, {&a, &b}); }
void subtract(const Out& y, const ConstView& a, const ConstView& b) {
  map("subtract", table().subtract, 1, y, {&a, &b});
}
void multiply(const Out& y, const ConstView& a, const ConstView& b) {
  map("multiply", table().multiply, 1, y, {&a, &b});
}
void divide(const Out& y, const ConstView& a, const ConstView& b) { map("divide", table().divide, 2, y, {&a, &b}); }
void divide_backward(const Out& db, const ConstView& dy, const ConstView& y, const ConstView& b) {
  map("divide_backward", table().divide_backward, 2, db, {&dy, &y, &b});
}

void exp(const Out& y, const ConstView& x) { map("exp", table().exp, 4, y, {&x}); }
void log(const Out& y, const ConstView& x) { map("log", table().log, 4, y, {&x}); }
void erf(const Out& y, const ConstView& x) { map("erf", table().erf, 8, y, {&x}); }
void sin(const Out& y, const ConstView& x) { map("sin", table().sin, 8, y, {&x}); }
void cos(const Out& y, const ConstView& x) { map("cos", table().cos, 8, y, {&x}); }
void tanh(const Out& y, const ConstView& x) { map("tanh", table().tanh, 8, y, {&x}); }
void sqrt(const Out& y, const ConstView& x) { map("sqrt", table().square_root, 2, y, {&x}); }

void gelu(const Out& y, const ConstView& x) { map("gelu", table().gelu, 8, y, {&x}); }
void gelu_backward(const Out& dx, const ConstView& dy, const ConstView& x) {
  map("gelu_backward", table().gelu_backward, 8, dx, {&dy, &x});
}

void expm1(const Out& y, const ConstView& x) { map("expm1", table().expm1, 4, y, {&x}); }
void log1p(const Out& y, const ConstView& x) { map("log1p", table().log1p, 6, y, {&x}); }

void pow(const Out& y, const ConstView& a, const ConstView& b) { map("pow", table().power, 32, y, {&a, &b}); }
void pow_backward(const Out& da, const ConstView& dz, const ConstView& a, const ConstView& b) {
  map("pow_backward", table().power_backward, 32, da, {&dz, &a, &b});
}
void pow_exponent_backward(const Out& db, const ConstView& dz, const ConstView& z, const ConstView& a) {
  map("pow_exponent_backward", table().power_exponent_backward, 4, db, {&dz, &z, &a});
}

void tanh_backward(const Out& dx, const ConstView& dy, const ConstView& x) {
  map("tanh_backward", table().sigmoid_backward, 6, dx, {&dy, &x}, 4, 2);
}
void sigmoid(const Out& y, const ConstView& x) { map("sigmoid", table().sigmoid, 6, y, {&x}); }
void sigmoid_backward(const Out& dx, const ConstView& dy, const ConstView& x) {
  map("sigmoid_backward", table().sigmoid_backward, 6, dx, {&dy, &x}, 1, 1);
}
void softplus(const Out& y, const ConstView& x) { map("softplus", table().softplus, 8, y, {&x}); }

void relu(const Out& y, const ConstView& x) { map("relu", table().relu, 1, y, {&x}); }
void relu_backward(const Out& dx, const ConstView& dy, const ConstView& x) {
  const Number none(0, dx.view.dtype());
  map("relu_backward", table().where_positive, 1, dx, {&x, &dy, &none.view()});
}
void leaky_relu(const Out& y, const ConstView& x, double slope) {
  map("leaky_relu", table().leaky_relu, 1, y, {&x}, slope);
}
void leaky_relu_backward(const Out& dx, const ConstView& dy, const ConstView& x, double slope) {
  if (!dx) return;
  const View below = scratch(0, dy.shape(), dy.dtype());
  scale(below, dy, slope);
  const ConstView given = below;
  map("leaky_relu_backward", table().where_positive, 1, dx, {&x, &dy, &given});
}
void abs(const Out& y, const ConstView& x) { map("abs", table().absolute, 1, y, {&x}); }
void sign(const Out& y, const ConstView& x) { map("sign", table().sign, 1, y, {&x}); }
void clamp(const Out& y, const ConstView& x, double low, double high) {
  map("clamp", table().clamp, 1, y, {&x}, low, high);
}
void clamp_backward(const Out& dx, const ConstView& dy, const ConstView& x, double low, double high) {
  map("clamp_backward", table().clamp_backward, 1, dx, {&dy, &x}, low, high);
}

void maximum(const Out& y, const ConstView& a, const ConstView& b) {
  map("maximum", table().maximum, 1, y, {&a, &b});
}
void maximum_backward(const Out& da, const ConstView& dy, const ConstView& a, const ConstView& b) {
  map("maximum_backward", table().maximum_backward, 1, da, {&dy, &a, &b});
}
void minimum(const Out& y, const ConstView& a, const ConstView& b) {
  map("minimum", table().minimum, 1, y, {&a, &b});
}
void minimum_backward(const Out& da, const ConstView& dy, const ConstView& a, const ConstView& b) {
  map("minimum_backward", table().maximum_backward, 1, da, {&dy, &b, &a});  // a wins where b would lose
}

void where(const Out& y, const ConstView& condition, const ConstView& a, const ConstView& b) {
  if (!y) return;
  const DType type = y.view.dtype();
  check(condition.dtype() == i32, "where: a condition is i32, not {}", condition.dtype());
  check(is_float(type), "where: {} has no arithmetic", type);
  const View numbers = scratch(0, condition.shape(), type);  // 1 for true, 0 for false
  visit(type, [&]<class T>() {
    if constexpr (!std::is_same_v<T, std::int32_t>)
      walking::map_typed<T, std::int32_t, T>("where", numbers, [](std::int32_t on) { return on ? T{1} : T{0}; },
                                             condition);
  });
  const ConstView chosen = numbers;
  map("where", table().where_positive, 1, y, {&chosen, &a, &b});
}

namespace {
constexpr double kGeluLinear = 1.5957691216057308;   // 2 √(2/π)
constexpr double kGeluCubic = 0.07135481627260025;  // 0.044715 times that
}  // namespace
void gelu_tanh(const Out& y, const ConstView& x) {
  map("gelu_tanh", table().swish, 8, y, {&x}, kGeluLinear, kGeluCubic);
}
void gelu_tanh_backward(const Out& dx, const ConstView& dy, const ConstView& x) {
  map("gelu_tanh_backward", table().swish_backward, 8, dx, {&dy, &x}, kGeluLinear, kGeluCubic);
}
void silu(const Out& y, const ConstView& x) { map("silu", table().swish, 8, y, {&x}, 1, 0); }
void silu_backward(const Out& dx, const ConstView& dy, const ConstView& x) {
  map("silu_backward", table().swish_backward, 8, dx, {&dy, &x}, 1, 0);
}

Number::Number(double number, DType dtype) : view_(bits_, Shape{}, dtype) {
  visit(dtype, [&]<class T>() {
    T element{};
    if constexpr (std::is_same_v<T, dual>) element.value = number;
    else element = static_cast<T>(number);
    std::memcpy(bits_, &element, sizeof element);
  });
}

void divergence(const Out& y, const ConstView& t, const ConstView& x) {
  map("divergence", table().divergence, 6, y, {&t, &x});
}
void divergence_backward(const Out& dt, const ConstView& dy, const ConstView& t, const ConstView& x) {
  map("divergence_backward", table().divergence_backward, 6, dt, {&dy, &t, &x});
}
void binary_entropy(const Out& y, const ConstView& x, const ConstView& t) {
  map("binary_entropy", table().binary_entropy, 12, y, {&x, &t});
}
void binary_entropy_backward(const Out& dx, const ConstView& dy, const ConstView& x, const ConstView& t) {
  map("binary_entropy_backward", table().binary_entropy_backward, 8, dx, {&dy, &x, &t});
}

}  // namespace attune::kernels
