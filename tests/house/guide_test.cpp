// The code in README.md and GUIDE.md, run: each of their blocks stands here word for word (or in an example), and
// around it what it takes for granted, and what it promises. tests/house/readme_test.cpp compares.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "attune/attune.h"

using namespace attune;

namespace {

// y = x / (1 + |x|), element by element.
Var softsign(Var x) {
  Var y = output(x.shape(), {x});  // room for the result; backward will read x
  kernels::map_each(into(y), x.value(), [](auto at) { return at / (1 + (at < 0 ? -at : at)); });
  return record("softsign", y, [=] {  // the rule: what it captures, by value, is what the op saves
    if (Out d = add_to(x))            // dx += dy / (1 + |x|)²
      kernels::map_each(d, y.grad(), x.value(), [](auto dy, auto at) {
        const auto root = 1 + (at < 0 ? -at : at);
        return dy / (root * root);
      });
  });
}

struct Translator {
  Embedding token;
  EncoderLayer encoder;
  DecoderLayer decoder;
  Linear head;

  Translator(Index vocab, Index width, Rng rng)
      : token({.tokens = vocab, .width = width}, rng),
        encoder({.width = width, .heads = 2}, rng),
        decoder({.width = width, .heads = 2}, rng),
        head({.in = width, .out = vocab}, rng) {}

  void each(auto&& visit) {
    visit("token", token), visit("encoder", encoder), visit("decoder", decoder), visit("head", head);
  }
};

const CopyTask& small_task() {
  static const CopyTask task({.symbols = 4, .length = 4, .seed = 1});
  return task;
}

Gpt small_model(int layers = 1) {
  const CopyTask& task = small_task();
  return Gpt({.vocab = task.vocab(), .context = task.context(), .layers = layers, .heads = 2, .width = 16}, Rng(1));
}

// A path in the folder for such files, with nothing there.
std::filesystem::path fresh_path(const char* name) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("attune-guide-{}-{}", name, getpid());
  std::filesystem::remove(path);
  return path;
}

std::vector<float> numbers_of(Gpt& model) {
  std::vector<float> all;
  for_each_parameter(model, [&](const std::string&, const Parameter& p) {
    const float* at = p.value().as<float>();
    all.insert(all.end(), at, at + p.count());
  });
  return all;
}

}  // namespace

TEST_CASE("README: gradcheck of a function") {
  Tensor x = tensor({{0.1, -0.4}, {0.7, 0.2}}, f64);
  const GradcheckReport report = gradcheck([](Var v) { return softmax(v * exp(v)); }, x);
  const std::string text = report.text();  // per input: shape, largest derivative, error; where it is wrong, both numbers
  CHECK_MESSAGE(report.passed(), text);
}

TEST_CASE("README: gradcheck of a model") {
  const CopyTask& task = small_task();
  Gpt model = small_model();
  const Batch batch = task.batch(0, 2);
  const Cast as_f64(model, f64);  // until the end of the scope; then the f32 bits are back
  const GradcheckReport report = gradcheck_parameters(
      ParameterList(model), [&] { return cross_entropy(model(batch.inputs), batch.targets); });
  CHECK_MESSAGE(report.passed(), report.text());
}

TEST_CASE("GUIDE: numbers, a tape, gradients") {
  const Tensor x = tensor({{1, 2}, {3, 4}});      // f32 [2, 2]; a constant where an op sees it
  Tape tape;                                      // everything from here on is remembered, until the scope ends
  const Var w = variable(tensor({{0.5}, {-1}}));  // [2, 1], with a gradient
  const Var y = sum(tanh(matmul(x, w)));
  tape.backward(y);
  const ConstView slope = w.grad();               // dy/dw [2, 1]: lives as long as the tape
  const double first = 1 - std::pow(std::tanh(-1.5), 2), second = 1 - std::pow(std::tanh(-2.5), 2);
  CHECK(slope.at({0, 0}) == doctest::Approx(first + 3 * second));
  CHECK(slope.at({1, 0}) == doctest::Approx(2 * first + 4 * second));
}

TEST_CASE("GUIDE: an op of one's own") {
  Tensor x = tensor({-2, -0.3, 0.4, 3}, f64);
  const bool right = gradcheck(softsign, x).passed();
  CHECK(right);
  const NoGrad scope;
  CHECK(softsign(x).value().at({3}) == doctest::Approx(0.75));
}

