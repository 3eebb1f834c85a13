#include "attune/layers/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

namespace attune {
namespace {

using Tokens = std::span<std::int32_t>;

std::int32_t token_below(Rng& rng, Index n) { return static_cast<std::int32_t>(rng.below(n)); }

// Random symbols, and a separator behind them: the token after the last symbol.
void draw_symbols(Rng& rng, Tokens prompt, Index symbols) {
  for (auto& token : prompt.first(prompt.size() - 1)) token = token_below(rng, symbols);
  prompt.back() = static_cast<std::int32_t>(symbols);
}

// The seed of a task of `length` symbols, which are checked first.
std::uint64_t checked(const char* name, Index symbols, Index length, std::uint64_t seed) {
  check(symbols >= 1 && length >= 1, "{} task: {} symbols and a length of {} must be at least 1", name, symbols,
        length);
  return seed;
}

}  // namespace

// ---- What all have in common

Batch Task::batch(Index step, Index size) const {
  check(step >= 0 && size >= 1, "{} task: no batch of {} at step {}", name_, size, step);
  return draw_batch(Rng(seed_).split("train").split(static_cast<std::uint64_t>(step)), size);
}

Batch Task::held_out(Index n) const {
  check(n >= 1, "{} task: no {} examples to hold out", name_, n);
  return draw_batch(Rng(seed_).split("held out"), n);
}

Batch Task::draw_batch(Rng rng, Index size) const {
  Batch batch{Tensor({size, context()}, i32), full({size, context()}, -100, i32)};
  const auto length = static_cast<std::size_t>(context()) + 1;
  std::vector<std::int32_t> tokens(length);
  const auto asked = std::make_unique<bool[]>(length);  // what a span can show: a vector<bool> has no bools
  auto input = batch.inputs.data<std::int32_t>().begin(), target = batch.targets.data<std::int32_t>().begin();
  for (Index row = 0; row < size; ++row) {
    std::fill_n(asked.get(), length, false);
    draw(rng, tokens, {asked.get(), length});
    input = std::copy(tokens.begin(), tokens.end() - 1, input);
    for (std::size_t i = 1; i < length; ++i, ++target)
      if (asked[i]) *target = tokens[i];
  }
  return batch;
}

void AnswerTask::draw(Rng& rng, Tokens tokens, std::span<bool> asked) const {
  const auto prompt = static_cast<std::size_t>(prompt_);
  draw_answer(rng, tokens.first(prompt), tokens.subspan(prompt));
  std::ranges::fill(asked.subspan(prompt), true);
}

std::string Task::show(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    check(token == -100 || (token >= 0 && token < vocab()), "{} task: {} is none of its {} tokens", name_, token,
          vocab());
    text += token == -100 ? "." : show_token(token);
  }
  return text;
}

std::string Task::show_token(Index token) const {
  constexpr std::string_view characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  if (token < static_cast<Index>(characters.size())) return {characters[static_cast<std::size_t>(token)]};
  return fmt::format("<{}>", token);
}

// ---- Copy, reverse, sort

CopyTask::CopyTask(const CopyTaskOptions& o)
    : AnswerTask("copy", checked("copy", o.symbols, o.length, o.seed), o.symbols + 1, o.length + 1, o.length) {}

void CopyTask::draw_answer(Rng& rng, Tokens prompt, Tokens answer) const {
  draw_symbols(rng, prompt, separator());
  std::copy(prompt.begin(), prompt.end() - 1, answer.begin());
}

std::string CopyTask::show_token(Index token) const { return token == separator() ? "|" : Task::show_token(token); }

ReverseTask::ReverseTask(const ReverseTaskOptions& o)
    : AnswerTask("reverse", checked("reverse", o.symbols, o.length, o.seed), o.symbols + 1, o.length + 1, o.length) {}

void ReverseTask::draw_answer(Rng& rng, Tokens prompt, Tokens answer) const {
  draw_symbols(rng, prompt, vocab() - 1);
  std::reverse_copy(prompt.begin(), prompt.end() - 1, answer.begin());
}

std::string ReverseTask::show_token(Index token) const { return token == vocab() - 1 ? "|" : Task::show_token(token); }

SortTask::SortTask(const SortTaskOptions& o)
    : AnswerTask("sort", checked("sort", o.symbols, o.length, o.seed), o.symbols + 1, o.length + 1, o.length) {}

void SortTask::draw_answer(Rng& rng, Tokens prompt, Tokens answer) const {
  draw_symbols(rng, prompt, vocab() - 1);
  std::copy(prompt.begin(), prompt.end() - 1, answer.begin());
  std::sort(answer.begin(), answer.end());
}

std::string SortTask::show_token(Index token) const { return token == vocab() - 1 ? "|" : Task::show_token(token); }

// ---- Addition

namespace {

constexpr std::int32_t kPlus = 10, kEquals = 11;

Index checked_digits(Index digits) {
  check(digits >= 1 && digits <= 18, "addition task: {} digits are not 1 to 18", digits);
  return digits;
}

// The decimal digits of a number, the ones last.
void write_digits(Index number, Tokens digits) {
  for (std::size_t i = digits.size(); i-- > 0; number /= 10) digits[i] = static_cast<std::int32_t>(number % 10);
}

}  // namespace

AdditionTask::AdditionTask(const AdditionTaskOptions& o)
    : AnswerTask("addition", o.seed, 12, 2 * checked_digits(o.digits) + 2, o.digits + 1), options_(o) {}

