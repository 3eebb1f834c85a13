// Toy tasks with exact answers. An example is a row of tokens, some of which follow from those before them: those are
// asked for. Most are a prompt and an answer:
//
//   inputs     a   b   c   |   a   b            "abc|" and "abc": each token but the last
//   targets    .   .   .   a   b   c            each token but the first; "." is -100: nothing is asked
//
// A batch is a function of (seed, step); its row i does not depend on how many rows follow. What is held out comes from
// a stream that no batch draws from. Where a task has few different examples, the same may occur in both.
#pragma once

#include <span>
#include <string>

#include "attune/layers/batch.h"
#include "attune/lib/random.h"

namespace attune {

class Task {
 public:
  virtual ~Task() = default;

  Index vocab() const { return vocab_; }
  Index context() const { return context_; }  // T, the length of inputs

  // inputs and targets i32 [size, context()]. Options that make no task, and sizes below 1, are errors.
  Batch batch(Index step, Index size) const;
  Batch held_out(Index n) const;

  // Tokens as text, one character each (or more, where there are more than 62 symbols); "." stands for -100.
  std::string show(std::span<const std::int32_t> tokens) const;

 protected:
  using Tokens = std::span<std::int32_t>;

  // `name` starts the messages.
  Task(const char* name, std::uint64_t seed, Index vocab, Index context)
      : name_(name), seed_(seed), vocab_(vocab), context_(context) {}

  // Fills the context() + 1 tokens of an example, and sets asked[i], false at first, where token i follows from those
  // before it.
  virtual void draw(Rng& rng, Tokens tokens, std::span<bool> asked) const = 0;
  // The symbols 0, 1, ... are shown as a ... z, A ... Z, 0 ... 9 unless said otherwise.
  virtual std::string show_token(Index token) const;

 private:
  Batch draw_batch(Rng rng, Index size) const;

  const char* name_;
  std::uint64_t seed_;
  Index vocab_, context_;
};

// A task of a prompt and an answer, all of which is asked for.
class AnswerTask : public Task {
 public:
  Index prompt_length() const { return prompt_; }
  Index answer_length() const { return context() + 1 - prompt_; }

 protected:
  AnswerTask(const char* name, std::uint64_t seed, Index vocab, Index prompt, Index answer)
      : Task(name, seed, vocab, prompt + answer - 1), prompt_(prompt) {}
  virtual void draw_answer(Rng& rng, Tokens prompt, Tokens answer) const = 0;

 private:
  void draw(Rng& rng, Tokens tokens, std::span<bool> asked) const final;
  Index prompt_;
};

struct CopyTaskOptions {
  Index symbols = 10;
  Index length = 15;
  std::uint64_t seed = 0;
};

// Read `length` random symbols and a separator, then say the symbols again: "cab|cab".
class CopyTask : public AnswerTask {
 public:
  explicit CopyTask(const CopyTaskOptions& options = {});
  Index length() const { return answer_length(); }
  Index separator() const { return vocab() - 1; }  // the last token

 protected:
  void draw_answer(Rng& rng, Tokens prompt, Tokens answer) const override;
  std::string show_token(Index token) const override;
};

struct ReverseTaskOptions {
  Index symbols = 10;
  Index length = 15;
  std::uint64_t seed = 0;
};

// The same from the last symbol to the first: "cab|bac".
class ReverseTask : public AnswerTask {
 public:
  explicit ReverseTask(const ReverseTaskOptions& options = {});

 protected:
  void draw_answer(Rng& rng, Tokens prompt, Tokens answer) const override;
  std::string show_token(Index token) const override;
};

struct SortTaskOptions {
  Index symbols = 10;
  Index length = 10;
  std::uint64_t seed = 0;
};

// The same in order, the least first: "cabc|abcc".
class SortTask : public AnswerTask {
 public:
  explicit SortTask(const SortTaskOptions& options = {});

 protected:
  void draw_answer(Rng& rng, Tokens prompt, Tokens answer) const override;
  std::string show_token(Index token) const override;
};

struct AdditionTaskOptions {
  Index digits = 3;      // of each summand, leading zeros included; at most 18
  bool reversed = true;  // the sum starts at its ones, so that the carry runs the way the model writes
  std::uint64_t seed = 0;
};

// "047+985=2301": the sum 1032 has one digit more than the summands.
class AdditionTask : public AnswerTask {
 public:
  explicit AdditionTask(const AdditionTaskOptions& options = {});

 protected:
  void draw_answer(Rng& rng, Tokens prompt, Tokens answer) const override;
  std::string show_token(Index token) const override;

 private:
  AdditionTaskOptions options_;
};

struct ParityTaskOptions {
  Index length = 16;
  bool running = false;  // answers with the parity of every prefix, the last of which is that of the whole
  std::uint64_t seed = 0;
};

// Whether the number of ones is odd: "1101=1", or, running, "1101=1001". The first is hardly learnt by transformers
// (Hahn 2020).
class ParityTask : public AnswerTask {
 public:
  explicit ParityTask(const ParityTaskOptions& options = {});

 protected:
  void draw_answer(Rng& rng, Tokens prompt, Tokens answer) const override;
  std::string show_token(Index token) const override;
};

struct RecallTaskOptions {
  Index keys = 8, values = 8;  // how many there are of each
  Index pairs = 4;             // how many pairs an example has, of different keys
  Index queries = 4;           // how many of them are asked for
  std::uint64_t seed = 0;
};

// Associative recall (Ba et al. 2016; with many queries, Arora et al. 2023): pairs of a key and its value, then some of
// the keys again, in any order; say the value of each: "a3c1b3|c1b3", where 1 and 3 are asked for. More pairs, or
// fewer queries, take far longer to learn.
class RecallTask : public Task {
 public:
  explicit RecallTask(const RecallTaskOptions& options = {});

 protected:
  void draw(Rng& rng, Tokens tokens, std::span<bool> asked) const override;
  std::string show_token(Index token) const override;

 private:
  RecallTaskOptions options_;
};

struct InductionTaskOptions {
  Index symbols = 32;
  Index length = 32;                  // of the sequence, behind the token that starts it
  Index shortest = 6, longest = 16;   // of the pattern
  std::uint64_t seed = 0;
};

// A pattern of different symbols, of any length between the two, over and over: "|dbacdbacdb". From its second time on,
// each symbol but the pattern's first follows from what followed the symbol before it (Olsson et al. 2022). Were all
// patterns of one length, one layer could learn to look that far back.
class InductionTask : public Task {
 public:
  explicit InductionTask(const InductionTaskOptions& options = {});

 protected:
  void draw(Rng& rng, Tokens tokens, std::span<bool> asked) const override;
  std::string show_token(Index token) const override;

 private:
  InductionTaskOptions options_;
};

}  // namespace attune
