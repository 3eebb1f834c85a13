// The program of the README: a transformer that learns to copy, in twenty lines.
#include "attune/attune.h"
using namespace attune;

int main() {
  const CopyTask task({.symbols = 10, .length = 15, .seed = 42});
  Gpt model({.vocab = task.vocab(), .context = task.context(), .layers = 2, .heads = 4, .width = 64}, Rng(42));
  AdamW optimizer(model, {.lr = 1e-3});
  for (int step = 0; step < 500; ++step) {
    const Batch batch = task.batch(step, 32);  // the same batch for the same seed and step
    Tape tape;                                 // remembers what follows; forgets it when the scope ends
    const Var loss = cross_entropy(model(batch.inputs), batch.targets);
    tape.backward(loss);
    optimizer.step();
    if (step % 100 == 0) fmt::print("step {:4}  loss {:.4f}\n", step, loss.item());
  }
}
