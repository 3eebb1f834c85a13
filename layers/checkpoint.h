// Files to go on from: a model's parameters alone, or all that a training run needs to continue bit by bit as if it had
// not stopped. Both are safetensors files, and replace what stood at their path at once, when they are safely on disk.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "attune/autograd/parameter.h"
#include "attune/layers/state.h"

namespace attune {

// ---- A model alone: tensors under their paths ("blocks.0.mlp.up.weight").

void save_parameters(const ParameterList& parameters, const std::filesystem::path& path);
template <class Model>
void save_parameters(Model& model, const std::filesystem::path& path) {
  save_parameters(ParameterList(model), path);
}

// The file must hold exactly the model's parameters: whatever name, shape or type does not fit is named by a
// std::runtime_error, and then no parameter has changed.
void load_parameters(const ParameterList& parameters, const std::filesystem::path& path);
template <class Model>
void load_parameters(Model& model, const std::filesystem::path& path) {
  load_parameters(ParameterList(model), path);
}

// ---- A whole run, in one file.
//
//   const std::vector<CheckpointPart> parts = {
//       {"model", model}, {"optimizer", optimizer}, {"average", average}, {"data", rng}, {"step", step}};
//   if (std::filesystem::exists(path)) load_checkpoint(path, parts);
//   while (step < steps) {
//     ...
//     ++step;
//     save_checkpoint(path, parts);
//   }
//
// A part's tensors stand in the file under its name and a dot ("model.token.weight"), its numbers in the metadata, as
// text. Schedules are functions of the step, which is all that need be saved of them.

// Something under a name: a model; an optimizer, averages, or whatever else has visit_state(StateVisitor&); an Rng, an
// Index, a double or a std::string. It is borrowed, and must outlive the part. Names are not empty and have no dot.
class CheckpointPart {
 public:
  template <class T>
  CheckpointPart(std::string name, T& object)
      : name_(std::move(name)), visit_([&object](StateVisitor& state) { show(state, object); }) {}

  const std::string& name() const { return name_; }
  void visit_state(StateVisitor& state) const { visit_(state); }

 private:
  static void show(StateVisitor& state, Rng& rng) { state.random("", rng); }
  static void show(StateVisitor& state, Index& number) { state.integer("", number); }
  static void show(StateVisitor& state, double& number) { state.number("", number); }
  static void show(StateVisitor& state, std::string& text) { state.text("", text); }
  static void show(StateVisitor& state, const ParameterList& parameters);
  template <class T>
  static void show(StateVisitor& state, T& object) {
    static_assert(!std::is_arithmetic_v<T>, "a number of a checkpoint is an Index or a double");
    if constexpr (requires { object.visit_state(state); }) object.visit_state(state);
    else show(state, ParameterList(object));
  }

  std::string name_;
  std::function<void(StateVisitor&)> visit_;
};

void save_checkpoint(const std::filesystem::path& path, const std::vector<CheckpointPart>& parts);

// The file must hold exactly these parts, and they must fit; whatever does not is named by a std::runtime_error, and
// then nothing has changed.
void load_checkpoint(const std::filesystem::path& path, const std::vector<CheckpointPart>& parts);

// One part of a checkpoint, such as the model to evaluate it; the others are left alone.
void load_part(const std::filesystem::path& path, const CheckpointPart& part);

}  // namespace attune
