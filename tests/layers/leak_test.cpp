// The leak test, on every model that is shipped; and on models that leak, or look at nothing.
#include "attune/layers/leak.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "../lib/kernel_check.h"
#include "attune/autograd/checkpoint.h"
#include "attune/autograd/ops.h"

using namespace attune;
using attune::check_kernels::random;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

GptOptions small() {
  return {.vocab = 11, .context = 5, .layers = 2, .heads = 2, .width = 16, .deviation = 0.3};
}
EncoderLayerOptions layer_options() { return {.width = 8, .heads = 2, .hidden = 16, .activation = Activation::gelu}; }

}  // namespace

TEST_CASE("no Gpt looks into the future, nor into another sequence: in all variants") {
  std::vector<std::pair<const char*, GptOptions>> variants(14, {"", small()});
  std::size_t i = 0;
  const auto next = [&](const char* name) -> GptOptions& {
    variants[i].first = name;
    return variants[i++].second;
  };
  next("plain");
  next("one layer").layers = 1;
  next("four layers").layers = 4;
  next("biases").bias = true;
  next("untied").tied = false;
  next("rope").positions = Positions::rope;
  next("rms").normalize = Normalize::rms;
  next("swiglu").activation = Activation::swiglu;
  next("gelu, approximated").activation = Activation::gelu_tanh;
  next("silu").activation = Activation::silu;
  next("grouped heads").kv_heads = 1;
  next("unscaled").scale = Scale::none();
  next("1/d").scale = Scale::inverse();
  next("softcap").softcap = 5;
  REQUIRE(i == variants.size());
  for (const auto& [name, options] : variants) {
    CAPTURE(name);
    const Gpt model(options, Rng(3));
    CHECK_NOTHROW(assert_no_leak(model));
  }
}

TEST_CASE("nor does one that trains with dropout, is attended step by step, or recomputed") {
  GptOptions options = small();
  const Gpt model(options, Rng(3));
  {
    const Observer steps([](const TapPoint& at) { return at.name == "scores" ? at.value * 1 : at.value; });
    CHECK_NOTHROW(assert_no_leak(model));
  }
  const TransformerBlock& block = model.blocks[0];
  CHECK_NOTHROW(assert_no_leak(
      [&](Var x) { return checkpoint([&block](Var v) { return block(v); }, x); }, random({2, 4, 16}, f32, 1), Mask::causal()));
  options.dropout = 0.1;
  const Gpt dropping(options, Rng(3));
  const Tensor tokens = tensor({{1, 2, 3, 4, 10}, {0, 6, 5, 2, 2}}, i32);
  const LeakReport report =
      find_leaks([&](Var ids) { return dropping(ids); }, tokens, Mask::causal(), {.training = true});
  CHECK(report.leaks.empty());
}

TEST_CASE("an encoder's layer with padding, a window, and a mask of one's own, before and after its norm") {
  const Tensor x = random({3, 6, 8}, f32, 1);
  const Tensor allowed = random({6, 6}, i32, 2, 0, 2);
  for (const NormPlace place : {NormPlace::pre, NormPlace::post}) {
    EncoderLayerOptions options = layer_options();
    options.place = place;
    Rng rng(1);
    const EncoderLayer layer(options, rng), second(options, rng);
    for (const Mask& mask : {Mask(), Mask::padding({6, 2, 4}), Mask::window(2), Mask::allow(allowed),
                             Mask::causal() & Mask::padding({1, 6, 3})}) {
      CAPTURE(mask.text());
      CHECK_NOTHROW(assert_no_leak([&](Var v) { return layer(v, mask); }, x, mask));
      CHECK_NOTHROW(
          assert_no_leak([&](Var v) { return second(layer(v, mask), mask); }, x, mask, {.layers = 2}));
    }
    // Two windows of 2 see three places; one layer's mask is then too narrow.
    const Mask narrow = Mask::window(2);
    CHECK_FALSE(find_leaks([&](Var v) { return second(layer(v, narrow), narrow); }, x, narrow));
  }
}

TEST_CASE("a decoder's layer: causal in its own sequence, and the memory's padding in the other") {
  Rng rng(1);
  const DecoderLayer layer(layer_options(), rng, 12);
  const Tensor x = random({2, 4, 8}, f32, 1), memory = random({2, 5, 12}, f32, 2);
  const Mask padding = Mask::padding({5, 2});
  CHECK_NOTHROW(assert_no_leak([&](Var v) { return layer(v, memory, padding); }, x, Mask::causal()));
  CHECK_NOTHROW(assert_no_leak([&](Var m) { return layer(x, m, padding); }, memory, padding, {.own = false}));
  CHECK_FALSE(find_leaks([&](Var m) { return layer(x, m); }, memory, padding, {.own = false}));
}

