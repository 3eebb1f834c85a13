// Gpt: how it is put together, what it holds, that it learns, and what its cache gives.
#include "attune/layers/gpt.h"

#include "../lib/kernel_check.h"
#include "attune/autograd/checkpoint.h"
#include "attune/autograd/gradcheck.h"
#include "attune/layers/data.h"
#include "attune/layers/optim.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

Gpt make_gpt() { return Gpt({.vocab = 7, .context = 5, .layers = 2, .heads = 2, .width = 8}, Rng(1)); }

Tensor tokens() { return tensor({{1, 2, 3, 4}, {0, 6, 5, 2}}, i32); }
Tensor targets() { return tensor({{2, 3, 4, 5}, {6, 5, 2, 1}}, i32); }

Tensor logits(const Gpt& model, const Tensor& ids) {
  const NoGrad scope;
  return Tensor::copy_of(model(ids).value());
}

std::vector<std::string> names(const Gpt& model) {
  std::vector<std::string> result;
  for_each_parameter(model, [&](const std::string& name, const Parameter&) { result.push_back(name); });
  return result;
}

double deviation(const Parameter& p) {
  return std::sqrt(kernels::squared_norm(p.value()) / static_cast<double>(p.count()));
}

}  // namespace

TEST_CASE("gpt: logits for each token") {
  const Gpt model = make_gpt();
  CHECK(logits(model, tokens()).shape() == Shape{2, 4, 7});
  CHECK(logits(model, Tensor({1, 1}, i32)).shape() == Shape{1, 1, 7});
  CHECK(logits(model, Tensor({3, 5}, i32)).shape() == Shape{3, 5, 7});
  CHECK(logits(model, Tensor({0, 4}, i32)).shape() == Shape{0, 4, 7});
  CHECK(logits(model, Tensor({2, 0}, i32)).shape() == Shape{2, 0, 7});
}

TEST_CASE("gpt: embeddings, blocks, a norm, and the embedding once more") {
  const Gpt model = make_gpt();
  const NoGrad scope;
  const Var ids = tokens();
  const Var words = model.token(ids);
  const Var places = model.position(tensor({0, 1, 2, 3}, i32));
  Var x = words + places;
  for (const TransformerBlock& block : model.blocks) x = block(x);
  const Var head = t(Var(model.token.weight));
  CHECK(same_bits(matmul(model.norm(x), head).value(), model(ids).value()));
}

TEST_CASE("gpt: a sequence of the batch depends on itself alone, and a token on what came before") {
  const Gpt model = make_gpt();
  const Tensor before = logits(model, tokens());
  Tensor changed = tokens();
  changed.set({0, 2}, 0);
  const Tensor after = logits(model, changed);
  CHECK(same_bits(after.view().select(0, 1), before.view().select(0, 1)));
  CHECK(same_bits(after.view().select(0, 0).slice(0, 0, 2), before.view().select(0, 0).slice(0, 0, 2)));
  for (Index t = 2; t < 4; ++t)
    CHECK_FALSE(same_bits(after.view().select(0, 0).select(0, t), before.view().select(0, 0).select(0, t)));
}

TEST_CASE("gpt: its parameters by name") {
  CHECK(names(Gpt({.vocab = 3, .context = 2, .layers = 1, .heads = 1, .width = 4}, Rng(0))) ==
        std::vector<std::string>{"token.weight", "position.weight", "blocks.0.norm1.weight",
                                 "blocks.0.norm1.bias", "blocks.0.attention.qkv.weight",
                                 "blocks.0.attention.out.weight", "blocks.0.norm2.weight",
                                 "blocks.0.norm2.bias", "blocks.0.mlp.up.weight", "blocks.0.mlp.down.weight",
                                 "norm.weight", "norm.bias"});
  CHECK(names(Gpt({.vocab = 3, .context = 2, .layers = 1, .heads = 1, .width = 4, .bias = true}, Rng(0))) ==
        std::vector<std::string>{
            "token.weight", "position.weight", "blocks.0.norm1.weight", "blocks.0.norm1.bias",
            "blocks.0.attention.qkv.weight", "blocks.0.attention.qkv.bias", "blocks.0.attention.out.weight",
            "blocks.0.attention.out.bias", "blocks.0.norm2.weight", "blocks.0.norm2.bias",
            "blocks.0.mlp.up.weight", "blocks.0.mlp.up.bias", "blocks.0.mlp.down.weight",
            "blocks.0.mlp.down.bias", "norm.weight", "norm.bias"});
}

