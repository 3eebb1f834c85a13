// KvCache: what it holds, and what it refuses.
#include "attune/layers/kv_cache.h"

#include "../lib/kernel_check.h"

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
