// Toy tasks: prompts, answers that are recomputed, batches that can be had again, and what is held out.
#include "attune/layers/tasks.h"

#include <map>
#include <set>

#include "../lib/kernel_check.h"

using namespace attune;
using namespace attune::check_kernels;

namespace {

using Ids = std::vector<std::int32_t>;

std::vector<double> row(const Tensor& x, Index i) { return values(x.view().select(0, i)); }

Ids ids(const Tensor& x, Index i) {
  Ids result;
  for (const double id : row(x, i)) result.push_back(static_cast<std::int32_t>(id));
  return result;
}

bool same(const Batch& a, const Batch& b) { return same_bits(a.inputs, b.inputs) && same_bits(a.targets, b.targets); }

std::vector<std::unique_ptr<Task>> every_task() {
  std::vector<std::unique_ptr<Task>> tasks;
  tasks.push_back(std::make_unique<CopyTask>());
  tasks.push_back(std::make_unique<ReverseTask>());
  tasks.push_back(std::make_unique<SortTask>());
  tasks.push_back(std::make_unique<AdditionTask>());
  tasks.push_back(std::make_unique<ParityTask>());
  tasks.push_back(std::make_unique<ParityTask>(ParityTaskOptions{.running = true}));
  tasks.push_back(std::make_unique<RecallTask>());
  tasks.push_back(std::make_unique<InductionTask>());
  return tasks;
}

// Row i of a batch as text: its prompt and its answer.
std::pair<std::string, std::string> example(const AnswerTask& task, const Batch& batch, Index i) {
  const std::size_t prompt = static_cast<std::size_t>(task.prompt_length());
  CHECK(task.prompt_length() + task.answer_length() == task.context() + 1);
  Ids in = ids(batch.inputs, i), out = ids(batch.targets, i);
  for (std::size_t t = 0; t + 1 < prompt; ++t) CHECK(out[t] == -100);
  return {task.show(std::span(in).first(prompt)), task.show(std::span(out).subspan(prompt - 1))};
}

// Row i of a batch as text: its inputs and its targets.
std::pair<std::string, std::string> shown(const Task& task, const Batch& batch, Index i) {
  return {task.show(ids(batch.inputs, i)), task.show(ids(batch.targets, i))};
}

// Checks an answer by right(prompt), over many examples.
template <class F>
void check_answers(const AnswerTask& task, F&& right) {
  const Batch batch = task.batch(3, 200);
  for (Index i = 0; i < 200; ++i) {
    const auto [prompt, answer] = example(task, batch, i);
    CHECK_MESSAGE(answer == right(prompt), prompt);
  }
}

}  // namespace

TEST_CASE("every task: shapes, ids in range, and targets that are the next tokens") {
  for (const auto& task : every_task()) {
    const Batch batch = task->batch(0, 16);
    REQUIRE(batch.inputs.shape() == Shape{16, task->context()});
    REQUIRE(batch.targets.shape() == Shape{16, task->context()});
    CHECK(batch.inputs.dtype() == i32);
    CHECK(batch.targets.dtype() == i32);
    for (const double id : values(batch.inputs)) CHECK((id >= 0 && id < static_cast<double>(task->vocab())));
    for (Index i = 0; i < 16; ++i) {
      const std::vector<double> in = row(batch.inputs, i), out = row(batch.targets, i);
      Index asked = 0;
      for (std::size_t t = 0; t < out.size(); ++t) {
        asked += out[t] != -100;
        if (t + 1 < out.size() && out[t] != -100) CHECK(out[t] == in[t + 1]);
      }
      CHECK(asked >= 1);
    }
  }
}

TEST_CASE("every task: a batch depends on the seed and the step alone, and its rows not on its size") {
  const auto tasks = every_task(), twins = every_task();
  for (std::size_t k = 0; k < tasks.size(); ++k) {
    const Task &task = *tasks[k], &twin = *twins[k];
    const Batch later = task.batch(7, 8), longer = twin.batch(7, 20);
    CHECK(same(task.batch(0, 8), twin.batch(0, 8)));
    CHECK(same(twin.batch(7, 8), later));
    CHECK_FALSE(same(task.batch(0, 8), later));
    CHECK(same_bits(longer.inputs.view().slice(0, 0, 8), later.inputs));
    CHECK(same(task.held_out(20), twin.held_out(20)));
    CHECK_FALSE(same(task.held_out(8), later));
  }
  CHECK_FALSE(same(SortTask({.seed = 1}).batch(0, 8), SortTask({.seed = 2}).batch(0, 8)));
  CHECK_FALSE(same(RecallTask({.seed = 1}).held_out(8), RecallTask({.seed = 2}).held_out(8)));
}

