// A run's folder:
//
//   config.json              what the model is and how it is trained: with the model, all that generating needs
//   model.safetensors        the parameters alone
//   checkpoint.safetensors   all that is needed to go on, bit by bit
//   metrics.csv              a row for each time it was looked at
//   attention.csv            how saturated each head was, where --meter asked for it
//   run.json                 by whom, where and with what it was made
//
// Every file is replaced whole, or not at all.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arguments.h"
#include "attune/lib/file.h"
#include "problem.h"

namespace attune::program {

struct RunConfig {
  std::string task;
  std::string vocabulary;  // the byte of each token
  std::string example;     // a prompt
  std::string answer;      // what follows it, where that is certain
  Recipe recipe;
  std::uint64_t seed = 1;
  Index every = 1;                // steps between two rows and checkpoints
  Index meter = 0;                // steps between two rows of attention.csv; 0: there is none
  std::string data, fingerprint;  // of a text

  GptOptions model() const;
  // As much of the example and its answer as the model can read: what its heads are shown on.
  std::string shown_text() const { return (example + answer).substr(0, static_cast<std::size_t>(recipe.context)); }
  // Ids of a text. A byte that no token stands for is an InputError that starts with `what`.
  std::vector<std::int32_t> encode(const std::string& what, const std::string& text) const;
  std::string decode(std::span<const std::int32_t> ids) const;
};

struct Row {
  Index step = 0, tokens = 0;
  double train_loss = 0, val_loss = 0;
  std::optional<double> accuracy;
  double lr = 0, grad_norm = 0, tokens_per_s = 0;
};

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path model() const { return path_ / "model.safetensors"; }
  std::filesystem::path checkpoint() const { return path_ / "checkpoint.safetensors"; }

  // Throws an InputError unless it can be made; makes nothing.
  void check_new() const;
  void create() const;
  // No other process trains there as long as it lives: an InputError says so where one does.
  std::unique_ptr<FolderLock> lock() const;

  void write_config(const RunConfig& config) const;
  // An InputError names what is missing, or not as it should be.
  RunConfig read_config() const;
  void write_metrics(const std::vector<Row>& rows) const;
  std::vector<Row> read_metrics() const;
  void write_attention(const std::string& text) const { write("attention.csv", text); }
  std::string read_attention() const { return read("attention.csv"); }
  // Adds this process to the run's story.
  void write_story(const Arguments& arguments, const RunConfig& config, Index from_step) const;

 private:
  std::string read(const char* file) const;
  void write(const char* file, const std::string& text) const;
  std::filesystem::path path_;
};

// The model of a folder, with its trained parameters. InputErrors, as above.
Gpt load_model(const RunFolder& folder, const RunConfig& config);

}  // namespace attune::program
