// The contract of the same bits: what is computed is the same, bit by bit, in every build, with every compiler, on every
// instruction set and for any number of threads. hashes.txt holds the hashes, a name and a hash a line: of the
// parameters after two short training runs, and of each form of attention with its gradients.
//
// They change only with a reason that can be stated, such as another order of summation in a kernel; then the message
// below says what to write there.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <string>

#include "attune/layers/data.h"
#include "attune/layers/composed_attention.h"
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
std::string hash_after_training(const GptOptions& options) {
  const CopyTask task({.symbols = 10, .length = 15, .seed = 42});
  Gpt model(options, Rng(42));
  AdamW optimizer(model, {.decay = 0.1, .clip = 1});
  const WarmupCosine schedule{.lr = 3e-3, .min_lr = 1e-4, .warmup = 4, .total = 12};
  Rng random(7);
  for (Index step = 0; step < 12; ++step) {
    const Batch batch = task.batch(step, 16);
    optimizer.set_lr(schedule(step));
    Tape tape({.random = &random});
    tape.backward(cross_entropy(model(batch.inputs), batch.targets));
    optimizer.step();
  }
  Hash hash;
  for_each_parameter(model, [&](const std::string&, const Parameter& p) { hash.add(p.value()); });
  return hash.text();
}

std::string plain_training() {
  return hash_after_training({.vocab = 11, .context = 30, .layers = 2, .heads = 4, .width = 36, .bias = true});
}

// What came after GPT-2: rotary positions, RMSNorm, SwiGLU, grouped heads; with dropout everywhere.
std::string modern_training() {
  return hash_after_training({.vocab = 11,
                              .context = 30,
                              .layers = 2,
                              .heads = 6,
                              .kv_heads = 2,
                              .width = 36,
                              .tied = false,
                              .positions = Positions::rope,
                              .normalize = Normalize::rms,
                              .activation = Activation::swiglu,
                              .dropout = 0.1});
}

Tensor normal(const Shape& shape, std::uint64_t seed) {
  Tensor result(shape);
  Rng rng(seed);
  fill_normal(result.view(), rng);
  return result;
}

// Attention with everything at once, over several blocks of queries and keys, and its gradients.
std::string attention_hash(Var (*attend)(Var, Var, Var, const AttentionOptions&)) {
  Rng random(3);
  const Index lengths[] = {150, 61};
  Hash hash;
  Tape tape({.random = &random});
  const Var q = variable(normal({2, 4, 131, 17}, 1));
  const Var k = variable(normal({2, 2, 150, 17}, 2));
  const Var v = variable(normal({2, 2, 150, 23}, 3));
  const Var bias = variable(normal({4, 1, 150}, 4));
  const Var sinks = variable(normal({4}, 5));
  const Var y = attend(q, k, v,
                       {.mask = Mask::window(90) & Mask::padding(lengths),
                        .softcap = 5,
                        .bias = bias,
                        .sinks = sinks,
                        .dropout = 0.1});
  hash.add(Tensor::copy_of(y.value()));
  tape.backward(y, normal({2, 4, 131, 23}, 6));
  for (const Var x : {q, k, v, bias, sinks}) hash.add(Tensor::copy_of(x.grad()));
  return hash.text();
}

std::string fused_attention() { return attention_hash(attention); }
std::string composed_attention() {
  return attention_hash([](Var q, Var k, Var v, const AttentionOptions& options) {
    return detail::composed_attention(detail::prepare_attention(q, k, v, options)).y;
  });
}

std::string committed_hash(const std::string& name) {
  std::ifstream file(ATTUNE_SOURCE_DIR "/tests/layers/hashes.txt");
  for (std::string known, hash; file >> known >> hash;)
    if (known == name) return hash;
  return "";
}

// Under a sanitizer every row runs once, on more than one thread: what it looks for does not depend on how many.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kThreads[] = {2};
#else
constexpr int kThreads[] = {1, 2, 3, 8};
#endif

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

TEST_CASE("hashes of training runs and of attention are the committed ones, on every row and for any number of threads") {
  const std::pair<const char*, std::string (*)()> runs[] = {{"training", plain_training},
                                                            {"modern_training", modern_training},
                                                            {"fused_attention", fused_attention},
                                                            {"composed_attention", composed_attention}};
  const Restore restore;
  for (const auto& [name, run] : runs) {
    const std::string expected = committed_hash(name);
    for (const std::string& row : supported_rows())
      for (const int count : kThreads) {
        set_row(row);
        set_threads(count);
        const std::string hash = run();
        CHECK_MESSAGE(hash == expected, std::string(name), " on ", row, " with ", count, " threads: ", hash,
                      ", and hashes.txt has ", expected);
      }
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
