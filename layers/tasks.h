// Toy tasks with exact answers. An example is a prompt and an answer, the only right one; a model reads the prompt and
// what it has said so far, and is asked for each token of the answer:
//
//   inputs     a   b   c   |   a   b            prompt "abc|", answer "abc"
//   targets    .   .   .   a   b   c            "." is -100: nothing is asked
//
// A batch is a function of (seed, step); its row i does not depend on how many rows follow. What is held out comes from
// a stream that no batch draws from. Where a task has few different examples, the same may occur in both.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "attune/layers/batch.h"
#include "attune/lib/random.h"

namespace attune {

class Task {
 public:
  virtual ~Task() = default;

  Index vocab() const { return shape_.vocab; }
  Index context() const { return shape_.prompt + shape_.answer - 1; }  // T, the length of inputs
  Index prompt_length() const { return shape_.prompt; }
  Index answer_length() const { return shape_.answer; }

  // inputs and targets i32 [size, context()].
  Batch batch(Index step, Index size) const;
  Batch held_out(Index n) const;

  // Tokens as text, one character each (or more, where there are more than 62 symbols); "." stands for -100.
  std::string show(std::span<const std::int32_t> tokens) const;

 protected:
  struct Sizes {
    Index vocab, prompt, answer;  // how many tokens there are, and how long the two parts are
  };
  Task(const char* name, std::uint64_t seed, const Sizes& shape) : name_(name), seed_(seed), shape_(shape) {}

  // Fills the two parts of one example.
  virtual void draw(Rng& rng, std::span<std::int32_t> prompt, std::span<std::int32_t> answer) const = 0;
  // The symbols 0, 1, ... are shown as a ... z, A ... Z, 0 ... 9 unless said otherwise.
  virtual std::string show_token(Index token) const;

 private:
  Batch draw_batch(Rng rng, Index size) const;

  const char* name_;
  std::uint64_t seed_;
  Sizes shape_;
};

struct CopyTaskOptions {
  Index symbols = 10;
  Index length = 15;
  std::uint64_t seed = 0;
};

// Read `length` random symbols and a separator, then say the symbols again: "cab|cab".
class CopyTask : public Task {
 public:
  explicit CopyTask(const CopyTaskOptions& options = {});
  Index length() const { return answer_length(); }
  Index separator() const { return vocab() - 1; }  // the last token

 protected:
  void draw(Rng& rng, std::span<std::int32_t> prompt, std::span<std::int32_t> answer) const override;
  std::string show_token(Index token) const override;
};

struct ReverseTaskOptions {
  Index symbols = 10;
  Index length = 15;
  std::uint64_t seed = 0;
};

// The same from the last symbol to the first: "cab|bac".
class ReverseTask : public Task {
 public:
  explicit ReverseTask(const ReverseTaskOptions& options = {});

 protected:
  void draw(Rng& rng, std::span<std::int32_t> prompt, std::span<std::int32_t> answer) const override;
  std::string show_token(Index token) const override;
};

struct SortTaskOptions {
  Index symbols = 10;
  Index length = 10;
  std::uint64_t seed = 0;
};

// The same in order, the least first: "cabc|abcc".
class SortTask : public Task {
 public:
  explicit SortTask(const SortTaskOptions& options = {});

 protected:
  void draw(Rng& rng, std::span<std::int32_t> prompt, std::span<std::int32_t> answer) const override;
  std::string show_token(Index token) const override;
};

struct AdditionTaskOptions {
  Index digits = 3;      // of each summand, leading zeros included; at most 18
  bool reversed = true;  // the sum starts at its ones, so that the carry runs the way the model writes
  std::uint64_t seed = 0;
};

// "047+985=2301": the sum 1032 has one digit more than the summands.
class AdditionTask : public Task {
 public:
  explicit AdditionTask(const AdditionTaskOptions& options = {});

 protected:
  void draw(Rng& rng, std::span<std::int32_t> prompt, std::span<std::int32_t> answer) const override;
  std::string show_token(Index token) const override;

 private:
  AdditionTaskOptions options_;
};

struct ParityTaskOptions {
  Index length = 16;
  bool running = false;  // answers with the parity of every prefix, the last of which is that of the whole
  std::uint64_t seed = 0;
};

// Whether the number of ones is odd: "1101=1", or, running, "1101=1001". Transformers hardly learn the first (Hahn 2020).
class ParityTask : public Task {
 public:
  explicit ParityTask(const ParityTaskOptions& options = {});

 protected:
  void draw(Rng& rng, std::span<std::int32_t> prompt, std::span<std::int32_t> answer) const override;
  std::string show_token(Index token) const override;
};

struct RecallTaskOptions {
  Index keys = 16, values = 16;  // how many there are of each
  Index pairs = 6;               // how many pairs an example has, of different keys
  std::uint64_t seed = 0;
};

// Associative recall (Ba et al. 2016): pairs of a key and its value, then one of the keys again; say its value:
// "a3c1b3|c1" with the keys as letters.
class RecallTask : public Task {
 public:
  explicit RecallTask(const RecallTaskOptions& options = {});

 protected:
  void draw(Rng& rng, std::span<std::int32_t> prompt, std::span<std::int32_t> answer) const override;
  std::string show_token(Index token) const override;

 private:
  RecallTaskOptions options_;
};

struct InductionTaskOptions {
  Index symbols = 16;
  Index length = 24;   // of the random sequence
  Index pattern = 4;   // how many of its symbols come again
  std::uint64_t seed = 0;
};

// A random sequence, then the first symbol of a pattern that occurred in it; say how the pattern went on (Olsson et al.
// 2022): "dbacabbd" and "c" ask for "abb" if the pattern is "cabb". That first symbol occurs in the sequence once.
class InductionTask : public Task {
 public:
  explicit InductionTask(const InductionTaskOptions& options = {});

 protected:
  void draw(Rng& rng, std::span<std::int32_t> prompt, std::span<std::int32_t> answer) const override;

 private:
  InductionTaskOptions options_;
};

}  // namespace attune
