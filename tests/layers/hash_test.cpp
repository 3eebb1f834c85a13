// The contract of the same bits: a short training run leaves the same parameters, bit by bit, in every build,
// with every compiler, on every instruction set and for any number of threads. training_hash.txt holds their
// hash.
//
// It changes only with a reason that can be stated, such as another order of summation in a kernel; then the
// message below says what to write there.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <string>

#include "attune/layers/data.h"
#include "attune/layers/optim.h"
#include "attune/layers/gpt.h"
#include "attune/lib/kernels/rows.h"
#include "attune/lib/threads.h"

using namespace attune;

namespace {

// FNV-1a of 64 bits (Fowler, Noll & Vo).
class Hash {
 public:
  void add(const ConstView& numbers) {
    const auto* bytes = static_cast<const unsigned char*>(numbers.data());
    const Index count = numbers.count() * size_of(numbers.dtype());
    for (Index i = 0; i < count; ++i) state_ = (state_ ^ bytes[i]) * 0x100000001b3;
  }
  std::string text() const { return fmt::format("{:016x}", state_); }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325;
};

// 480 tokens a step, so that products over them take more than one block, and sizes that fill no vector.
std::string hash_after_training() {
  const CopyTask task({.symbols = 10, .length = 15, .seed = 42});
  Gpt model(
      {.vocab = task.vocab(), .context = task.context(), .layers = 2, .heads = 4, .width = 36, .bias = true},
      Rng(42));
  AdamW optimizer(model, {.decay = 0.1, .clip = 1});
  const WarmupCosine schedule{.lr = 3e-3, .min_lr = 1e-4, .warmup = 4, .total = 12};
  for (Index step = 0; step < 12; ++step) {
    const Batch batch = task.batch(step, 16);
    optimizer.set_lr(schedule(step));
    Tape tape;
    tape.backward(cross_entropy(model(batch.inputs), batch.targets));
    optimizer.step();
  }
  Hash hash;
  for_each_parameter(model, [&](const std::string&, const Parameter& p) { hash.add(p.value()); });
  return hash.text();
}

std::string committed_hash() {
  std::ifstream file(ATTUNE_SOURCE_DIR "/tests/layers/training_hash.txt");
  std::string hash;
  file >> hash;
  return hash;
}

// The row and the threads as they were.
class Restore {
 public:
  ~Restore() {
    set_row(row_);
    set_threads(threads_);
  }

 private:
  std::string row_{row()};
  int threads_ = threads();
};

}  // namespace

TEST_CASE("the hash of a training run is the committed one, on every row and for any number of threads") {
  const Restore restore;
  const std::string expected = committed_hash();
  REQUIRE(expected.size() == 16);
  for (const std::string& name : supported_rows())
    for (const int count : {1, 2, 3, 8}) {
      set_row(name);
      set_threads(count);
      const std::string hash = hash_after_training();
      CHECK_MESSAGE(hash == expected, name, " with ", count, " threads: ", hash,
                    ", and training_hash.txt has ", expected);
    }
}

TEST_CASE("the hash depends on every byte") {
  const auto hash_of = [](const Tensor& numbers) {
    Hash hash;
    hash.add(numbers);
    return hash.text();
  };
  CHECK(hash_of(Tensor({0})) == "cbf29ce484222325");
  CHECK(hash_of(Tensor({1}, i32)) == "4d25767f9dce13f5");
  CHECK(hash_of(tensor({0, 0})) != hash_of(tensor({0, -0.0})));
  CHECK(hash_of(tensor({1, 2})) != hash_of(tensor({2, 1})));
}
