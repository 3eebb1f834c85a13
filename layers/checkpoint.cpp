#include "attune/layers/checkpoint.h"

#include <algorithm>

#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/safetensors.h"

namespace attune {

void save_parameters(const ParameterList& parameters, const std::filesystem::path& path) {
  std::vector<NamedView> tensors;
  for (const auto& p : parameters.states()) tensors.push_back({p->name, p->value});
  write_safetensors(path, std::move(tensors));
}

void load_parameters(const ParameterList& parameters, const std::filesystem::path& path) {
  const SafetensorsFile file = read_safetensors(path);
  for (const auto& p : parameters.states()) {
    const Tensor* tensor = file.find(p->name);
    check_environment(tensor != nullptr, "load: {} has no parameter '{}'", path.string(), p->name);
    check_environment(tensor->shape() == p->value.shape() && tensor->dtype() == p->value.dtype(),
                      "load: '{}' is {} {} in {}, and {} {} in the model", p->name, tensor->dtype(), tensor->shape(),
                      path.string(), p->value.dtype(), p->value.shape());
  }
  for (const NamedTensor& tensor : file.tensors) {
    const auto& states = parameters.states();
    const bool known = std::any_of(states.begin(), states.end(), [&](const auto& p) { return p->name == tensor.name; });
    check_environment(known, "load: {} has a parameter '{}' that the model does not", path.string(), tensor.name);
  }
  for (const auto& p : parameters.states()) {
    kernels::copy(p->value, *file.find(p->name));
    ++p->version;
  }
}

}  // namespace attune