TEST_CASE("GUIDE: who got no gradient") {
  Gpt model = small_model();
  const Batch batch = small_task().batch(0, 2);
  flatten(model);
  std::string lost;
  Tape tape;
  const Var logits = detach(model(batch.inputs));  // a mistake
  const Var scaled = logits * variable(tensor(2));
  tape.backward(cross_entropy(scaled, batch.targets));
  for (const ParameterReport& line : tape.report())
    if (line.gradient == ParameterReport::Gradient::missing) lost += line.parameter + ": " + line.ended_at + "\n";
  CHECK(lost.find("token.weight: ") != std::string::npos);
  CHECK(lost.find("detach") != std::string::npos);
}

TEST_CASE("GUIDE: masks and their picture") {
  const Mask mask = Mask::window(3) & Mask::padding({6, 4});  // two sequences, of 6 and of 4 tokens
  const std::string words = fmt::format("{}", mask);
  const std::string picture = draw_mask(mask, 6, 6, 1);       // of batch entry 1
  CHECK(words == "window(3) & padding(6, 4)");
  CHECK(fmt::format("{:6x6}", Mask::window(3)) == draw_mask(mask, 6, 6, 0));
  INFO(picture);
  CHECK(std::count(picture.begin(), picture.end(), '\n') >= 5);
}

TEST_CASE("GUIDE: attention, and its weights on request") {
  Rng rng(1);
  Tensor q({2, 4, 6, 8}), k({2, 2, 6, 8}), v({2, 2, 6, 8});  // [B, heads, length, d]: two query heads share a key head
  for (Tensor* x : {&q, &k, &v}) fill_normal(*x, rng);
  const NoGrad scope;
  const Var y = attention(q, k, v, {.mask = Mask::causal(), .softcap = 30});  // [2, 4, 6, 8]; no weights are kept
  const AttentionResult all = attention_with_weights(q, k, v, {.mask = Mask::causal(), .softcap = 30});
  const ConstView weights = all.weights.value();                             // [2, 4, 6, 6]
  const std::string picture = draw_attention(weights.select(0, 0).select(0, 3));
  CHECK(y.shape() == Shape{2, 4, 6, 8});
  CHECK(weights.shape() == Shape{2, 4, 6, 6});
  CHECK(weights.at({1, 2, 3, 4}) == 0);
  CHECK(y.value().at({1, 3, 5, 7}) == all.y.value().at({1, 3, 5, 7}));
  CHECK(!picture.empty());
}

TEST_CASE("GUIDE: a Gpt with rotary positions, grouped heads and gated perceptrons") {
  const Gpt model({.vocab = 65, .context = 64, .layers = 2, .heads = 4, .kv_heads = 2, .width = 32,
                   .positions = Positions::rope, .normalize = Normalize::rms, .activation = Activation::swiglu},
                  Rng(1));
  const Index numbers = parameter_count(model);
  CHECK(numbers > 65 * 32);
  CHECK(!model.position.weight.exists());
  const NoGrad scope;
  const Tensor tokens({1, 5}, i32);
  CHECK(model(tokens).shape() == Shape{1, 5, 65});
}

TEST_CASE("GUIDE: an encoder and a decoder, with padding") {
  Translator model(12, 16, Rng(1));
  AdamW optimizer(model, {.lr = 1e-2});
  const SinusoidalPositions positions(8, 16);
  const Tensor source = tensor({{3, 1, 4, 1, 5}, {9, 2, 6, 0, 0}}, i32);  // the second has 3 tokens, then padding
  const Tensor said = tensor({{1, 5, 1, 4}, {1, 6, 2, 0}}, i32), next = tensor({{5, 1, 4, 1}, {6, 2, 9, -100}}, i32);
  double loss = 0;
  for (int step = 0; step < 30; ++step) {
    const Mask seen = Mask::padding({5, 3});
    Tape tape;
    const Var memory = model.encoder(positions(model.token(source)), seen);
    const Var logits = model.head(model.decoder(positions(model.token(said)), memory, seen));  // causal by itself
    const Var mean = cross_entropy(logits, next);                                              // of the 7 targets
    tape.backward(mean);
    optimizer.step();
    loss = mean.item();
  }
  CHECK(loss < 0.5);
}

TEST_CASE("GUIDE: groups of parameters, a schedule, clipping") {
  const CopyTask& task = small_task();
  Gpt model = small_model();
  AdamW optimizer(model, {.decay = 0.1, .clip = 1, .groups = {{.match = "token.*", .lr_scale = 0.5, .decay = 0}}});
  const WarmupCosine schedule{.lr = 1e-2, .min_lr = 1e-3, .warmup = 5, .total = 40};
  std::vector<double> losses;
  for (Index step = 0; step < 40; ++step) {
    optimizer.set_lr(schedule(step));  // groups follow in proportion
    const Batch batch = task.batch(step, 8);
    Tape tape;
    const Var loss = cross_entropy(model(batch.inputs), batch.targets);
    tape.backward(loss);
    optimizer.step();  // or, where a gradient is not finite: nothing moves, optimizer.why_skipped() says why
    losses.push_back(loss.item());
  }
  const std::string curve = sparkline(losses);
  CHECK(optimizer.skipped() == 0);
  CHECK(losses.back() < losses.front());
  CHECK(optimizer.groups().front().lr == doctest::Approx(0.5 * schedule(39)));
  CHECK(!curve.empty());
}

