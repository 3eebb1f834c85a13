// Parameters and whole runs in files: there and back bit by bit, and what does not fit.
#include "attune/layers/checkpoint.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "../lib/kernel_check.h"
#include "attune/layers/average.h"
#include "attune/layers/data.h"
#include "attune/layers/gpt.h"
#include "attune/layers/optim.h"
#include "attune/lib/safetensors.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

// A file that is gone at the end.
class TemporaryFile {
 public:
  TemporaryFile() {
    static int number = 0;
    path_ =
        std::filesystem::temp_directory_path() / fmt::format("attune-checkpoint-{}-{}", getpid(), number++);
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  operator const std::filesystem::path&() const { return path_; }  // NOLINT: it stands for its path
  std::string string() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

struct Model {
  Parameter a, b;
  explicit Model(std::uint64_t seed) : a(random({2, 3}, f32, seed)), b(random({4}, f32, seed + 1)) {}
  void each(auto&& visit) { visit("a", a), visit("b", b); }
};

// One parameter in two places.
struct Tied {
  Parameter weight{ones({2, 2})};
  void each(auto&& visit) { visit("input", weight), visit("output", weight); }
};

Gpt make_gpt(std::uint64_t seed) {
  return Gpt({.vocab = 7, .context = 5, .layers = 2, .heads = 2, .width = 8, .bias = true}, Rng(seed));
}

Parameter& parameter(Gpt& model, const std::string& name) {
  Parameter* found = nullptr;
  for_each_parameter(model, [&](const std::string& path, Parameter& p) {
    if (path == name) found = &p;
  });
  REQUIRE(found != nullptr);
  return *found;
}

std::vector<Tensor> copies(Gpt& model) {
  std::vector<Tensor> result;
  for_each_parameter(
      model, [&](const std::string&, const Parameter& p) { result.push_back(Tensor::copy_of(p.value())); });
  return result;
}

// Loading what these tensors make a file of throws that message, and changes nothing.
void check_refused(const std::vector<NamedView>& tensors, const std::string& message) {
  const TemporaryFile file;
  write_safetensors(file, tensors);
  Model model(1);
  const Model before(1);
  std::string said;
  try {
    load_parameters(model, file);
  } catch (const std::runtime_error& error) {
    said = error.what();
  }
  std::string expected = message;
  if (const auto place = expected.find("FILE"); place != std::string::npos)
    expected.replace(place, 4, file.string());
  CHECK(said == expected);
  CHECK(same_bits(model.a.value(), before.a.value()));
  CHECK(same_bits(model.b.value(), before.b.value()));
}

}  // namespace

TEST_CASE("checkpoint: saved and loaded, every bit is back, and nothing else has changed") {
  const TemporaryFile file;
  Gpt model = make_gpt(1), other = make_gpt(2);
  model.token.weight.mutable_value().as<float>()[0] = -0.0f;
  model.token.weight.mutable_value().as<float>()[1] = 1e-42f;
  parameter(model, "norm.bias").mutable_value().as<float>()[2] = static_cast<float>(kInf);
  model.blocks[0].mlp.up.weight.set_trainable(false);  // saved like any other
  save_parameters(model, file);
  parameter(other, "norm.bias").mutable_grad();
  load_parameters(other, file);
  const std::vector<Tensor> expected = copies(model), loaded = copies(other);
  REQUIRE(expected.size() == loaded.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(std::memcmp(expected[i].data<float>().data(), loaded[i].data<float>().data(),
                      static_cast<std::size_t>(expected[i].count()) * sizeof(float)) == 0);
  CHECK(other.blocks[0].mlp.up.weight.trainable());
  CHECK(parameter(other, "norm.bias").has_grad());
}

TEST_CASE("checkpoint: parameters stand in the file under their paths") {
  const TemporaryFile file;
  Gpt model = make_gpt(1);
  save_parameters(model, file);
  const SafetensorsFile saved = read_safetensors(file);
  CHECK(saved.tensors.size() == 28);
  for_each_parameter(model, [&](const std::string& path, const Parameter& p) {
    REQUIRE(saved.find(path) != nullptr);
    CHECK(same_bits(*saved.find(path), p.value()));
  });
}

TEST_CASE("checkpoint: an f64 model is saved as such, and only loaded as such") {
  const TemporaryFile file;
  Model model(1), other(3);
  {
    const Cast cast(model, f64), other_cast(other, f64);
    model.a.mutable_value().as<double>()[0] = 0.1;
    save_parameters(model, file);
    load_parameters(other, file);
    CHECK(other.a.value().as<double>()[0] == 0.1);
  }
  CHECK_THROWS_WITH_AS(
      load_parameters(other, file),
      ("load: " + file.string() + " does not fit: 'a' is f64 [2, 3], not f32 [2, 3]; 'b' is f64 [4], not f32 [4]").c_str(),
      std::runtime_error);
}

TEST_CASE("checkpoint: a shared parameter is saved once") {
  Tied model;
  const TemporaryFile file;
  save_parameters(model, file);
  const SafetensorsFile saved = read_safetensors(file);
  REQUIRE(saved.tensors.size() == 1);
  CHECK(saved.tensors[0].name == "input");
  kernels::fill(model.weight.mutable_value(), 5);
  load_parameters(model, file);
  CHECK(values(model.weight.value()) == std::vector<double>(4, 1.0));
}

TEST_CASE("checkpoint: what does not fit is named, and then nothing has changed") {
  const Tensor a = full({2, 3}, 7), b = full({4}, 8);
  check_refused({{"a", a}}, "load: FILE does not fit: there is no 'b'");
  check_refused({{"b", b}, {"A", a}}, "load: FILE does not fit: there is no 'a'; 'A' belongs to nothing here");
  check_refused({{"a", a}, {"b", b}, {"c", b}}, "load: FILE does not fit: 'c' belongs to nothing here");
  const Tensor turned = full({3, 2}, 7), wide = full({4}, 8, f64), whole = full({4}, 8, i32);
  check_refused({{"a", turned}, {"b", b}}, "load: FILE does not fit: 'a' is f32 [3, 2], not f32 [2, 3]");
  check_refused({{"a", a}, {"b", wide}}, "load: FILE does not fit: 'b' is f64 [4], not f32 [4]");
  check_refused({{"a", a}, {"b", whole}}, "load: FILE does not fit: 'b' is i32 [4], not f32 [4]");
}

TEST_CASE("checkpoint: a file that is not there, or no such file, changes nothing") {
  const TemporaryFile file;
  Model model(1);
  const Model before(1);
  CHECK_THROWS_AS(load_parameters(model, file), std::runtime_error);
  std::ofstream(file.string()) << "this is text";
  CHECK_THROWS_AS(load_parameters(model, file), std::runtime_error);
  CHECK(same_bits(model.a.value(), before.a.value()));
}

TEST_CASE("checkpoint: a parameter that is loaded between forward and backward is noticed") {
  const TemporaryFile file;
  Model model(1);
  save_parameters(model, file);
  Tape tape;
  const Var weight = model.a;
  const Var loss = sum(weight * weight);
  load_parameters(model, file);
  CHECK_THROWS_AS(tape.backward(loss), std::invalid_argument);
}

TEST_CASE("checkpoint: views are saved as what they show") {
  const TemporaryFile file;
  const Tensor w = tensor({{1, 2, 3}, {4, 5, 6}}), pair = tensor({1, 2});
  write_safetensors(file, {{"turned", w.view().t()},
                           {"expanded", pair.view().expand({4, 2})},
                           {"column", w.view().slice(1, 1, 2)}});
  const SafetensorsFile saved = read_safetensors(file);
  REQUIRE(saved.tensors.size() == 3);
  CHECK(saved.find("turned")->shape() == Shape{3, 2});
  CHECK(values(*saved.find("turned")) == std::vector<double>{1, 4, 2, 5, 3, 6});
  CHECK(saved.find("expanded")->shape() == Shape{4, 2});
  CHECK(values(*saved.find("expanded")) == std::vector<double>{1, 2, 1, 2, 1, 2, 1, 2});
  CHECK(saved.find("column")->shape() == Shape{2, 1});
  CHECK(values(*saved.find("column")) == std::vector<double>{2, 5});
}

// -- Whole runs

namespace {

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(Gpt&)>;

struct OptimizerCase {
  const char* name;
  MakeOptimizer make;
};

std::vector<OptimizerCase> every_optimizer() {
  const std::vector<ParameterGroup> groups = {{.match = "token.*", .lr_scale = 0.5, .decay = 0}};
  return {
      {"sgd", [=](Gpt& m) { return std::make_unique<Sgd>(m, SgdOptions{.lr = 0.1, .decay = 0.1, .groups = groups}); }},
      {"momentum", [](Gpt& m) { return std::make_unique<Sgd>(m, SgdOptions{.momentum = 0.9, .clip = 1}); }},
      {"nesterov", [](Gpt& m) { return std::make_unique<Sgd>(m, SgdOptions{.momentum = 0.9, .nesterov = true}); }},
      {"adam", [](Gpt& m) { return std::make_unique<Adam>(m, AdamOptions{.decay = 0.1}); }},
      {"adamw", [=](Gpt& m) { return std::make_unique<AdamW>(m, AdamWOptions{.clip = 1, .groups = groups}); }},
      {"lion", [](Gpt& m) { return std::make_unique<Lion>(m, LionOptions{.decay = 0.1}); }},
  };
}

// A run: everything that changes while it trains, and the parts of its checkpoint.
struct Run {
  CopyTask task{{.symbols = 4, .length = 3, .seed = 1}};
  Gpt model{{.vocab = task.vocab(), .context = task.context(), .layers = 1, .heads = 2, .width = 8}, Rng(1)};
  std::unique_ptr<Optimizer> optimizer;
  WeightAverage average{model, {.decay = 0.9}};
  Rng noise{7};
  double best = kInf;
  std::string note = "begun";
  Index step = 0;

  explicit Run(const MakeOptimizer& make) : optimizer(make(model)) {}

  std::vector<CheckpointPart> parts() {
    return {{"model", model}, {"optimizer", *optimizer}, {"average", average}, {"noise", noise},
            {"best", best},   {"note", note},            {"step", step}};
  }

  // The rate, and which parameters have a gradient, change from step to step, and chance has a part in it.
  void train(Index until) {
    const WarmupCosine schedule{.lr = 1e-2, .warmup = 5, .total = 30};
    for (; step < until; ++step) {
      const Batch batch = task.batch(step, 4);
      optimizer->set_lr(schedule(step));
      Tape tape;
      const Var logits = model(batch.inputs);
      const Var loss = cross_entropy(logits, batch.targets);
      tape.backward(loss);
      if (noise.uniform() < 0.3) parameter(model, "norm.bias").zero_grad();
      optimizer->step();
      average.update();
      best = std::min(best, loss.item());
    }
    note = fmt::format("at {}, \"{}\"\n", step, best);
  }
};

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("B70: a run that is interrupted and resumed ends at the same bits, with every optimizer") {
  for (const OptimizerCase& one : every_optimizer()) {
    CAPTURE(one.name);
    const TemporaryFile whole_file, half_file, resumed_file;
    Run whole(one.make), first(one.make), resumed(one.make);
    whole.train(20);
    save_checkpoint(whole_file, whole.parts());
    first.train(10);
    save_checkpoint(half_file, first.parts());
    load_checkpoint(half_file, resumed.parts());
    CHECK(resumed.step == 10);
    CHECK(resumed.note == first.note);
    resumed.train(20);
    save_checkpoint(resumed_file, resumed.parts());
    CHECK(bytes_of(whole_file) == bytes_of(resumed_file));
    CHECK(bytes_of(whole_file) != bytes_of(half_file));
  }
}

TEST_CASE("checkpoint: what stands in the file") {
  const TemporaryFile file;
  Model model(1);
  AdamW optimizer(model, {.lr = 0.1});
  Rng rng(1, 2, 3);
  Index step = 17;
  double best = 0.1;
  model.a.mutable_grad();
  optimizer.step();
  save_checkpoint(file, {{"model", model}, {"optimizer", optimizer}, {"data", rng}, {"step", step}, {"best", best}});
  const SafetensorsFile saved = read_safetensors(file);
  CHECK(same_bits(*saved.find("model.a"), model.a.value()));
  for (const char* name : {"model.b", "optimizer.slot0.a", "optimizer.slot0.b", "optimizer.slot1.a", "optimizer.slot1.b"})
    CHECK(saved.find(name) != nullptr);
  CHECK(saved.tensors.size() == 6);
  CHECK(saved.metadata == Metadata{{"format", "pt"},
                                   {"checkpoint", "1"},
                                   {"optimizer.rule", "adamw"},
                                   {"optimizer.lr", "0.1"},
                                   {"optimizer.skipped", "0"},
                                   {"optimizer.steps.a", "1"},
                                   {"optimizer.steps.b", "0"},
                                   {"data", "1 2 3"},
                                   {"step", "17"},
                                   {"best", "0.1"}});
}

TEST_CASE("checkpoint: one part of it, such as the model alone") {
  const TemporaryFile file;
  Model model(1), other(5);
  Index step = 3;
  save_checkpoint(file, {{"model", model}, {"step", step}});
  load_part(file, {"model", other});
  CHECK(same_bits(other.a.value(), model.a.value()));
  CHECK(error_of([&] { load_part(file, {"models", other}); }) ==
        "load: " + file.string() + " does not fit: there is no 'models.a'; there is no 'models.b'");
}

TEST_CASE("checkpoint: all that does not fit is named, and then nothing has changed") {
  const TemporaryFile file;
  Model model(1), loaded(1);
  const Model before(1);
  AdamW adamw(model);
  Lion lion(loaded);
  Index step = 3, count = 0;
  Rng rng(1);
  save_checkpoint(file, {{"model", model}, {"optimizer", adamw}, {"step", step}, {"rng", rng}});
  kernels::fill(model.a.mutable_value(), 1);
  const std::string message = error_of([&] {
    load_checkpoint(file, {{"model", loaded}, {"optimizer", lion}, {"step", count}, {"average", rng}});
  });
  CHECK(message ==
        "load: " + file.string() +
            " does not fit: 'optimizer.rule' is adamw, not lion; there is no 'average'; 'optimizer.slot1.a' belongs to "
            "nothing here; 'optimizer.slot1.b' belongs to nothing here; 'rng' belongs to nothing here");
  CHECK(count == 0);
  CHECK(rng == Rng(1));
  CHECK(lion.lr() == 1e-4);
  CHECK(same_bits(loaded.a.value(), before.a.value()));
}

TEST_CASE("checkpoint: numbers that are none are named") {
  const TemporaryFile file;
  const auto refused = [&](const std::string& text, auto object, const std::string& fault) {
    write_safetensors(file, {}, {{"checkpoint", "1"}, {"x", text}});
    auto loaded = object;
    CHECK(error_of([&] { load_checkpoint(file, {{"x", loaded}}); }) ==
          "load: " + file.string() + " does not fit: 'x' is '" + text + "', not " + fault);
    CHECK(loaded == object);
  };
  for (const char* text : {"", "a", "1.5", "1 ", " 1", "99999999999999999999"}) refused(text, Index{5}, "an integer");
  for (const char* text : {"", "a", "1,5", "1 2"}) refused(text, 5.0, "a number");
  for (const char* text : {"", "1 2", "1 2 3 4", "1  2 3", "1 -2 3", "1,2,3"})
    refused(text, Rng(5), "a place in a stream of random numbers");
  Index integer = 0;
  double number = 0;
  Rng rng(0);
  write_safetensors(file, {}, {{"checkpoint", "1"}, {"i", "-7"}, {"d", "inf"}, {"r", "1 18446744073709551615 3"}});
  load_checkpoint(file, {{"i", integer}, {"d", number}, {"r", rng}});
  CHECK(integer == -7);
  CHECK(number == kInf);
  CHECK(rng == Rng(1, 18446744073709551615u, 3));
}

TEST_CASE("checkpoint: a file of weights is none, nor is one of another version") {
  const TemporaryFile file;
  Model model(1);
  save_parameters(model, file);
  CHECK(error_of([&] { load_checkpoint(file, {{"model", model}}); }) ==
        "load: " + file.string() + " is no checkpoint: its metadata has no 'checkpoint'");
  write_safetensors(file, {}, {{"checkpoint", "2"}});
  CHECK(error_of([&] { load_part(file, {"model", model}); }) ==
        "load: " + file.string() + " is a checkpoint of version 2, and this reads version 1");
}

TEST_CASE("checkpoint: names of parts that are refused, and twelve faults in eight") {
  const TemporaryFile file;
  Index one = 1, two = 2;
  for (const char* name : {"", "a.b"})
    CHECK(error_of([&] { save_checkpoint(file, {{name, one}}); }) ==
          fmt::format("checkpoint: '{}' cannot be the name of a part: it is empty, or has a dot", name));
  CHECK(error_of([&] { save_checkpoint(file, {{"a", one}, {"a", two}}); }) == "checkpoint: the name 'a' is taken");
  CHECK(error_of([&] { save_checkpoint(file, {{"format", one}}); }) == "checkpoint: the name 'format' is taken");
  CHECK_FALSE(std::filesystem::exists(file));
  Metadata many{{"checkpoint", "1"}};
  for (int i = 0; i < 12; ++i) many.emplace(fmt::format("n{:02}", i), "0");
  write_safetensors(file, {}, many);
  CHECK(error_of([&] { load_checkpoint(file, {}); }).find("'n07' belongs to nothing here; and 4 more") !=
        std::string::npos);
}

TEST_CASE("checkpoint: averages that are swapped in are not saved for weights") {
  const TemporaryFile file;
  Model model(1);
  WeightAverage average(model);
  const AveragedWeights averaged(average);
  CHECK(error_of([&] { save_checkpoint(file, {{"average", average}}); }) ==
        "average: no saving or loading while the model has the averages");
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("B70: every truncation of a checkpoint is refused, and changes nothing") {
  const TemporaryFile file, cut;
  Model model(1), loaded(5);
  AdamW optimizer(model), other(loaded);
  Index step = 3, count = 0;
  save_checkpoint(file, {{"model", model}, {"optimizer", optimizer}, {"step", step}});
  const std::string good = bytes_of(file);
  const Model before(5);
  for (std::size_t size = 0; size < good.size(); ++size) {
    write_bytes(cut, std::string_view(good).substr(0, size));
    CAPTURE(size);
    const std::string said =
        error_of([&] { load_checkpoint(cut, {{"model", loaded}, {"optimizer", other}, {"step", count}}); });
    CHECK(said.find(cut.string()) != std::string::npos);
  }
  CHECK(count == 0);
  CHECK(same_bits(loaded.a.value(), before.a.value()));
  write_bytes(cut, good);
  load_checkpoint(cut, {{"model", loaded}, {"optimizer", other}, {"step", count}});
  CHECK(count == 3);
}

TEST_CASE("B70: on a full disk the error is reported, and the old checkpoint stays") {
  const TemporaryFile file;
  Model model(1);
  Gpt large = make_gpt(1);
  save_checkpoint(file, {{"model", model}});
  const std::string before = bytes_of(file);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  rlimit small = limit;
  small.rlim_cur = 5000;
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string said = error_of([&] { save_checkpoint(file, {{"model", large}}); });
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, handler);
  CHECK(said == "file: " + file.string() + " cannot be written: File too large");
  CHECK(bytes_of(file) == before);
}
