// What another implementation computed: values and gradients of ops of one operand, in f64 to the last
// digits, and in f32.
#include "../support/golden.h"

#include "attune/autograd/ops.h"

using namespace attune;
using attune::golden::File;

namespace {

void compare(const char* name, Var (*op)(Var), File::Zeros zeros = File::Zeros::exact) {
  if (!golden::available()) return;
  const File file(name);
  for (const DType dtype : {f64, f32}) {
    if (dtype == f32 && file.is_nasty()) continue;  // not for plain f32 code
    Tape tape;
    const Var x = variable(file.as("in.x", dtype)), y = op(x);
    tape.backward(y, file.as("up.y", dtype));
    file.compare("out.y", y.value(), zeros);
    file.compare("grad.x", x.grad(), zeros);
  }
}

}  // namespace

TEST_CASE("golden: softmax") {
  compare("softmax", [](Var x) { return softmax(x); });
}
TEST_CASE("golden: gelu") { compare("gelu", gelu); }
// 1 + tanh rounds to 0 where our form still has the digits of 1e-61.
TEST_CASE("golden: gelu's tanh form") { compare("gelu_tanh", gelu_tanh, File::Zeros::rounded); }
TEST_CASE("golden: silu") { compare("silu", silu); }

TEST_CASE("golden: gelu as ONNX tests it") {
  if (!golden::available()) return;
  const File file("onnx_gelu_default_2");
  const NoGrad scope;
  file.compare("out.0", gelu(file.as("in.0", f32)).value());
  file.compare("out64.0", gelu(file.as("in.0", f64)).value());
}