TEST_CASE("gpt: how many numbers nanoGPT's small model holds") {
  const Gpt model({.vocab = 65, .context = 64, .layers = 4, .heads = 4, .width = 128}, Rng(0));
  CHECK(parameter_count(model) == 805248);
}

TEST_CASE("gpt: the initial weights have the deviations of GPT-2") {
  const Gpt model({.vocab = 300, .context = 200, .layers = 8, .heads = 2, .width = 128}, Rng(3));
  for (const Parameter* p : {&model.token.weight, &model.position.weight,
                             &model.blocks[3].attention.qkv.weight, &model.blocks[3].mlp.up.weight})
    CHECK(deviation(*p) == doctest::Approx(0.02).epsilon(0.02));
  for (const Parameter* p : {&model.blocks[3].attention.out.weight, &model.blocks[7].mlp.down.weight})
    CHECK(deviation(*p) == doctest::Approx(0.02 / 4).epsilon(0.02));  // 0.02 / sqrt(2 * 8)
}

TEST_CASE("gpt: the same seed gives the same bits, another one others") {
  const auto made = [](std::uint64_t seed) {
    return Gpt({.vocab = 7, .context = 5, .layers = 1, .heads = 2, .width = 8}, Rng(seed));
  };
  CHECK(same_bits(logits(made(5), tokens()), logits(made(5), tokens())));
  CHECK_FALSE(same_bits(logits(made(5), tokens()), logits(made(6), tokens())));
}

TEST_CASE("gpt: before it has learned anything, its loss is that of a guess") {
  const Gpt model({.vocab = 65, .context = 64, .layers = 4, .heads = 4, .width = 128}, Rng(1));
  const NoGrad scope;
  const Tensor ids = random({4, 64}, i32, 1, 0, 65), next = random({4, 64}, i32, 2, 0, 65);
  CHECK(cross_entropy(model(ids), next).item() == doctest::Approx(std::log(65.0)).epsilon(0.02));
}

TEST_CASE("gpt: the gradient of the tied embedding is the sum of its two uses") {
  Gpt model = make_gpt();
  const Cast cast(model, f64);
  {
    Tape tape;
    tape.backward(cross_entropy(model(tokens()), targets()));
  }
  Tape tape;
  const Tensor table = Tensor::copy_of(model.token.weight.value());
  const Var input = variable(table);
  const Var output_table = variable(table.clone());
  const Var words = embedding(input, tokens());
  Var x = words + slice(model.position.weight, 0, 0, 4);
  for (const TransformerBlock& block : model.blocks) x = block(x);
  const Var last = model.norm(x);
  const Var head = t(output_table);
  GradientSet elsewhere(model);
  tape.backward(cross_entropy(matmul(last, head), targets()), elsewhere);
  Tensor both = Tensor::copy_of(input.grad());
  CHECK(kernels::squared_norm(both) > 0);
  kernels::copy(Out(both.view(), true), output_table.grad());
  check_close(model.token.weight.grad(), values(both), 1e-13, 1e-15);
}

TEST_CASE("gpt: positions that no token took get no gradient but zeros") {
  Gpt model = make_gpt();
  Tape tape;
  tape.backward(cross_entropy(model(tokens()), targets()));
  const ConstView gradient = model.position.weight.grad();
  CHECK(kernels::squared_norm(gradient.slice(0, 4, 5)) == 0);
  for (Index t = 0; t < 4; ++t) CHECK(kernels::squared_norm(gradient.slice(0, t, t + 1)) > 0);
}

