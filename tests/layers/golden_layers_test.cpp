// What another implementation computed with whole layers, a GPT and its training: values and gradients, in f64 to the
// last digits, and in f32.
#include "../support/golden.h"

#include "attune/layers/gpt.h"
#include "attune/layers/optim.h"
#include "attune/layers/tap.h"

using namespace attune;
using attune::golden::File;

namespace {

// -- Models have one product where the files have several: q, k and v side by side are "qkv", and k and v "key_value".

Tensor side_by_side(const File& file, const std::vector<std::string>& names) {
  Shape shape = file[names.front()].shape();
  shape[shape.rank() - 1] = 0;
  for (const std::string& name : names) shape[shape.rank() - 1] += file[name].shape().last();
  Tensor all(shape, f64);
  Index begin = 0;
  for (const std::string& name : names) {
    const Index end = begin + file[name].shape().last();
    kernels::copy(all.view().slice(-1, begin, end), file[name]);
    begin = end;
  }
  return all;
}

// "blocks.0.attention.qkv.weight" of the model, as the file has it.
Tensor stored_parameter(const File& file, const std::string& prefix, const std::string& path) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> ours = {
      {"qkv.", {"q.", "k.", "v."}}, {"key_value.", {"k.", "v."}}, {"query.", {"q."}}, {"out.", {"o."}}};
  for (const auto& [name, theirs] : ours) {
    const auto at = path.find(name);
    if (at == std::string::npos) continue;
    std::vector<std::string> parts;
    for (const std::string& part : theirs) parts.push_back(prefix + std::string(path).replace(at, name.size(), part));
    return side_by_side(file, parts);
  }
  return file[prefix + path].clone();
}

template <class Model>
void load(Model& model, const File& file) {
  for_each_parameter(model, [&](const std::string& path, Parameter& p) {
    kernels::copy(p.mutable_value(), stored_parameter(file, "param.", path).to(p.dtype()));
  });
}

// The gradient of a key's bias, which moves all scores of a query alike, is nothing but rounding.
template <class Model>
void compare_gradients(const Model& model, const File& file) {
  for_each_parameter(model, [&](const std::string& path, const Parameter& p) {
    const bool of_keys = path.ends_with("qkv.bias") || path.ends_with("key_value.bias");
    file.compare("grad." + path, p.grad(), stored_parameter(file, "grad.", path),
                 of_keys ? File::Zeros::rounded : File::Zeros::exact);
  });
}

// The keys that may be read, where the file has lengths.
Mask mask_of(const File& file) {
  if (!file.has("in.lengths")) return {};
  std::vector<Index> lengths;
  for (const double length : check_kernels::values(file["in.lengths"])) lengths.push_back(static_cast<Index>(length));
  return Mask::padding(lengths);
}

// call(x, memory) computes y with the model; memory is x where the file has none.
template <class Model, class F>
void compare_layer(Model& model, const File& file, F&& call) {
  for (const DType dtype : file.dtypes()) {
    const Cast cast(model, dtype);
    load(model, file);
    Tape tape;
    Tensor weights;
    const Observer watch([&](const TapPoint& at) {
      if (at.name == "weights") weights = Tensor::copy_of(at.value.value());
    });
    const Var x = variable(file.as("in.x", dtype));
    const bool has_memory = file.has("in.memory");
    const Var memory = has_memory ? variable(file.as("in.memory", dtype)) : x;
    const Var y = call(x, memory);
    tape.backward(y, file.as("up.y", dtype));
    file.compare("out.y", y.value());
    if (file.has("out.weights")) file.compare("out.weights", weights);
    file.compare("grad.x", x.grad());
    if (has_memory) file.compare("grad.memory", memory.grad());
    compare_gradients(model, file);
  }
}

Index whole(const File& file, const char* key) { return static_cast<Index>(file.number(key)); }
Mask causal(const File& file) { return file.text("causal") == "true" ? Mask::causal() : Mask(); }

// -- A GPT and its training.

Gpt gpt() { return Gpt({.vocab = 17, .context = 12, .layers = 2, .heads = 2, .width = 16}, Rng(0)); }

// Where the file says that embeddings do not decay, they are a group that does not.
AdamWOptions adamw_options(const File& file) {
  std::vector<ParameterGroup> groups;
  if (file.text("decayed").find("token.weight") == std::string::npos)
    groups = {{.match = "token.*", .decay = 0}, {.match = "position.*", .decay = 0}};
  return {.lr = file.number("lr"),
          .beta1 = file.number("beta1"),
          .beta2 = file.number("beta2"),
          .epsilon = file.number("adam_eps"),
          .decay = file.number("weight_decay"),
          .clip = file.number("clip"),
          .groups = groups};
}

Tensor tokens_of(const File& file, const char* name, Index step) {
  return Tensor::copy_of(file[name].view().select(0, step));
}