void AdditionTask::draw_answer(Rng& rng, Tokens prompt, Tokens answer) const {
  const auto digits = static_cast<std::size_t>(options_.digits);
  Index limit = 1;
  for (std::size_t i = 0; i < digits; ++i) limit *= 10;
  const Index a = rng.below(limit), b = rng.below(limit);
  write_digits(a, prompt.first(digits));
  prompt[digits] = kPlus;
  write_digits(b, prompt.subspan(digits + 1, digits));
  prompt.back() = kEquals;
  write_digits(a + b, answer);
  if (options_.reversed) std::reverse(answer.begin(), answer.end());
}

std::string AdditionTask::show_token(Index token) const {
  return {"0123456789+="[static_cast<std::size_t>(token)]};
}

// ---- Parity

namespace {

Index checked_length(Index length) {
  check(length >= 1, "parity task: a length of {} is not at least 1", length);
  return length;
}

}  // namespace

ParityTask::ParityTask(const ParityTaskOptions& o)
    : AnswerTask("parity", o.seed, 3, checked_length(o.length) + 1, o.running ? o.length : 1) {}

void ParityTask::draw_answer(Rng& rng, Tokens prompt, Tokens answer) const {
  draw_symbols(rng, prompt, 2);
  std::vector<std::int32_t> parity(prompt.size() - 1);  // of every prefix
  std::partial_sum(prompt.begin(), prompt.end() - 1, parity.begin(), std::bit_xor());
  std::copy(parity.end() - static_cast<std::ptrdiff_t>(answer.size()), parity.end(), answer.begin());
}

std::string ParityTask::show_token(Index token) const { return {"01="[static_cast<std::size_t>(token)]}; }

// ---- Recall

namespace {

const RecallTaskOptions& checked(const RecallTaskOptions& o) {
  check(o.keys >= 1 && o.values >= 1 && o.pairs >= 1 && o.queries >= 1,
        "recall task: {} keys, {} values, {} pairs and {} queries must be at least 1", o.keys, o.values, o.pairs,
        o.queries);
  check(o.pairs <= o.keys, "recall task: {} pairs need as many different keys, and there are {}", o.pairs, o.keys);
  check(o.queries <= o.pairs, "recall task: {} queries for {} pairs", o.queries, o.pairs);
  return o;
}

}  // namespace

// Keys are the first tokens, then values, then the separator.
RecallTask::RecallTask(const RecallTaskOptions& o)
    : Task("recall", checked(o).seed, o.keys + o.values + 1, 2 * o.pairs + 2 * o.queries), options_(o) {}

void RecallTask::draw(Rng& rng, Tokens tokens, std::span<bool> asked) const {
  const auto pairs = static_cast<std::size_t>(options_.pairs), queries = static_cast<std::size_t>(options_.queries);
  std::vector<Index> keys(static_cast<std::size_t>(options_.keys)), places(pairs);
  std::iota(keys.begin(), keys.end(), Index{0});
  std::iota(places.begin(), places.end(), Index{0});
  shuffle(keys, rng);
  shuffle(places, rng);
  for (std::size_t i = 0; i < pairs; ++i) {
    tokens[2 * i] = static_cast<std::int32_t>(keys[i]);
    tokens[2 * i + 1] = static_cast<std::int32_t>(options_.keys) + token_below(rng, options_.values);
  }
  tokens[2 * pairs] = static_cast<std::int32_t>(vocab() - 1);
  for (std::size_t i = 0; i < queries; ++i) {
    const std::size_t from = 2 * static_cast<std::size_t>(places[i]), to = 2 * pairs + 1 + 2 * i;
    tokens[to] = tokens[from];
    tokens[to + 1] = tokens[from + 1];
    asked[to + 1] = true;
  }
}

std::string RecallTask::show_token(Index token) const {
  if (token == vocab() - 1) return "|";
  if (token < options_.keys) return Task::show_token(token);
  const Index value = token - options_.keys;
  return value < 10 ? fmt::format("{}", value) : fmt::format("<{}>", value);
}

// ---- Induction

namespace {

const InductionTaskOptions& checked(const InductionTaskOptions& o) {
  check(o.shortest >= 2 && o.shortest <= o.longest && o.longest <= o.symbols,
        "induction task: patterns of {} to {} different symbols of {}", o.shortest, o.longest, o.symbols);
  check(o.length >= o.longest + 2, "induction task: a length of {} leaves nothing to ask after a pattern of {}",
        o.length, o.longest);
  return o;
}

}  // namespace

// The token after the symbols starts a sequence.
InductionTask::InductionTask(const InductionTaskOptions& o)
    : Task("induction", checked(o).seed, o.symbols + 1, o.length), options_(o) {}

void InductionTask::draw(Rng& rng, Tokens tokens, std::span<bool> asked) const {
  std::vector<Index> symbols(static_cast<std::size_t>(options_.symbols));
  std::iota(symbols.begin(), symbols.end(), Index{0});
  shuffle(symbols, rng);
  const auto period = static_cast<std::size_t>(options_.shortest + rng.below(options_.longest - options_.shortest + 1));
  tokens[0] = static_cast<std::int32_t>(options_.symbols);
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    tokens[i + 1] = static_cast<std::int32_t>(symbols[i % period]);
    asked[i + 1] = i > period;  // at i = period, nobody can know that the pattern is over
  }
}

std::string InductionTask::show_token(Index token) const {
  return token == options_.symbols ? "|" : Task::show_token(token);
}

}  // namespace attune