TEST_CASE("gpt: every parameter gets a gradient") {
  for (const bool bias : {false, true}) {
    Gpt model({.vocab = 7, .context = 5, .layers = 2, .heads = 2, .width = 8, .bias = bias}, Rng(1));
    flatten(model);
    Tape tape;
    tape.backward(cross_entropy(model(tokens()), targets()));
    for (const ParameterReport& line : tape.report())
      CHECK_MESSAGE(line.gradient == ParameterReport::Gradient::reached, line.parameter, ": ", line.ended_at);
    CHECK(tape.report().size() == names(model).size());
  }
}

TEST_CASE("gpt: another scale on the scores is used") {
  const auto scores = [](const Scale& scale) {
    const Gpt model({.vocab = 7, .context = 5, .layers = 1, .heads = 2, .width = 32, .scale = scale}, Rng(1));
    Tensor seen;
    const NoGrad scope;
    const Observer watch([&](const TapPoint& at) {
      if (at.name == "scores") seen = Tensor::copy_of(at.value.value());
    });
    model(tokens());
    return seen;
  };
  const Tensor usual = scores({}), unscaled = scores(Scale::none());
  Tensor quarter(unscaled.shape());
  kernels::scale(quarter, unscaled, 0.25);
  CHECK(same_bits(usual, quarter));  // d = 16, and a power of two loses nothing
}