void compare_first_step(const Gpt& model, const File& file) {
  Tape tape;
  const Var logits = model(tokens_of(file, "in.tokens", 0));
  const Var loss = cross_entropy(logits, tokens_of(file, "in.targets", 0));
  tape.backward(loss);
  file.compare("out.logits", logits.value());
  file.compare("out.loss", loss.value());
  compare_gradients(model, file);
}

// The loss of each step, before its update.
Tensor train(Gpt& model, const File& file) {
  AdamW optimizer(model, adamw_options(file));
  const auto steps = static_cast<Index>(file.number("steps"));
  Tensor losses({steps}, model.token.weight.dtype());
  for (Index step = 0; step < steps; ++step) {
    Tape tape;
    const Var logits = model(tokens_of(file, "in.tokens", step));
    const Var loss = cross_entropy(logits, tokens_of(file, "in.targets", step));
    tape.backward(loss);
    optimizer.step();
    losses.set({step}, loss.item());
  }
  return losses;
}

}  // namespace

TEST_CASE("golden: multi-head self-attention, causal and padded") {
  if (!golden::available()) return;
  for (const char* name : {"mha_self_causal", "mha_self_padding"}) {
    const File file(name);
    Rng rng(0);
    MultiHeadAttention model({.width = 8, .heads = whole(file, "heads"), .mask = causal(file)}, rng);
    compare_layer(model, file, [&](Var x, Var) { return model(x, mask_of(file)); });
  }
}

TEST_CASE("golden: multi-head cross-attention, whole and padded") {
  if (!golden::available()) return;
  for (const char* name : {"mha_cross", "mha_cross_padding"}) {
    const File file(name);
    Rng rng(0);
    MultiHeadAttention model({.width = file["in.x"].shape().last(),
                              .memory_width = file["in.memory"].shape().last(),
                              .heads = whole(file, "heads"),
                              .key_width = file["param.k.weight"].shape().last() / whole(file, "heads"),
                              .value_width = file["param.v.weight"].shape().last() / whole(file, "heads"),
                              .bias = file.has("param.q.bias")},
                             rng);
    compare_layer(model, file, [&](Var x, Var memory) { return model(x, memory, mask_of(file)); });
  }
}

TEST_CASE("golden: transformer blocks, pre-norm and post-norm") {
  if (!golden::available()) return;
  for (const char* name : {"block_pre_norm", "block_post_norm"}) {
    const File file(name);
    Rng rng(0);
    TransformerBlock model({.attention = {.width = 8, .heads = whole(file, "heads"), .mask = causal(file)},
                            .mlp = {.width = 8, .hidden = 16},
                            .place = file.text("norm") == "pre" ? NormPlace::pre : NormPlace::post},
                           rng);
    compare_layer(model, file, [&](Var x, Var) { return model(x); });
  }
}

TEST_CASE("golden: the encoder's and the decoder's layer of 2017") {
  if (!golden::available()) return;
  {
    const File file("encoder_layer");
    Rng rng(0);
    EncoderLayer model({.width = 8, .heads = whole(file, "heads"), .hidden = 12}, rng);
    compare_layer(model, file, [&](Var x, Var) { return model(x, mask_of(file)); });
  }
  const File file("decoder_layer");
  Rng rng(0);
  DecoderLayer model({.width = 8, .heads = whole(file, "heads"), .hidden = 12}, rng);
  compare_layer(model, file, [&](Var x, Var memory) { return model(x, memory, mask_of(file)); });
}

TEST_CASE("golden: a GPT, its gradients and ten steps of its training") {
  if (!golden::available()) return;
  for (const char* name : {"gpt", "gpt_embeddings_not_decayed"}) {
    const File file(name);
    for (const DType dtype : file.dtypes()) {
      Gpt model = gpt();
      const Cast cast(model, dtype);
      load(model, file);
      compare_first_step(model, file);
    }
    Gpt model = gpt();
    const Cast cast(model, f64);
    load(model, file);
    file.compare("out.losses", train(model, file));
    for_each_parameter(model, [&](const std::string& path, const Parameter& p) {
      file.compare("out.final." + path, p.value(), stored_parameter(file, "out.final.", path));
    });
  }
}

TEST_CASE("golden: a GPT trained in f32 has the losses of one trained elsewhere") {
  if (!golden::available()) return;
  for (const char* name : {"gpt", "gpt_embeddings_not_decayed"}) {
    const File file(name);
    Gpt model = gpt();
    load(model, file);
    const Tensor losses = train(model, file);
    double worst = 0;
    for (Index step = 0; step < losses.count(); ++step)
      worst = std::max(worst, std::abs(losses.at({step}) - file["out.losses_f32"].at({step})));
    golden::print_line(name, f32, "out.losses_f32", worst / 1e-5);
    CHECK(worst <= 1e-5);
  }
}
