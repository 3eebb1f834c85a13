// Parameters in files: there and back bit by bit, and what does not fit.
#include "attune/layers/checkpoint.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../lib/kernel_check.h"
#include "attune/layers/gpt.h"
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
  model.norm.bias.mutable_value().as<float>()[2] = static_cast<float>(kInf);
  model.blocks[0].mlp.up.weight.set_trainable(false);  // saved like any other
  save_parameters(model, file);
  other.norm.bias.mutable_grad();
  load_parameters(other, file);
  const std::vector<Tensor> expected = copies(model), loaded = copies(other);
  REQUIRE(expected.size() == loaded.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(std::memcmp(expected[i].data<float>().data(), loaded[i].data<float>().data(),
                      static_cast<std::size_t>(expected[i].count()) * sizeof(float)) == 0);
  CHECK(other.blocks[0].mlp.up.weight.trainable());
  CHECK(other.norm.bias.has_grad());
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
      ("load: 'a' is f64 [2, 3] in " + file.string() + ", and f32 [2, 3] in the model").c_str(),
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
  check_refused({{"a", a}}, "load: FILE has no parameter 'b'");
  check_refused({{"b", b}, {"A", a}}, "load: FILE has no parameter 'a'");
  check_refused({{"a", a}, {"b", b}, {"c", b}}, "load: FILE has a parameter 'c' that the model does not");
  const Tensor turned = full({3, 2}, 7), wide = full({4}, 8, f64), whole = full({4}, 8, i32);
  check_refused({{"a", turned}, {"b", b}}, "load: 'a' is f32 [3, 2] in FILE, and f32 [2, 3] in the model");
  check_refused({{"a", a}, {"b", wide}}, "load: 'b' is f64 [4] in FILE, and f32 [4] in the model");
  check_refused({{"a", a}, {"b", whole}}, "load: 'b' is i32 [4] in FILE, and f32 [4] in the model");
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