TEST_CASE("gpt: what is refused") {
  const Gpt model = make_gpt();
  CHECK_THROWS_WITH_AS(logits(model, Tensor({2, 6}, i32)),
                       "gpt: 6 tokens do not fit into a context of 5",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(logits(model, Tensor({4}, i32)),
                       "gpt: tokens [4] are not [batch, time]",
                       std::invalid_argument);
  CHECK_THROWS_AS(logits(model, tensor({{1, 7}}, i32)), std::invalid_argument);
  CHECK_THROWS_WITH_AS(Gpt({.vocab = 7, .context = 5, .layers = 0, .heads = 2, .width = 8}, Rng(1)),
                       "gpt: vocab 7, context 5, layers 0 and width 8 must be at least 1",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(Gpt({.vocab = 0, .context = 5, .layers = 1, .heads = 2, .width = 8}, Rng(1)),
                       "gpt: vocab 0, context 5, layers 1 and width 8 must be at least 1",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(Gpt({.vocab = 7, .context = 5, .layers = 1, .heads = 3, .width = 8}, Rng(1)),
                       "attention: a width of 8 does not divide among 3 heads", std::invalid_argument);
  const auto refused = [](auto&& change, const char* message) {
    GptOptions options{.vocab = 7, .context = 5, .layers = 1, .heads = 2, .width = 8};
    change(options);
    CHECK_THROWS_WITH_AS(Gpt(options, Rng(1)), message, std::invalid_argument);
  };
  refused([](GptOptions& o) { o.width = -8; },
          "gpt: vocab 7, context 5, layers 1 and width -8 must be at least 1");
  refused([](GptOptions& o) { o.hidden = -4; }, "mlp: a hidden width of -4 is negative");
  refused([](GptOptions& o) { o.kv_heads = -2; }, "attention: 2 heads do not share -2 heads of keys and values");
  refused([](GptOptions& o) { o.dropout = 2; }, "attention: a dropout of 2 is not between 0 and 1");
  refused([](GptOptions& o) { o.dropout = -0.5; }, "attention: a dropout of -0.5 is not between 0 and 1");
  refused([](GptOptions& o) { o.softcap = -1; }, "attention: a softcap of -1 is below 0");
}

TEST_CASE("gpt: it learns one batch by heart") {
  Gpt model({.vocab = 7, .context = 5, .layers = 1, .heads = 2, .width = 32}, Rng(1));
  AdamW optimizer(model, {.lr = 1e-2, .decay = 0});
  double loss = 0;
  for (int step = 0; step < 100; ++step) {
    Tape tape;
    const Var error = cross_entropy(model(tokens()), targets());
    tape.backward(error);
    optimizer.step();
    loss = error.item();
  }
  CHECK(loss < 0.01);
}

TEST_CASE("gpt: it learns to copy sequences that it has not seen") {
  const CopyTask task({.symbols = 4, .length = 4, .seed = 1});
  Gpt model({.vocab = task.vocab(), .context = task.context(), .layers = 2, .heads = 2, .width = 32}, Rng(1));
  AdamW optimizer(model, {.clip = 1});
  const WarmupCosine schedule{.lr = 1e-2, .min_lr = 1e-3, .warmup = 20, .total = 400};
  for (Index step = 0; step < 400; ++step) {
    const Batch batch = task.batch(step, 32);
    optimizer.set_lr(schedule(step));
    Tape tape;
    tape.backward(cross_entropy(model(batch.inputs), batch.targets));
    optimizer.step();
  }
  const Batch unseen = task.batch(1000, 64);
  const NoGrad scope;
  CHECK(cross_entropy(model(unseen.inputs), unseen.targets).item() < 0.01);
}

// -- Every kind of model that the options describe.

namespace {

std::vector<GptOptions> kinds() {
  const GptOptions usual{.vocab = 7, .context = 9, .layers = 2, .heads = 4, .width = 16, .deviation = 0.3};
  GptOptions modern = usual;
  modern.kv_heads = 2;
  modern.positions = Positions::rope;
  modern.normalize = Normalize::rms;
  modern.activation = Activation::swiglu;
  modern.tied = false;
  GptOptions single = usual;
  single.kv_heads = 1;
  single.softcap = 3;
  single.activation = Activation::silu;
  GptOptions biased = usual;
  biased.bias = true;
  biased.tied = false;
  biased.activation = Activation::gelu_tanh;
  return {usual, modern, single, biased};
}

Tensor nine_tokens() { return tensor({{1, 2, 3, 4, 0, 6, 5, 2, 1}, {6, 6, 0, 1, 5, 3, 2, 4, 2}}, i32); }
Tensor nine_targets() { return tensor({{2, 3, 4, 0, 6, 5, 2, 1, 3}, {6, 0, 1, 5, 3, 2, 4, 2, 0}}, i32); }

}  // namespace

TEST_CASE("gpt: the names that its options bring") {
  const std::vector<std::string> modern = names(Gpt(kinds()[1], Rng(1)));
  CHECK(modern == std::vector<std::string>{
                      "token.weight", "blocks.0.norm1.weight", "blocks.0.attention.qkv.weight",
                      "blocks.0.attention.out.weight", "blocks.0.norm2.weight", "blocks.0.mlp.up.weight",
                      "blocks.0.mlp.gate.weight", "blocks.0.mlp.down.weight", "blocks.1.norm1.weight",
                      "blocks.1.attention.qkv.weight", "blocks.1.attention.out.weight", "blocks.1.norm2.weight",
                      "blocks.1.mlp.up.weight", "blocks.1.mlp.gate.weight", "blocks.1.mlp.down.weight", "norm.weight",
                      "head.weight"});
}

TEST_CASE("gpt: gradients of every kind, against differences") {
  for (const GptOptions& options : kinds()) {
    Gpt model(options, Rng(1));
    const Cast cast(model, f64);
    const GradcheckReport report =
        gradcheck_parameters(ParameterList(model), [&] { return cross_entropy(model(nine_tokens()), nine_targets()); },
                             {.tolerance = 1e-7, .elements = 20});
    CHECK_MESSAGE(report.passed(), report.text());
  }
}

TEST_CASE("gpt: with dropout, gradients of what was computed") {
  GptOptions options = kinds()[1];
  options.dropout = 0.2;
  Gpt model(options, Rng(1));
  const Cast cast(model, f64);
  const GradcheckReport report =
      gradcheck_parameters(ParameterList(model), [&] { return cross_entropy(model(nine_tokens()), nine_targets()); },
                           {.tolerance = 1e-7, .elements = 20});
  CHECK_MESSAGE(report.passed(), report.text());
}

TEST_CASE("gpt: checkpointed blocks leave the bits, with dropout") {
  GptOptions options = kinds()[1];
  options.dropout = 0.2;
  Gpt model(options, Rng(1));
  const auto gradients = [&](bool again) {
    Rng random(3);
    {
      Tape tape({.random = &random});
      Var x = model.token(nine_tokens());
      for (const TransformerBlock& block : model.blocks)
        x = again ? checkpoint([&block](Var y) { return block(y); }, x) : block(x);
      const Var last = model.norm(x);
      tape.backward(cross_entropy(model.head(last), nine_targets()));
    }
    std::vector<double> all;
    for_each_parameter(model, [&](const std::string&, Parameter& p) {
      const std::vector<double> gradient = values(p.grad());
      all.insert(all.end(), gradient.begin(), gradient.end());
      p.zero_grad();
    });
    return all;
  };
  CHECK(gradients(false) == gradients(true));
}

TEST_CASE("B14: a cache gives the logits of the whole to the bit, however the sequence is cut") {
  for (const GptOptions& options : kinds())
    for (const DType dtype : {f32, f64}) {
      Gpt model(options, Rng(1));
      const Cast cast(model, dtype);
      const Tensor ids = nine_tokens(), whole = logits(model, ids);
      for (const std::vector<Index>& cuts : std::vector<std::vector<Index>>{
               {9}, {3, 2, 4}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 8}, {8, 1}, {2, 0, 7}}) {
        const NoGrad scope;
        GptCache cache = model.cache(2);
        Index begin = 0;
        for (const Index count : cuts) {
          const Var part = slice(ids, 1, begin, begin + count);
          CHECK(same_bits(model(part, cache).value(), whole.view().slice(1, begin, begin + count)));
          begin += count;
        }
        CHECK(cache.length() == 9);
      }
    }
}

TEST_CASE("B14: ... of one sequence as of a batch, in blocks of keys that fill and that do not") {
  const Gpt model({.vocab = 7, .context = 200, .layers = 2, .heads = 2, .width = 32, .positions = Positions::rope},
                  Rng(2));
  const Tensor ids = random({2, 200}, i32, 1, 0, 7), whole = logits(model, ids);
  const NoGrad scope;
  GptCache cache = model.cache(1);
  Index begin = 0;
  for (const Index count : {63, 1, 1, 62, 1, 72}) {
    const Var part = slice(ids, 1, begin, begin + count);
    const Var first = slice(part, 0, 0, 1);
    CHECK(same_bits(model(first, cache).value(), whole.view().slice(0, 0, 1).slice(1, begin, begin + count)));
    begin += count;
  }
}

TEST_CASE("gpt: what a cache refuses, changing nothing") {
  const Gpt model = make_gpt();
  const Gpt other({.vocab = 7, .context = 5, .layers = 1, .heads = 2, .width = 8}, Rng(1));
  const NoGrad scope;
  GptCache cache = model.cache(2);
  model(tokens(), cache);
  CHECK_THROWS_WITH_AS(model(tokens(), cache), "gpt: 8 tokens do not fit into a context of 5", std::invalid_argument);
  CHECK_THROWS_WITH_AS(other(tensor({{1}, {2}}, i32), cache), "gpt: a cache of 2 layers does not fit a model of 1",
                       std::invalid_argument);
  CHECK_THROWS_AS(model(tensor({{1}}, i32), cache), std::invalid_argument);
  CHECK(cache.length() == 4);
  cache.truncate(2);
  CHECK(cache.length() == 2);
  const Tape tape;
  CHECK_THROWS_WITH_AS(model(tensor({{1}, {2}}, i32), cache),
                       "attention: a cache holds no gradients: read it under NoGrad", std::invalid_argument);
}
