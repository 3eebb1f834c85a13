// CharacterText: what a batch holds, that it can be had again, and where windows may start.
#include "attune/layers/text.h"

#include <unistd.h>

#include <fstream>

#include "../lib/kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

std::vector<double> row(const Tensor& x, Index i) { return values(x.view().select(0, i)); }

bool same(const Batch& a, const Batch& b) {
  return same_bits(a.inputs, b.inputs) && same_bits(a.targets, b.targets);
}

// 0, 1, 2, ...: `count` characters, each its own.
std::string alphabet(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += static_cast<char>('A' + i);
  return text;
}

}  // namespace

TEST_CASE("text: characters are numbered in the order of their codes, there and back") {
  const CharacterText text("banana\n and \xff\x01 cabbage");
  CHECK(text.vocab() == 11);
  const std::vector<std::int32_t> ids = text.encode("a\x01\n \xff");
  CHECK(ids == std::vector<std::int32_t>{3, 0, 1, 2, 10});
  CHECK(text.decode(ids) == "a\x01\n \xff");
  CHECK(text.decode(text.encode("bad cab")) == "bad cab");
  CHECK(text.encode("").empty());
}

TEST_CASE("text: a character or an id that it does not have is named") {
  const CharacterText text("abc");
  CHECK_THROWS_WITH_AS(text.encode("abz"), "text: the character 0x7a does not occur in it",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(text.encode("\xe9"), "text: the character 0xe9 does not occur in it",
                       std::invalid_argument);
  const std::int32_t large[] = {0, 3}, negative[] = {-1};
  CHECK_THROWS_WITH_AS(text.decode(large), "text: id 3 is outside of 3 characters", std::invalid_argument);
  CHECK_THROWS_WITH_AS(text.decode(negative), "text: id -1 is outside of 3 characters",
                       std::invalid_argument);
}

TEST_CASE("text: targets are the inputs one character further on") {
  const CharacterText text(alphabet(20));
  const Batch batch = text.batch(Rng(1), 0, 32, 5);
  REQUIRE(batch.inputs.shape() == Shape{32, 5});
  REQUIRE(batch.targets.shape() == Shape{32, 5});
  CHECK(batch.inputs.dtype() == i32);
  for (Index i = 0; i < 32; ++i)
    for (Index t = 0; t < 5; ++t) {
      CHECK(batch.targets.at({i, t}) == batch.inputs.at({i, t}) + 1);
      CHECK(batch.inputs.at({i, t}) == batch.inputs.at({i, 0}) + static_cast<double>(t));
    }
}

TEST_CASE("B76: text: where one window fits, it is the one") {
  const CharacterText text(alphabet(10), 0.5);  // five characters train
  const Batch batch = text.batch(Rng(1), 0, 20, 4);
  for (Index i = 0; i < 20; ++i) {
    CHECK(row(batch.inputs, i) == std::vector<double>{0, 1, 2, 3});
    CHECK(row(batch.targets, i) == std::vector<double>{1, 2, 3, 4});
  }
}

TEST_CASE("B76: text: every start is as likely as any other, the last one included") {
  const CharacterText text(alphabet(14), 0.5);  // seven characters train: starts 0, 1, 2
  std::vector<int> count(7, 0);
  const Batch batch = text.batch(Rng(1), 0, 10000, 4);
  for (Index i = 0; i < 10000; ++i) ++count[static_cast<std::size_t>(batch.inputs.at({i, 0}))];
  for (std::size_t start = 0; start < 3; ++start)
    CHECK(std::abs(count[start] - 3333) < 236);  // five deviations
  CHECK(count[0] + count[1] + count[2] == 10000);
}

TEST_CASE("B76: text: the first part trains, the rest validates, and no window has both") {
  const CharacterText text(alphabet(20), 0.6);
  const Batch training = text.batch(Rng(1), 0, 500, 4), validation = text.validation_batch(Rng(1), 0, 500, 4);
  for (Index i = 0; i < 500; ++i) {
    CHECK(training.targets.at({i, 3}) < 12);
    CHECK(validation.inputs.at({i, 0}) >= 12);
  }
}

TEST_CASE("text: a batch depends on the stream and the step alone") {
  const CharacterText text(alphabet(50));
  CHECK(same(text.batch(Rng(1), 3, 8, 5), text.batch(Rng(1), 3, 8, 5)));
  CHECK_FALSE(same(text.batch(Rng(1), 3, 8, 5), text.batch(Rng(1), 4, 8, 5)));
  CHECK_FALSE(same(text.batch(Rng(1), 3, 8, 5), text.batch(Rng(2), 3, 8, 5)));
  Rng drawn(1);
  drawn.next();
  CHECK(same(text.batch(drawn, 3, 8, 5), text.batch(Rng(1), 3, 8, 5)));
}

TEST_CASE("B76: text: what is too short says what it needs") {
  const CharacterText text(alphabet(8), 0.5), empty(""), single("x");
  CHECK_THROWS_WITH_AS(text.batch(Rng(1), 0, 1, 4),
                       "text: the training part has 4 characters, and a window needs 5",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(text.validation_batch(Rng(1), 0, 1, 4),
                       "text: the validation part has 4 characters, and a window needs 5",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(empty.batch(Rng(1), 0, 1, 4),
                       "text: the training part has 0 characters, and a window needs 5",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(single.batch(Rng(1), 0, 1, 1),
                       "text: the training part has 0 characters, and a window needs 2",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(single.validation_batch(Rng(1), 0, 1, 1),
                       "text: the validation part has 1 characters, and a window needs 2",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(text.batch(Rng(1), 0, 0, 4), "text: no batch of 0 windows of 4 at step 0",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(text.batch(Rng(1), -1, 1, 4), "text: no batch of 1 windows of 4 at step -1",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(text.batch(Rng(1), 0, 1, 0), "text: no batch of 1 windows of 0 at step 0",
                       std::invalid_argument);
  for (const double share : {0.0, 1.0, -0.1, kNan})
    CHECK_THROWS_AS(CharacterText("abc", share), std::invalid_argument);
}

TEST_CASE("text: from a file, and what is none") {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("attune-text-{}", getpid());
  std::ofstream(path, std::ios::binary) << std::string("a\r\nb\0c", 6);
  const CharacterText text = CharacterText::from_file(path, 0.5);
  CHECK(text.vocab() == 6);
  CHECK(text.decode(text.encode(std::string("\0\r\n", 3))) == std::string("\0\r\n", 3));
  std::ofstream(path, std::ios::trunc | std::ios::binary).flush();
  CHECK_THROWS_AS(CharacterText::from_file(path), std::runtime_error);
  std::filesystem::remove(path);
  for (const auto& none : {path, std::filesystem::temp_directory_path()}) {
    CHECK_THROWS_AS(CharacterText::from_file(none), std::runtime_error);
    std::string said;
    try {
      CharacterText::from_file(none);
    } catch (const std::exception& error) {
      said = error.what();
    }
    CHECK_MESSAGE(said.find(none.string()) != std::string::npos, said);
  }
}
