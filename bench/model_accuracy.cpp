// How exact a trained model is in f32, forward and backward: digits of its loss and of every parameter's gradient,
// against f64 on the same weights and the same batch.
//
//   model_accuracy MODEL HEADS TEXT                 prints the table
//   model_accuracy MODEL HEADS TEXT --write FILE    writes the weights and the batch, for bench/peers
//   model_accuracy MODEL HEADS TEXT --peer FILE     prints the table, and beside it what the other made of them
//
// MODEL is the model.safetensors of a run of `attune train text` with learned positions, as the preset nanogpt-cpu has;
// the file does not say how many heads there are. The batch is 12 windows of the part of TEXT that validates. Digits
// are -log10 of the largest error over the largest element, as `attune verify` has them, and of the errors' length over
// the elements' length, which depends less on chance. The loss is one number, whose rounding alone leaves 7.2 digits
// or, by chance, more.
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/attune.h"
#include "attune/lib/safetensors.h"
#include "digits.h"

using namespace attune;

namespace {

constexpr Index kBatch = 12;

// What the shapes tell.
GptOptions options_of(const SafetensorsFile& file, Index heads) {
  const auto shape = [&](const std::string& name) {
    const Tensor* const tensor = file.find(name);
    check(tensor, "the model has no {}", name);
    return tensor->shape();
  };
  GptOptions o{.vocab = shape("token.weight")[0], .context = shape("position.weight")[0], .layers = 0, .heads = heads};
  o.width = shape("token.weight")[1];
  o.hidden = shape("blocks.0.mlp.up.weight")[1];
  while (file.find(fmt::format("blocks.{}.norm1.weight", o.layers))) ++o.layers;
  o.bias = file.find("blocks.0.mlp.up.bias");
  return o;
}

struct Results {
  std::vector<NamedTensor> forward, gradients;  // of "blocks.0" the stream behind it
};

// Of the parameters' type.
Results computed(Gpt& model, const Batch& batch) {
  Results results;
  std::map<int, Tensor> streams;  // by block; the second of each stays
  const Observer observer([&](const TapPoint& at) {
    if (at.name == "residual" && at.path.starts_with("blocks."))
      streams[std::atoi(std::string(at.path.substr(7)).c_str())] = Tensor::copy_of(at.value.value());
  });
  Tape tape;
  GradientSet gradients(model);
  const Var logits = model(batch.inputs);
  const Var loss = cross_entropy(logits, batch.targets);
  tape.backward(loss, gradients);
  for (auto& [block, stream] : streams) results.forward.push_back({fmt::format("blocks.{}", block), std::move(stream)});
  results.forward.push_back({"logits", Tensor::copy_of(logits.value())});
  results.forward.push_back({"loss", Tensor::copy_of(loss.value())});
  for_each_parameter(model, [&](const std::string& name, const Parameter& p) {
    results.gradients.push_back({"grad/" + name, Tensor::copy_of(gradients.grad(p))});
  });
  return results;
}

class Table {
 public:
  explicit Table(const SafetensorsFile* peer) : peer_(peer) {
    fmt::print("{:<32}{:<14}{:>9}{:>9}{}\n", "digits", "", "largest", "length",
               peer_ ? "   its largest  length  both in f64" : "");
  }

  void print(const std::string& name, const Tensor& single, const Tensor& exact) {
    const bench::Distance ours = bench::distance(single, exact);
    fmt::print("{:<32}{:<14}{:>9.2f}{:>9.2f}", name.starts_with("grad/") ? name.substr(5) : name,
               fmt::format("{}", exact.shape()), ours.digits(), ours.mean_digits());
    if (peer_) {
      const bench::Distance theirs = bench::distance(found(name, exact), exact);
      fmt::print("{:>14.2f}{:>8.2f}{:>13.1f}", theirs.digits(), theirs.mean_digits(),
                 bench::distance(found("f64/" + name, exact), exact).digits());
      if (name.starts_with("grad/")) {
        ++gradients_;
        better_ += ours.length_apart <= theirs.length_apart;
        more_ += ours.mean_digits() - theirs.mean_digits();
      }
    }
    fmt::print("\n");
  }

  void print_end() const {
    if (peer_)
      fmt::print(
          "\nBy length, {} of {} gradients in f32 are as exact as the peer's or more; on average by {:.2f} digits.\n",
          better_, gradients_, more_ / gradients_);
  }

 private:
  const Tensor& found(const std::string& name, const Tensor& like) const {
    const Tensor* const tensor = peer_->find(name);
    check(tensor && tensor->shape() == like.shape(), "the peer's file has no {} of {}", name, like.shape());
    return *tensor;
  }

  const SafetensorsFile* peer_;
  int gradients_ = 0, better_ = 0;
  double more_ = 0;
};

void print_table(Gpt& model, const Batch& batch, const SafetensorsFile* peer) {
  const Results single = computed(model, batch);
  std::optional<Cast> cast(std::in_place, model, f64);
  const Results exact = computed(model, batch);
  fmt::print("loss {:.6f}\n\n", exact.forward.back().tensor.item());
  Table table(peer);
  for (std::size_t i = 0; i < exact.forward.size(); ++i)
    table.print(exact.forward[i].name, single.forward[i].tensor, exact.forward[i].tensor);
  fmt::print("\n");
  for (std::size_t i = 0; i < exact.gradients.size(); ++i)
    table.print(exact.gradients[i].name, single.gradients[i].tensor, exact.gradients[i].tensor);
  table.print_end();
}

void write_inputs(const SafetensorsFile& file, const Batch& batch, const char* path) {
  std::vector<NamedView> views = {{"ids", batch.inputs}, {"targets", batch.targets}};
  for (const NamedTensor& each : file.tensors) views.push_back({"model/" + each.name, each.tensor});
  write_safetensors(path, std::move(views));
}

}  // namespace

int main(int count, char** words) try {
  const std::string_view option = count > 4 ? words[4] : "";
  if (count != 4 && (count != 6 || (option != "--write" && option != "--peer"))) {
    fmt::print(stderr, "usage: model_accuracy MODEL HEADS TEXT [--write FILE | --peer FILE]\n");
    return 2;
  }
  const SafetensorsFile file = read_safetensors(words[1]);
  Gpt model(options_of(file, std::atoll(words[2])), Rng(0));
  load_parameters(model, words[1]);
  const CharacterText text = CharacterText::from_file(words[3]);
  check(text.vocab() == model.options.vocab, "the text has {} characters, and the model knows {}", text.vocab(),
        model.options.vocab);
  const Batch batch = text.validation_batch(Rng(0, 1), 0, kBatch, model.options.context);
  if (option == "--write") return write_inputs(file, batch, words[5]), 0;
  SafetensorsFile peer;
  if (option == "--peer") peer = read_safetensors(words[5]);
  print_table(model, batch, option == "--peer" ? &peer : nullptr);
} catch (const std::exception& error) {
  fmt::print(stderr, "model_accuracy: {}\n", error.what());
  return 1;
}