TEST_CASE("attention layers of every kind") {
  const Tensor x = random({2, 5, 8}, f32, 1);
  const MultiHeadAttentionOptions plain{.width = 8, .heads = 2, .mask = Mask::causal()};
  std::vector<MultiHeadAttentionOptions> variants(5, plain);
  variants[1].sinks = true;
  variants[2].alibi = true;
  variants[3].mask = Mask::window(3);
  variants[4].rope = Rope({.width = 4, .context = 5});
  for (const MultiHeadAttentionOptions& options : variants) {
    Rng rng(1);
    const MultiHeadAttention layer(options, rng);
    CHECK_NOTHROW(assert_no_leak([&](Var v) { return layer(v); }, x, options.mask, {.own = false}));
  }
}

TEST_CASE("a model that leaks is caught: a mean over all places, a mask that is off by one, a batch that mixes") {
  const Gpt model(small(), Rng(3));
  const Observer mixing([](const TapPoint& at) {
    if (at.path != "blocks.1") return at.value;
    const Var average = mean(at.value, 1, Axes::stay);
    return at.value + average * 1e-6;
  });
  CHECK_THROWS_AS(assert_no_leak(model), std::logic_error);
  const Tensor x = random({2, 4, 3}, f32, 1);
  const LeakReport early = find_leaks(
      [](Var v) { return attention(v, v, v, {.mask = Mask::causal(Align::top_left)}); }, x, Mask::window(3));
  CHECK_FALSE(early);
  REQUIRE(early.leaks.size() == 2);
  CHECK(early.leaks[0].output == 3);
  CHECK(early.leaks[0].input == 0);
  const LeakReport shifted = find_leaks(
      [](Var v) {
        const Var later = slice(v, 1, 1, 4), first = slice(v, 1, 0, 1);
        return concat({later, first}, 1) + v;
      },
      x, Mask::window(1));
  CHECK(shifted.leaks.size() == 8);
  CHECK(contains(shifted.text(), "leak: 8 of 56 pairs that the mask window(1) hides have a gradient, first output 0 of "
                                 "sequence 0 and input 1: "));
  const LeakReport mixed = find_leaks(
      [](Var v) {
        const Var average = mean(v, 0, Axes::stay);
        return v + average;
      },
      x, Mask::window(1));
  CHECK(contains(mixed.text(), "first output 0 of sequence 0 and input 0 of another, 1: "));
}

TEST_CASE("a model that looks at nothing does not pass") {
  const Tensor x = random({1, 3, 2}, f32, 1);
  const LeakReport report = find_leaks([](Var v) { return v * 2; }, x, Mask::causal());
  CHECK_FALSE(report);
  CHECK(report.leaks.empty());
  CHECK(report.text() == "blind: 3 of 6 pairs that the mask causal shows have no gradient, first output 1 of sequence 0 "
                         "and input 0");
  const LeakReport right = find_leaks([](Var v) { return v * 2; }, x, Mask::window(1));
  CHECK(right.text() == "no leak: of 6 hidden pairs of places all gradients are exactly 0, of 3 visible ones none is "
                        "(mask: window(1))");
}

TEST_CASE("what is no sequence is an error") {
  const Tensor flat = tensor({1, 2}), tokens = tensor({{1, 2}}, i32);
  CHECK_THROWS_WITH_AS(find_leaks([](Var v) { return v; }, flat, Mask()),
                       "find_leaks: an output [2] and an input [2] are not [batch, time, ...]", std::invalid_argument);
  const Tensor table = random({3, 4}, f32, 1);
  CHECK_THROWS_WITH_AS(find_leaks([&](Var ids) { return embedding(table, ids); }, tokens, Mask()),
                       "find_leaks: no tap named residual shows what the model makes of its tokens", std::invalid_argument);
}

TEST_CASE("what is looked for leaves no gradient behind, and none that was there is touched") {
  Gpt model(small(), Rng(3));
  assert_no_leak(model);
  const ParameterList parameters(model);
  for (const auto& p : parameters.states()) CHECK_FALSE(detail::ParameterAccess::from(p).has_grad());
  {
    Tape tape;
    tape.backward(sum(Var(model.token.weight)));
  }
  const Tensor before = Tensor::copy_of(model.token.weight.grad());
  assert_no_leak(model);
  CHECK(attune::check_kernels::same_bits(model.token.weight.grad(), before.view()));
}
