// What a user's first program may be: the consumers of the package are all built from this.
#include <attune/attune.h>
#include <fmt/format.h>

using namespace attune;

int main() {
  Tape tape;
  const Var x = variable(tensor({{1, 2}, {3, 4}}));
  tape.backward(sum(x * x));
  fmt::print("attune {}: the gradient of sum(x * x) is {}\n", version(), x.grad());
}
