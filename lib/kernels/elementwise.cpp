#include "attune/lib/kernels/elementwise.h"

#include <cmath>

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
         std::initializer_list<const ConstView*> inputs) {
  if (!y) return;
  check(is_float(y.view.dtype()), "{}: {} has no arithmetic", op, y.view.dtype());
  Loop(op, y, std::span(inputs.begin(), inputs.size())).run(bodies, y.view.dtype(), cost);
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
  visit(y.view.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, std::int32_t>)
      check(value >= -0x1p31 && value < 0x1p31 && value == std::trunc(value),
            "fill: {} is not an integer that i32 can hold", value);
    T element{};
    if constexpr (std::is_same_v<T, dual>) element.value = value;
    else element = static_cast<T>(value);
    copy(y, ConstView(&element, Shape{}, y.view.dtype()));
  });
}

void scale(const Out& y, const ConstView& x, double factor) {
  if (!y) return;
  const ConstView* inputs[] = {&x};
  check(is_float(y.view.dtype()), "scale: {} has no arithmetic", y.view.dtype());
  Loop loop("scale", y, inputs);
  loop.arguments().parameters[0] = factor;
  loop.run(table().scale, y.view.dtype(), 1);
}

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

}  // namespace attune::kernels
