// TransformerBlock, EncoderLayer and DecoderLayer: how they are put together, and their gradients.
#include "attune/layers/transformer.h"

#include "../lib/kernel_check.h"
#include "attune/autograd/gradcheck.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

template <class Layer>
std::vector<std::string> names(const Layer& layer) {
  std::vector<std::string> result;
  for_each_parameter(layer, [&](const std::string& name, const Parameter&) { result.push_back(name); });
  return result;
}

}  // namespace

TEST_CASE("block: x + attention(norm1(x)), then + mlp(norm2(...))") {
  Rng rng(1);
  const TransformerBlock block({.attention = {.width = 8, .heads = 2, .mask = Mask::causal()}, .mlp = {.width = 8}}, rng);
  const NoGrad scope;
  const Var x = random({2, 5, 8}, f32, 2);
  const Var attended = block.attention(block.norm1(x));
  const Var between = x + attended;
  const Var thought = block.mlp(block.norm2(between));
  CHECK(same_bits(block(x).value(), (between + thought).value()));
}

TEST_CASE("block: post-norm, norm1(x + attention(x)), then norm2(... + mlp(...))") {
  Rng rng(1);
  const TransformerBlock block(
      {.attention = {.width = 8, .heads = 2}, .mlp = {.width = 8}, .place = NormPlace::post, .normalize = Normalize::rms}, rng);
  const NoGrad scope;
  const Var x = random({2, 5, 8}, f32, 2);
  const Var attended = block.attention(x);
  const Var between = block.norm1(x + attended);
  const Var thought = block.mlp(between);
  CHECK(same_bits(block(x).value(), block.norm2(between + thought).value()));
}

TEST_CASE("encoder layer: a post-norm block with relu, in which every token sees every other") {
  Rng rng(1);
  const EncoderLayer layer({.width = 8, .heads = 2, .hidden = 12}, rng);
  CHECK(layer.mlp.activation == Activation::relu);
  CHECK(layer.place == NormPlace::post);
  const NoGrad scope;
  const Tensor x = random({1, 5, 8}, f32, 2);
  Tensor changed = x.clone();
  changed.set({0, 4, 0}, 3);
  const Tensor before = Tensor::copy_of(layer(x).value());
  const Tensor after = Tensor::copy_of(layer(changed).value());
  CHECK_FALSE(same_bits(before.view().select(1, 0), after.view().select(1, 0)));
  // Unless a mask hides it.
  const Index lengths[] = {4};
  const Tensor hidden = Tensor::copy_of(layer(x, Mask::padding(lengths)).value());
  const Tensor still_hidden = Tensor::copy_of(layer(changed, Mask::padding(lengths)).value());
  CHECK(same_bits(hidden.view().slice(1, 0, 4), still_hidden.view().slice(1, 0, 4)));
}

TEST_CASE("decoder layer: causal over itself, free over its memory, and blind to what is padding there") {
  Rng rng(1);
  const DecoderLayer layer({.width = 8, .heads = 2, .hidden = 12}, rng, 6);
  CHECK(names(layer) ==
        std::vector<std::string>{"norm1.weight", "norm1.bias", "attention.qkv.weight", "attention.qkv.bias",
                                 "attention.out.weight", "attention.out.bias", "norm2.weight", "norm2.bias",
                                 "cross.query.weight", "cross.query.bias", "cross.key_value.weight",
                                 "cross.key_value.bias", "cross.out.weight", "cross.out.bias", "norm3.weight",
                                 "norm3.bias", "mlp.up.weight", "mlp.up.bias", "mlp.down.weight", "mlp.down.bias"});
  const Tensor x = random({2, 4, 8}, f32, 2), memory = random({2, 5, 6}, f32, 3);
  Tensor later = x.clone(), padding = memory.clone();
  later.set({0, 3, 1}, 9);
  padding.set({1, 4, 2}, kNan);
  const Index lengths[] = {5, 4};
  const NoGrad scope;
  const Tensor y = Tensor::copy_of(layer(x, memory, Mask::padding(lengths)).value());
  CHECK(same_bits(y.view().slice(1, 0, 3), layer(later, memory, Mask::padding(lengths)).value().slice(1, 0, 3)));
  CHECK(same_bits(y, layer(x, padding, Mask::padding(lengths)).value()));
  CHECK_FALSE(same_bits(y, layer(x, memory).value()));
}

TEST_CASE("transformer layers: gradients of everything, pre and post") {
  for (const NormPlace place : {NormPlace::pre, NormPlace::post}) {
    Rng rng(2);
    EncoderLayer encoder({.width = 4, .heads = 2, .hidden = 5, .activation = Activation::gelu, .place = place}, rng);
    DecoderLayer decoder({.width = 4, .heads = 2, .hidden = 5, .activation = Activation::gelu, .place = place}, rng);
    const Cast cast(encoder, f64);
    const Cast cast_decoder(decoder, f64);
    Tensor x = random({2, 3, 4}, f64, 3), memory = random({2, 4, 4}, f64, 4);
    const Index lengths[] = {3, 2}, memory_lengths[] = {1, 4};
    const auto encode = [&](Var in) { return encoder(in, Mask::padding(lengths)); };
    const auto decode = [&](Var in, Var known) { return decoder(in, known, Mask::padding(memory_lengths)); };
    const GradcheckReport of_encoder = gradcheck_parameters(ParameterList(encoder), [&] { return encode(x); });
    CHECK_MESSAGE(of_encoder.passed(), of_encoder.text());
    const GradcheckReport of_decoder = gradcheck_parameters(ParameterList(decoder), [&] { return decode(x, memory); });
    CHECK_MESSAGE(of_decoder.passed(), of_decoder.text());
    CHECK(gradcheck(encode, x));
    CHECK(gradcheck(decode, x, memory));
  }
}

TEST_CASE("transformer layers: what is refused when they are made") {
  Rng rng(1);
  CHECK_THROWS_WITH_AS(EncoderLayer({.width = 8, .hidden = -4}, rng), "mlp: a hidden width of -4 is negative",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(DecoderLayer({.width = 8, .dropout = 2}, rng),
                       "attention: a dropout of 2 is not between 0 and 1", std::invalid_argument);
  CHECK_THROWS_WITH_AS(DecoderLayer({.width = 8}, rng, -8),
                       "attention: key_width 0, value_width 0 or memory_width -8 is negative",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(TransformerBlock({.attention = {.width = 8}, .mlp = {.width = 8}, .dropout = 2}, rng),
                       "dropout: a share of 2 is not between 0 and 1", std::invalid_argument);
}
