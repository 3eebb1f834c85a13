// KvCache: what it holds, and what it refuses.
#include "attune/layers/kv_cache.h"

#include "../lib/kernel_check.h"
#include "attune/layers/attention.h"
#include "attune/layers/gpt.h"
#include "attune/layers/position.h"

using namespace attune;
using namespace attune::check_kernels;

TEST_CASE("kv cache: tokens one after the other, and the first of them back") {
  KvCache cache({2, 3, 5, 4}, {2, 3, 5, 6}, f64);
  CHECK((cache.length() == 0 && cache.capacity() == 5));
  const Tensor keys = random({2, 3, 5, 4}, f64, 1), values = random({2, 3, 5, 6}, f64, 2);
  Index begin = 0;
  for (const Index more : {2, 0, 3}) {
    cache.append(keys.view().slice(2, begin, begin + more), values.view().slice(2, begin, begin + more));
    begin += more;
    CHECK(cache.length() == begin);
    CHECK(same_bits(cache.keys(), keys.view().slice(2, 0, begin)));
    CHECK(same_bits(cache.values(), values.view().slice(2, 0, begin)));
  }
  cache.truncate(1);
  CHECK(same_bits(cache.keys(), keys.view().slice(2, 0, 1)));
}

TEST_CASE("kv cache: what is refused, changing nothing") {
  KvCache cache({1, 2, 3, 4}, {1, 2, 3, 5}, f32);
  cache.append(ones({1, 2, 2, 4}), ones({1, 2, 2, 5}));
  CHECK_THROWS_WITH_AS(cache.append(ones({1, 2, 2, 4}), ones({1, 2, 2, 5})),
                       "kv_cache: 2 tokens after 2 do not fit into 3", std::invalid_argument);
  CHECK_THROWS_WITH_AS(cache.append(ones({1, 2, 1, 4}), ones({1, 2, 1, 4})),
                       "kv_cache: keys f32 [1, 2, 1, 4] and values f32 [1, 2, 1, 4] do not fit a cache of f32 "
                       "[1, 2, 3, 4] and [1, 2, 3, 5]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(cache.append(ones({1, 2, 1, 4}, f64), ones({1, 2, 1, 5}, f64)),
                       "kv_cache: keys f64 [1, 2, 1, 4] and values f64 [1, 2, 1, 5] do not fit a cache of f32 "
                       "[1, 2, 3, 4] and [1, 2, 3, 5]",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(cache.truncate(3), "kv_cache: no 3 of 2 tokens can be kept", std::invalid_argument);
  CHECK_THROWS_WITH_AS(KvCache({1, 2, 3, 4}, {1, 2, 4, 4}, f32),
                       "kv_cache: keys [1, 2, 3, 4] and values [1, 2, 4, 4] are not [batch, heads, capacity, width] of "
                       "one kind",
                       std::invalid_argument);
  CHECK(cache.length() == 2);
}

TEST_CASE("B14: kv cache: rotated by position and masked from the end, any chunks give the rows of the whole") {
  const Tensor x = tensor({{1, 0}, {0, 1}, {1, 1}, {-1, 1}, {2, -1}, {0.5, 0.5}}, f64);
  const std::vector<double> expected = {1,           0,           0.213809009,  0.786190991,  0.629044078, 0.945303958,
                                        -0.299540208, 0.725175788, 1.718880109, -0.612311090, 0.285574673, 0.497440415};
  const Rope rope({.width = 2, .context = 6});
  for (const std::vector<Index>& chunks : {std::vector<Index>{6}, {3, 2, 1}, {1, 1, 1, 1, 1, 1}, {1, 5}}) {
    KvCache cache({1, 1, 6, 2}, {1, 1, 6, 2}, f64);
    std::vector<double> rows;
    for (const Index more : chunks) {
      const NoGrad scope;
      const Index first = cache.length();
      const Tensor tokens = Tensor::copy_of(x.view().slice(0, first, first + more).reshape({1, 1, more, 2}));
      const Var turned = rope(tokens, first);
      cache.append(turned.value(), tokens);
      const Tensor keys = Tensor::copy_of(cache.keys()), said = Tensor::copy_of(cache.values());
      const std::vector<double> y = values(attention(turned, keys, said, {.mask = Mask::causal()}).value());
      rows.insert(rows.end(), y.begin(), y.end());
    }
    REQUIRE(rows.size() == expected.size());
    for (std::size_t i = 0; i < rows.size(); ++i) CHECK(std::abs(rows[i] - expected[i]) <= 1e-9);
  }

  // What comes out where the last token is turned as the first of its chunk: the numbers above would not pass it.
  const NoGrad scope;
  const Tensor all = Tensor::copy_of(x.view().reshape({1, 1, 6, 2}));
  const Tensor last = Tensor::copy_of(all.view().slice(2, 5, 6)), turned = Tensor::copy_of(rope(last, 0).value());
  Tensor keys = Tensor::copy_of(rope(all).value());
  kernels::copy(keys.view().slice(2, 5, 6), turned);
  check_close(attention(turned, keys, all, {.mask = Mask::causal()}).value(), {0.467153375, 0.505044115}, 0, 1e-9);
}

TEST_CASE("kv cache: a layer whose mask is not the same for the last token alone refuses it") {
  Rng rng(1);
  const NoGrad scope;
  for (const Mask& mask : {Mask(), Mask::causal(Align::top_left), Mask::causal() & Mask::padding({4})}) {
    const MultiHeadAttention layer({.width = 8, .heads = 2, .mask = mask}, rng);
    KvCache cache = layer.cache(1, 6);
    CHECK_THROWS_WITH_AS(layer(ones({1, 1, 8}), cache),
                         fmt::format("attention: a cache is for a causal mask or a window, aligned at the bottom right, "
                                     "and this layer's is {}",
                                     mask)
                             .c_str(),
                         std::invalid_argument);
    CHECK(cache.length() == 0);
  }
  const MultiHeadAttention layer({.width = 8, .heads = 2, .mask = Mask::window(3)}, rng);
  KvCache cache = layer.cache(1, 6);
  layer(ones({1, 2, 8}), cache);
  CHECK(cache.length() == 2);
}

TEST_CASE("kv cache: what throws on the way leaves all layers of a Gpt as they were") {
  const Gpt model({.vocab = 5, .context = 6, .layers = 3, .heads = 1, .width = 4}, Rng(1));
  const NoGrad scope;
  const Tensor first = tensor({{0, 1}}, i32), next = tensor({{2}}, i32);
  GptCache cache = model.cache(1);
  model(first, cache);
  {
    const Observer fault([](const TapPoint& at) -> Var {
      if (at.path == "blocks.1.attention" && at.name == "heads") throw std::runtime_error("stopped");
      return at.value;
    });
    CHECK_THROWS_WITH_AS(model(next, cache), "stopped", std::runtime_error);
  }
  CHECK(cache.length() == 2);
  GptCache other = model.cache(1);
  model(first, other);
  CHECK(same_bits(model(next, cache).value(), model(next, other).value()));
}