TEST_CASE("every task: what is refused") {
  const CopyTask copy;
  CHECK_THROWS_WITH_AS(copy.batch(0, 0), "copy task: no batch of 0 at step 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(copy.batch(-1, 2), "copy task: no batch of 2 at step -1", std::invalid_argument);
  CHECK_THROWS_WITH_AS(copy.held_out(0), "copy task: no 0 examples to hold out", std::invalid_argument);
  CHECK_THROWS_WITH_AS(copy.show(Ids{11}), "copy task: 11 is none of its 11 tokens", std::invalid_argument);
  CHECK_THROWS_WITH_AS(CopyTask({.symbols = 0}), "copy task: 0 symbols and a length of 15 must be at least 1",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(ReverseTask({.length = 0}), "reverse task: 10 symbols and a length of 0 must be at least 1",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(SortTask({.length = -1}), "sort task: 10 symbols and a length of -1 must be at least 1",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(AdditionTask({.digits = 19}), "addition task: 19 digits are not 1 to 18", std::invalid_argument);
  CHECK_THROWS_WITH_AS(ParityTask({.length = 0}), "parity task: a length of 0 is not at least 1", std::invalid_argument);
  CHECK_THROWS_WITH_AS(RecallTask({.keys = 2, .pairs = 3}),
                       "recall task: 3 pairs need as many different keys, and there are 2", std::invalid_argument);
  CHECK_THROWS_WITH_AS(RecallTask({.values = 0}),
                       "recall task: 8 keys, 0 values, 4 pairs and 4 queries must be at least 1", std::invalid_argument);
  CHECK_THROWS_WITH_AS(RecallTask({.pairs = 3, .queries = 4}), "recall task: 4 queries for 3 pairs",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(InductionTask({.symbols = 10}), "induction task: patterns of 6 to 16 different symbols of 10",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(InductionTask({.shortest = 1}), "induction task: patterns of 1 to 16 different symbols of 32",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(InductionTask({.length = 17}),
                       "induction task: a length of 17 leaves nothing to ask after a pattern of 16",
                       std::invalid_argument);
}

TEST_CASE("copy task: symbols, a separator, and the symbols again") {
  const CopyTask task({.symbols = 5, .length = 4, .seed = 1});
  CHECK(task.vocab() == 6);
  CHECK(task.separator() == 5);
  CHECK(task.length() == 4);
  CHECK(task.context() == 8);
  check_answers(task, [](const std::string& prompt) {
    CHECK(prompt.back() == '|');
    return prompt.substr(0, 4);
  });
}

TEST_CASE("copy task: its numbers are those that it has always had") {
  const CopyTask task({.symbols = 10, .length = 4, .seed = 42});
  Rng training = Rng(42).split("train").split(7), unseen = Rng(42).split("held out");
  const Batch batch = task.batch(7, 3), held_out = task.held_out(3);
  for (Index i = 0; i < 3; ++i)
    for (Index t = 0; t < 4; ++t) {
      CHECK(batch.inputs.at({i, t}) == static_cast<double>(training.below(10)));
      CHECK(held_out.inputs.at({i, t}) == static_cast<double>(unseen.below(10)));
    }
}

TEST_CASE("copy task: a length of 1") {
  const CopyTask task({.symbols = 2, .length = 1, .seed = 1});
  const Batch batch = task.batch(3, 2);
  CHECK(batch.inputs.shape() == Shape{2, 2});
  CHECK(batch.inputs.at({0, 1}) == 2);
  CHECK(batch.targets.at({0, 1}) == batch.inputs.at({0, 0}));
}

TEST_CASE("copy task: all symbols occur, about equally often") {
  const CopyTask task({.symbols = 4, .length = 10, .seed = 3});
  std::vector<int> count(4, 0);
  const Batch batch = task.batch(0, 1000);
  for (Index i = 0; i < 1000; ++i)
    for (Index t = 0; t < 10; ++t) ++count[static_cast<std::size_t>(batch.inputs.at({i, t}))];
  for (const int n : count) CHECK(std::abs(n - 2500) < 220);  // five deviations
}

TEST_CASE("copy task: no held-out example occurs in training") {
  const CopyTask task({.symbols = 10, .length = 15, .seed = 1});
  const Batch held_out = task.held_out(50);
  std::set<std::vector<double>> trained;
  for (Index step = 0; step < 20; ++step) {
    const Batch batch = task.batch(step, 50);
    for (Index i = 0; i < 50; ++i) trained.insert(row(batch.inputs, i));
  }
  CHECK(trained.size() == 1000);
  for (Index i = 0; i < 50; ++i) CHECK(trained.count(row(held_out.inputs, i)) == 0);
}

TEST_CASE("reverse and sort: answers recomputed") {
  check_answers(ReverseTask({.symbols = 70, .length = 1}), [](const std::string& prompt) {
    return prompt.substr(0, prompt.size() - 1);  // symbols beyond the alphabet are shown as numbers
  });
  check_answers(ReverseTask({.length = 7}), [](const std::string& prompt) {
    return std::string(prompt.rbegin() + 1, prompt.rend());
  });
  check_answers(SortTask({.length = 7}), [](std::string prompt) {
    prompt.pop_back();
    std::sort(prompt.begin(), prompt.end());
    return prompt;
  });
}

TEST_CASE("addition: answers recomputed, the ones first or last") {
  for (const Index digits : {1, 3, 18})
    for (const bool reversed : {true, false})
      check_answers(AdditionTask({.digits = digits, .reversed = reversed}), [&](const std::string& prompt) {
        const auto n = static_cast<std::size_t>(digits);
        CHECK(prompt[n] == '+');
        CHECK(prompt.back() == '=');
        const std::int64_t sum = std::stoll(prompt.substr(0, n)) + std::stoll(prompt.substr(n + 1, n));
        std::string text = fmt::format("{:0{}}", sum, digits + 1);
        if (reversed) std::reverse(text.begin(), text.end());
        return text;
      });
}

TEST_CASE("parity: answers recomputed, of the whole or of every prefix") {
  const auto parities = [](const std::string& prompt) {
    std::string text;
    int odd = 0;
    for (const char bit : prompt.substr(0, prompt.size() - 1)) text += static_cast<char>('0' + (odd ^= bit - '0'));
    return text;
  };
  check_answers(ParityTask({.length = 9, .running = true}), parities);
  check_answers(ParityTask({.length = 9}), [&](const std::string& prompt) { return parities(prompt).substr(8); });
}

TEST_CASE("recall: the values of different keys, in any order") {
  const RecallTask task({.keys = 8, .values = 10, .pairs = 4, .queries = 3});
  CHECK(task.vocab() == 19);
  const Batch batch = task.batch(3, 200);
  std::set<std::size_t> places;
  for (Index i = 0; i < 200; ++i) {
    const auto [in, out] = shown(task, batch, i);
    REQUIRE(in.size() == 14);
    CHECK(in[8] == '|');
    std::map<char, char> value;
    for (std::size_t t = 0; t < 8; t += 2) value[in[t]] = in[t + 1];
    CHECK(value.size() == 4);
    std::set<char> asked;
    for (std::size_t t = 0; t < 14; ++t) {
      const bool is_query = t == 9 || t == 11 || t == 13;
      CHECK(out[t] == (is_query ? value.at(in[t]) : '.'));
      if (is_query) asked.insert(in[t]);
    }
    CHECK(asked.size() == 3);
    places.insert(in.find(in[9]) / 2);
  }
  CHECK(places.size() == 4);
  CHECK(task.show(Ids{0, 8, 17, 18, -100}) == "a09|.");
}

TEST_CASE("induction: what followed before, for patterns of all lengths") {
  const InductionTask task({.symbols = 8, .length = 10, .shortest = 2, .longest = 5});
  const Batch batch = task.batch(3, 200);
  std::set<std::size_t> periods;
  for (Index i = 0; i < 200; ++i) {
    const auto [in, out] = shown(task, batch, i);
    REQUIRE(in.size() == 10);
    CHECK(in[0] == '|');
    for (std::size_t t = 0; t < 10; ++t) {
      const std::size_t before = t > 0 ? in.rfind(in[t], t - 1) : in.npos;
      CHECK(out[t] == (before == in.npos ? '.' : in[before + 1]));
    }
    periods.insert(in.find(in[1], 2) - 1);
  }
  CHECK(periods == std::set<std::size_t>{2, 3, 4, 5});
}