TEST_CASE("GUIDE: parameters that stay, or do not decay") {
  const CopyTask& task = small_task();
  Gpt model = small_model();
  const Tensor before = Tensor::copy_of(model.token.weight.value());
  model.token.weight.set_trainable(false);  // saved and cast with the model, and left alone by optimizers
  for_each_parameter(model, [](const std::string& path, Parameter& p) {
    if (path.ends_with("down.weight")) p.set_decay(false);
  });
  AdamW optimizer(model);
  const Batch batch = task.batch(0, 2);
  {
    Tape tape;
    tape.backward(cross_entropy(model(batch.inputs), batch.targets));
  }
  optimizer.step();
  CHECK(model.token.weight.value().at({1, 2}) == before.at({1, 2}));
  CHECK_FALSE(model.blocks[0].mlp.down.weight.decay());
}

TEST_CASE("GUIDE: the same bits") {
  const CopyTask& task = small_task();
  const int threads_before = threads();
  const std::string row_before(row());
  const auto loss_after = [&](Index steps) {
    Gpt model({.vocab = task.vocab(), .context = task.context(), .heads = 2, .width = 32}, Rng(1));
    AdamW optimizer(model);
    double loss = 0;
    for (Index step = 0; step < steps; ++step) {
      const Batch batch = task.batch(step, 8);
      Tape tape;
      const Var mean = cross_entropy(model(batch.inputs), batch.targets);
      tape.backward(mean);
      optimizer.step();
      loss = mean.item();
    }
    return loss;
  };
  set_row("scalar"), set_threads(1);
  const double slow = loss_after(5);
  set_row(supported_rows().front()), set_threads(4);
  const double fast = loss_after(5);  // the same number, to the last bit
  set_row(row_before), set_threads(threads_before);
  CHECK(slow == fast);
}

TEST_CASE("GUIDE: dropout draws from the tape's random numbers") {
  Rng random(7);
  Tape tape({.random = &random});
  const Var y = dropout(ones({1000}), 0.1);  // each 0, or 1 / 0.9
  CHECK(y.value().at({0}) * (y.value().at({0}) - 1 / 0.9) == doctest::Approx(0));
  CHECK(random.position() == 1);
}

TEST_CASE("GUIDE: gradient accumulation") {
  const CopyTask& task = small_task();
  Gpt model = small_model();
  AdamW optimizer(model);
  const Index step = 0;
  Accumulation window;
  for (Index part = 0; part < 4; ++part) {
    const Batch batch = task.batch(4 * step + part, 8);
    Tape tape;
    const Var loss = cross_entropy(model(batch.inputs), batch.targets, {.reduction = Reduction::sum});
    window.add(tape, loss, count_targets(batch.targets));
  }
  const std::optional<double> mean_loss = window.step(optimizer);  // nothing where there was no target
  REQUIRE(mean_loss);
  CHECK(*mean_loss == doctest::Approx(std::log(5.0)).epsilon(0.05));
}

TEST_CASE("GUIDE: averages of weights") {
  const CopyTask& task = small_task();
  Gpt model = small_model();
  AdamW optimizer(model);
  Score averaged_score;
  WeightAverage average(model, {.decay = 0.99, .warmup = true});
  for (Index step = 0; step < 10; ++step) {
    const Batch batch = task.batch(step, 8);
    Tape tape;
    tape.backward(cross_entropy(model(batch.inputs), batch.targets));
    optimizer.step();
    average.update();
  }
  {
    const AveragedWeights averaged(average);  // the model has the averages, until the scope ends
    averaged_score = score(model, task.held_out(100));
  }
  CHECK(average.updates() == 10);
  CHECK(averaged_score.tokens == 400);
}

