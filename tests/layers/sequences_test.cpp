// One's own sequences: padding, lengths, orders, and the last batch.
#include "attune/layers/sequences.h"

#include <set>

#include "../lib/kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

using Ids = Sequences::Ids;
using Numbers = std::vector<double>;

// n sequences of lengths 2, 3, 4, 2, 3, 4, ..., number i made of i.
std::vector<Ids> numbered(int n) {
  std::vector<Ids> sequences;
  for (int i = 0; i < n; ++i) sequences.emplace_back(static_cast<std::size_t>(2 + i % 3), i);
  return sequences;
}

}  // namespace

TEST_CASE("sequences: each token foresees the next, and padding asks nothing") {
  const Sequences data = Sequences::next_token({{1, 2, 3, 4}, {5, 6}}, {.batch = 2, .padding = 9, .shuffled = false});
  const PaddedBatch batch = data.batch(0, 0);
  CHECK(batch.inputs.shape() == Shape{2, 3});
  CHECK(values(batch.inputs) == Numbers{1, 2, 3, 5, 9, 9});
  CHECK(values(batch.targets) == Numbers{2, 3, 4, 6, -100, -100});
  CHECK(values(batch.lengths) == Numbers{3, 1});
  CHECK(batch.lengths.dtype() == i32);
  CHECK(batch.inputs.dtype() == i32);
}

TEST_CASE("sequences: labels of tokens, and classes") {
  const SequencesOptions options{.batch = 2, .shuffled = false};
  const PaddedBatch labelled = Sequences::labelled({{1}, {2, 3}}, {{7}, {-100, 8}}, options).batch(0);
  CHECK(values(labelled.inputs) == Numbers{1, 0, 2, 3});
  CHECK(values(labelled.targets) == Numbers{7, -100, -100, 8});
  const PaddedBatch classified = Sequences::classified({{1}, {2, 3}}, {1, 0}, options).batch(0);
  CHECK(values(classified.inputs) == Numbers{1, 0, 2, 3});
  CHECK(classified.targets.shape() == Shape{2});
  CHECK(values(classified.targets) == Numbers{1, 0});
  CHECK(values(classified.lengths) == Numbers{1, 2});
}

TEST_CASE("sequences: an epoch has each of them once, in an order of its own") {
  const Sequences data = Sequences::next_token(numbered(50), {.batch = 8, .seed = 3});
  CHECK(data.size() == 50);
  REQUIRE(data.batches() == 7);
  std::vector<Numbers> orders;
  for (Index epoch = 0; epoch < 2; ++epoch) {
    Numbers order;
    for (Index i = 0; i < 7; ++i)
      for (const double id : values(data.batch(epoch, i).inputs.view().select(1, 0))) order.push_back(id);
    CHECK(std::set<double>(order.begin(), order.end()).size() == 50);
    orders.push_back(order);
  }
  CHECK(orders[0] != orders[1]);
  const Sequences twin = Sequences::next_token(numbered(50), {.batch = 8, .seed = 3}),
                  other = Sequences::next_token(numbered(50), {.batch = 8, .seed = 4});
  CHECK(twin.order(1) == data.order(1));
  CHECK(other.order(1) != data.order(1));
  CHECK(same_bits(twin.batch(9).inputs, data.batch(1, 2).inputs));  // step 9 is batch 2 of epoch 1
}

TEST_CASE("B76: sequences: an epoch's last batch has what is left, or is left out") {
  const Sequences kept = Sequences::next_token(numbered(10), {.batch = 4}),
                  dropped = Sequences::next_token(numbered(10), {.batch = 4, .keep_last = false});
  REQUIRE(kept.batches() == 3);
  CHECK(kept.batch(0, 1).inputs.size(0) == 4);
  CHECK(kept.batch(0, 2).inputs.size(0) == 2);
  CHECK(kept.batch(0, 2).lengths.shape() == Shape{2});
  CHECK(dropped.batches() == 2);
  CHECK_THROWS_WITH_AS(dropped.batch(0, 2), "sequences: there is no batch 2 of 2", std::invalid_argument);
  CHECK(Sequences::next_token(numbered(8), {.batch = 4}).batches() == 2);
}

TEST_CASE("sequences: what is refused") {
  const auto refused = [](auto make, const char* message) {
    CHECK_THROWS_WITH_AS(make(), message, std::invalid_argument);
  };
  refused([] { Sequences::next_token({}); }, "sequences: there are none");
  refused([] { Sequences::next_token({{1, 2}, {3}}); }, "sequences: number 1 has 1 tokens, and needs 2");
  refused([] { Sequences::labelled({{}}, {{}}); }, "sequences: number 0 has 0 tokens, and needs 1");
  refused([] { Sequences::labelled({{1}}, {}); }, "sequences: 1 of them, and 0 of labels");
  refused([] { Sequences::labelled({{1}, {2, 3}}, {{1}, {2}}); }, "sequences: number 1 has 2 tokens and 1 labels");
  refused([] { Sequences::classified({{1}, {2}}, {1}); }, "sequences: 2 of them, and 1 classes");
  refused([] { Sequences::next_token({{1, 2}}, {.batch = 0}); }, "sequences: a batch of 0 is not at least 1");
  refused([] { Sequences::next_token({{1, 2}}, {.batch = 2, .keep_last = false}); },
          "sequences: 1 do not fill a batch of 2, and a last one is not kept");
  const Sequences data = Sequences::next_token(numbered(3));
  refused([&] { data.batch(-1, 0); }, "sequences: there is no epoch -1");
  refused([&] { data.batch(0, 1); }, "sequences: there is no batch 1 of 1");
}
