// A model's parameters in a file, under their paths ("blocks.0.mlp.up.weight"), in the safetensors format.
#pragma once

#include <filesystem>

#include "attune/autograd/parameter.h"

namespace attune {

// Replaces what stood at `path` at once, when the new file is whole.
void save_parameters(const ParameterList& parameters, const std::filesystem::path& path);
template <class Model>
void save_parameters(Model& model, const std::filesystem::path& path) {
  save_parameters(ParameterList(model), path);
}

// The file must hold exactly the model's parameters: a name, shape or type that does not fit is an error that names it,
// and then no parameter has changed.
void load_parameters(const ParameterList& parameters, const std::filesystem::path& path);
template <class Model>
void load_parameters(Model& model, const std::filesystem::path& path) {
  load_parameters(ParameterList(model), path);
}

}  // namespace attune