TEST_CASE("GUIDE: a run that is broken off and goes on") {
  const CopyTask& task = small_task();
  const std::filesystem::path path = fresh_path("run");
  const auto train_until = [&](Index steps) {
    Gpt model = small_model();
    AdamW optimizer(model);
    Rng random(7);
    Index step = 0;
    const std::vector<CheckpointPart> parts = {
        {"model", model}, {"optimizer", optimizer}, {"random", random}, {"step", step}};
    if (std::filesystem::exists(path)) load_checkpoint(path, parts);
    while (step < steps) {
      const Batch batch = task.batch(step, 8);
      Tape tape({.random = &random});
      tape.backward(cross_entropy(model(batch.inputs), batch.targets));
      optimizer.step();
      if (++step % 5 == 0) save_checkpoint(path, parts);  // whole on disk, or the old one stays
    }
    return numbers_of(model);
  };
  train_until(5);
  const std::vector<float> resumed = train_until(10);
  std::filesystem::remove(path);
  const std::vector<float> whole = train_until(10);
  std::filesystem::remove(path);
  CHECK(resumed == whole);
}

TEST_CASE("GUIDE: weights alone") {
  Gpt model = small_model();
  const std::filesystem::path path = fresh_path("weights");
  save_parameters(model, path);  // "blocks.0.mlp.up.weight" and so on, as any safetensors reader takes them
  load_parameters(model, path);  // names, shapes and types must all fit, or nothing changes
  const SafetensorsFile file = read_safetensors(path);
  CHECK(file.find("blocks.0.mlp.up.weight") != nullptr);
  std::filesystem::remove(path);
}

TEST_CASE("GUIDE: generation") {
  const CharacterText text("the cat sat on the mat. the rat sat on the cat. ");
  const Gpt model({.vocab = text.vocab(), .context = 16, .layers = 1, .heads = 2, .width = 16}, Rng(1));
  Rng random(3);
  const GenerateOptions options{.tokens = 20, .sampling = {.temperature = 0.8, .top_k = 5}};
  const std::string more = text.decode(generate(model, text.encode("the "), options, random));
  CHECK(more.size() == 20);
}

TEST_CASE("GUIDE: a cache by hand") {
  const Gpt model = small_model(2);
  const Tensor prompt = tensor({{1, 2, 3}}, i32), next = tensor({{0}}, i32);
  const NoGrad scope;
  GptCache cache = model.cache();                       // for a batch of 1
  model(prompt, cache);                                 // reads three tokens
  const ConstView logits = model(next, cache).value();  // [1, 1, V]: to the bit as if it had read all four at once
  const Tensor all = tensor({{1, 2, 3, 0}}, i32);
  const ConstView whole = model(all).value();
  for (Index token = 0; token < logits.size(2); ++token) CHECK(logits.at({0, 0, token}) == whole.at({0, 3, token}));
}

TEST_CASE("GUIDE: computing again instead of remembering") {
  const Gpt model = small_model(3);
  const Tensor inputs = ones({2, 4, 16});
  Tape tape;
  Var x = inputs;
  for (const TransformerBlock& block : model.blocks)
    x = checkpoint([&block](Var v) { return block(v); }, x);  // of each block, the tape holds its input alone
  tape.backward(sum(x));
  CHECK(model.blocks[0].mlp.up.weight.has_grad());
}

TEST_CASE("GUIDE: one's own sequences") {
  const Sequences data = Sequences::next_token({{1, 5, 2}, {4, 4, 3, 2, 6}, {7, 1}}, {.batch = 2, .seed = 1});
  Gpt model({.vocab = 8, .context = 16, .heads = 2, .width = 16}, Rng(1));
  AdamW optimizer(model);
  for (Index step = 0; step < 3 * data.batches(); ++step) {  // three epochs
    const PaddedBatch batch = data.batch(step);              // inputs and targets [2, T], T the longest of the two
    Tape tape;
    tape.backward(cross_entropy(model(batch.inputs), batch.targets));  // targets are -100 at padding
    optimizer.step();
  }
  CHECK(data.batches() == 2);
  CHECK(optimizer.skipped() == 0);
}

TEST_CASE("GUIDE: one's own sequences with a class each") {
  Rng rng(1);
  const Embedding token({.tokens = 8, .width = 16}, rng);
  const EncoderLayer encoder({.width = 16, .heads = 2}, rng);
  const Linear head({.in = 16, .out = 2}, rng);
  const Sequences data = Sequences::classified({{1, 5, 2}, {4, 4, 3, 2, 6}}, {0, 1}, {.batch = 2});
  const PaddedBatch batch = data.batch(0);  // inputs [2, 5], targets [2]
  Tape tape;
  const Var y = encoder(token(batch.inputs), Mask::padding(batch.lengths));  // padding is not read
  tape.backward(cross_entropy(head(select(y, 1, 0)), batch.targets));        // from what the first token has read
  CHECK(token.weight.has_grad());
  const ConstView padding = token.weight.grad().select(0, 0);
  for (Index i = 0; i < 16; ++i) CHECK(padding.at({i}) == 0);
}

