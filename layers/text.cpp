#include "attune/layers/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "attune/lib/file.h"

namespace attune {

CharacterText::CharacterText(std::string_view text, double training) {
  check(training > 0 && training < 1, "text: a training share of {} is not between 0 and 1", training);
  id_of_.fill(-1);
  for (const char c : text) id_of_[static_cast<unsigned char>(c)] = 0;
  for (std::size_t byte = 0; byte < id_of_.size(); ++byte) {
    if (id_of_[byte] < 0) continue;
    id_of_[byte] = static_cast<int>(characters_.size());
    characters_ += static_cast<char>(byte);
  }
  ids_ = encode(text);
  training_ = static_cast<std::size_t>(static_cast<double>(ids_.size()) * training);
}

CharacterText CharacterText::from_file(const std::filesystem::path& path, double training) {
  const InputFile file(path);
  check_environment(file.size() > 0, "text: {} is empty", path.string());
  std::string text(file.size(), '\0');
  file.read(0, text.data(), text.size());
  return CharacterText(text, training);
}

Batch CharacterText::batch(const Rng& rng, Index step, Index size, Index context) const {
  return windows(std::span(ids_).first(training_), "training", rng, step, size, context);
}

Batch CharacterText::validation_batch(const Rng& rng, Index step, Index size, Index context) const {
  return windows(std::span(ids_).subspan(training_), "validation", rng, step, size, context);
}

Batch CharacterText::windows(std::span<const std::int32_t> ids, const char* part, const Rng& from, Index step,
                             Index size, Index context) const {
  check(step >= 0 && size >= 1 && context >= 1, "text: no batch of {} windows of {} at step {}", size, context, step);
  const Index starts = static_cast<Index>(ids.size()) - context;
  check(starts >= 1, "text: the {} part has {} characters, and a window needs {}", part, ids.size(), context + 1);
  Rng rng = from.split(static_cast<std::uint64_t>(step));
  Batch batch{Tensor({size, context}, i32), Tensor({size, context}, i32)};
  auto* input = batch.inputs.data<std::int32_t>().data();
  auto* target = batch.targets.data<std::int32_t>().data();
  for (Index row = 0; row < size; ++row) {
    const auto window = ids.subspan(static_cast<std::size_t>(rng.below(starts)), static_cast<std::size_t>(context) + 1);
    input = std::copy(window.begin(), window.end() - 1, input);
    target = std::copy(window.begin() + 1, window.end(), target);
  }
  return batch;
}

std::vector<std::int32_t> CharacterText::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  ids.reserve(text.size());
  for (const char c : text) {
    const int id = id_of_[static_cast<unsigned char>(c)];
    if (id < 0) check(false, "text: the character {} does not occur in it", fmt::format("0x{:02x}", c & 0xff));
    ids.push_back(id);
  }
  return ids;
}

std::string CharacterText::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    check(id >= 0 && id < vocab(), "text: id {} is outside of {} characters", id, vocab());
    text += characters_[static_cast<std::size_t>(id)];
  }
  return text;
}

}  // namespace attune