TEST_CASE("GUIDE: reading what a model thinks, and changing it") {
  const Gpt model = small_model();
  const Batch batch = small_task().batch(0, 1);
  const NoGrad outer;
  const Tensor before = Tensor::copy_of(model(batch.inputs).value());
  std::vector<Tensor> maps;  // [B, H, T, T] of each layer
  {
    const NoGrad scope;
    const Observer watch([&](const TapPoint& at) {
      if (at.name == "weights") maps.push_back(Tensor::copy_of(at.value.value()));
    });
    model(batch.inputs);
  }
  REQUIRE(maps.size() == 1);
  CHECK(maps[0].shape() == Shape{1, 2, 8, 8});
  const Observer ablate([](const TapPoint& at) {
    return at.path == "blocks.0.attention" && at.name == "heads" ? at.value * 0.0 : at.value;
  });
  const Var without = model(batch.inputs);  // what it says when block 0's heads say nothing
  CHECK(without.value().at({0, 7, 1}) != before.at({0, 7, 1}));
}

TEST_CASE("GUIDE: forward mode, and Hessian times vector") {
  const auto f = [](Var x) {
    const Var growth = exp(x), wave = sin(x);
    return sum(growth * wave);
  };
  const Tensor x = tensor({0.5, -1}), v = tensor({1, 0});  // the direction
  const double along = jvp(f, x, v).tangent.item();        // the slope of f along v, in f64
  const HessianProduct h = hvp(f, x, v);                   // h.gradient[0], and h.product[0] = H v
  CHECK(along == doctest::Approx(std::exp(0.5) * (std::sin(0.5) + std::cos(0.5))).epsilon(1e-12));
  CHECK(h.product[0].at({0}) == doctest::Approx(2 * std::exp(0.5) * std::cos(0.5)).epsilon(1e-12));
  CHECK(h.product[0].at({1}) == 0);
}

TEST_CASE("GUIDE: curvature of a model along a direction") {
  Gpt model = small_model();
  const Batch batch = small_task().batch(0, 2);
  const std::vector<Tensor> v = random_direction(model, 1);  // a tensor for each parameter
  const HessianProduct h = hvp([&] { return cross_entropy(model(batch.inputs), batch.targets); }, model, v);
  double curvature = 0;  // v·H v
  for (std::size_t i = 0; i < v.size(); ++i)
    for (std::size_t k = 0; k < v[i].data<double>().size(); ++k)
      curvature += v[i].data<double>()[k] * h.product[i].data<double>()[k];
  CHECK(std::isfinite(curvature));
  CHECK(curvature != 0);
}

TEST_CASE("GUIDE: a whole model verified") {
  Gpt model = small_model();
  const Batch batch = small_task().batch(0, 2);
  const VerifyReport report = verify(model, [&] { return cross_entropy(model(batch.inputs), batch.targets); });
  const std::string text = report.text();  // digits per parameter, and what could not be told
  CHECK_MESSAGE(report.passed(), text);
}

TEST_CASE("GUIDE: no leak") {
  const Gpt model = small_model();
  assert_no_leak(model);  // throws with the first pair of places where it looks ahead
}

TEST_CASE("GUIDE: the first number that is not finite") {
  const Tensor x = tensor({1, -2});
  Tape tape({.places = true});  // remembers where each op was recorded
  const Var y = sum(log(variable(x)) * 2);
  const std::optional<NonFinite> found = tape.find_nonfinite();
  if (found) fmt::print("{}\n", found->text());
  REQUIRE(found);
  CHECK(found->op == "log");
  CHECK(std::isnan(y.item()));
}

TEST_CASE("GUIDE: how saturated each head is") {
  const CopyTask& task = small_task();
  Gpt model = small_model();
  AdamW optimizer(model, {.lr = 1e-3});
  AttentionMeter meter(model, {.every = 20});
  for (int step = 0; step < 60; ++step) {
    const Batch batch = task.batch(step, 16);
    Tape tape;
    AttentionMeter::Watch watch(meter, step);  // listens, in one step of 20
    tape.backward(cross_entropy(model(batch.inputs), batch.targets));
    watch.read();  // before the optimizer takes the gradients
    optimizer.step();
  }
  for (const HeadReading& head : meter.readings())
    fmt::print("{} head {}: entropy {:.2f}, sigma {:.2f}, {:.0f} % dead\n", head.path, head.head, head.entropy.median,
               head.deviation.median, 100 * head.dead);
  CHECK(meter.readings().size() == 2);
  CHECK(meter.readings()[0].step == 40);
  CHECK(meter.alarms().empty());
}
