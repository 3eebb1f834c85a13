#include "attune/layers/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <span>
#include <tuple>

#include "attune/lib/kernels/elementwise.h"
#include "attune/lib/safetensors.h"

namespace attune {
namespace {

// In the metadata of every checkpoint: what the layout of its parts is called.
constexpr const char* kKey = "checkpoint";
constexpr const char* kVersion = "1";

// A visitor that stands at one part after the other.
class PartVisitor : public StateVisitor {
 public:
  void enter(const std::string& part) { part_ = part; }

 protected:
  // "optimizer" and "lr" make "optimizer.lr"; a part that is one number has its own name alone.
  std::string full(const std::string& name) const {
    return part_.empty() || name.empty() ? part_ + name : part_ + "." + name;
  }

 private:
  std::string part_;
};

class Saver : public PartVisitor {
 public:
  std::vector<NamedView> tensors;
  Metadata metadata;

  void tensor(const std::string& name, const View& numbers) override { tensors.push_back({full(name), numbers}); }
  void text(const std::string& name, std::string& text) override { put(name, text); }
  void integer(const std::string& name, Index& number) override { put(name, fmt::format("{}", number)); }
  // The fewest digits that are this double and no other.
  void number(const std::string& name, double& number) override { put(name, fmt::format("{}", number)); }
  void random(const std::string& name, Rng& rng) override {
    put(name, fmt::format("{} {} {}", rng.seed(), rng.stream(), rng.position()));
  }
  void constant(const std::string& name, const std::string& text) override { put(name, text); }
  void when_loaded(std::function<void()>) override {}

 private:
  void put(const std::string& name, const std::string& text) {
    check(metadata.emplace(full(name), text).second, "checkpoint: two things are called '{}'", full(name));
  }
};

// Reads numbers that stand in `text` with spaces between; whether they are all that stands there.
template <class... Numbers>
bool parse(const std::string& text, Numbers&... numbers) {
  const char *at = text.data(), *const end = at + text.size();
  bool is_first = true;
  const auto one = [&](auto& number) {
    if (!is_first && (at == end || *at++ != ' ')) return false;
    is_first = false;
    const auto [next, error] = std::from_chars(at, end, number);
    at = next;
    return error == std::errc();
  };
  return (one(numbers) && ...) && at == end;
}

// Notes what fits and what does not; apply() changes everything, or throws.
class Loader : public PartVisitor {
 public:
  explicit Loader(const std::filesystem::path& path) : path_(path.string()), file_(read_safetensors(path)) {}

  const Metadata& metadata() const { return file_.metadata; }
  const std::string& path() const { return path_; }

  void tensor(const std::string& name, const View& numbers) override {
    const std::string key = full(name);
    const Tensor* const stored = file_.find(key);
    if (!stored) return fail(fmt::format("there is no '{}'", key));
    used_.insert(key);
    if (stored->shape() != numbers.shape() || stored->dtype() != numbers.dtype())
      return fail(fmt::format("'{}' is {} {}, not {} {}", key, stored->dtype(), stored->shape(), numbers.dtype(),
                              numbers.shape()));
    actions_.push_back([stored, numbers] { kernels::copy(numbers, *stored); });
  }
  void text(const std::string& name, std::string& text) override {
    if (const std::string* stored = find(name)) actions_.push_back([&text, stored] { text = *stored; });
  }
  void integer(const std::string& name, Index& number) override {
    parsed<Index>(name, "an integer", [&number](Index read) { number = read; });
  }
  void number(const std::string& name, double& number) override {
    parsed<double>(name, "a number", [&number](double read) { number = read; });
  }
  void random(const std::string& name, Rng& rng) override {
    using Word = std::uint64_t;
    parsed<Word, Word, Word>(name, "a place in a stream of random numbers",
                             [&rng](Word seed, Word stream, Word position) { rng = Rng(seed, stream, position); });
  }
  void constant(const std::string& name, const std::string& text) override {
    const std::string* stored = find(name);
    if (stored && *stored != text) fail(fmt::format("'{}' is {}, not {}", full(name), *stored, text));
  }
  void when_loaded(std::function<void()> action) override { actions_.push_back(std::move(action)); }

  // What of the file was not asked for is a fault, too: all of it, or what belongs to one part.
  void want_no_other_tensor() {
    for (const NamedTensor& tensor : file_.tensors) want(tensor.name);
  }
  void want_nothing_else() {
    want_no_other_tensor();
    for (const auto& [key, text] : file_.metadata)
      if (key != "format" && key != kKey) want(key);
  }
  void want_nothing_else_of(const std::string& part) {
    const auto belongs = [&](const std::string& name) { return name == part || name.starts_with(part + "."); };
    for (const NamedTensor& tensor : file_.tensors)
      if (belongs(tensor.name)) want(tensor.name);
    for (const auto& [key, text] : file_.metadata)
      if (belongs(key)) want(key);
  }

  void apply() {
    if (!faults_.empty()) {
      constexpr std::size_t most = 8;
      const std::span shown = std::span(faults_).first(std::min(most, faults_.size()));
      std::string text = fmt::format("{}", fmt::join(shown, "; "));
      if (faults_.size() > most) text += fmt::format("; and {} more", faults_.size() - most);
      check_environment(false, "load: {} does not fit: {}", path_, text);
    }
    for (const auto& action : actions_) action();
  }

 private:
  void fail(std::string fault) { faults_.push_back(std::move(fault)); }
  void want(const std::string& name) {
    if (!used_.contains(name)) fail(fmt::format("'{}' belongs to nothing here", name));
  }

  // The text of that name, which stays where it is; nullptr, and a fault, where there is none.
  const std::string* find(const std::string& name) {
    const auto found = file_.metadata.find(full(name));
    if (found == file_.metadata.end()) {
      fail(fmt::format("there is no '{}'", full(name)));
      return nullptr;
    }
    used_.insert(found->first);
    return &found->second;
  }

  template <class... Numbers, class F>
  void parsed(const std::string& name, const char* kind, F&& set) {
    const std::string* const stored = find(name);
    if (!stored) return;
    std::tuple<Numbers...> numbers;
    if (!std::apply([&](auto&... number) { return parse(*stored, number...); }, numbers))
      return fail(fmt::format("'{}' is '{}', not {}", full(name), *stored, kind));
    actions_.push_back([set, numbers] { std::apply(set, numbers); });
  }

  std::string path_;
  SafetensorsFile file_;
  std::set<std::string> used_;
  std::vector<std::string> faults_;
  std::vector<std::function<void()>> actions_;
};

void show_parameters(StateVisitor& state, const ParameterList& parameters) {
  for (const auto& p : parameters.states()) {
    state.tensor(p->name, p->value);
    state.when_loaded([p] { ++p->version; });
  }
}

void check_names(const std::vector<CheckpointPart>& parts) {
  std::set<std::string> names = {"format", kKey};
  for (const CheckpointPart& part : parts) {
    check(!part.name().empty() && part.name().find('.') == std::string::npos,
          "checkpoint: '{}' cannot be the name of a part: it is empty, or has a dot", part.name());
    check(names.insert(part.name()).second, "checkpoint: the name '{}' is taken", part.name());
  }
}

void check_version(const Loader& loader) {
  const auto found = loader.metadata().find(kKey);
  check_environment(found != loader.metadata().end(), "load: {} is no checkpoint: its metadata has no '{}'",
                    loader.path(), kKey);
  check_environment(found->second == kVersion, "load: {} is a checkpoint of version {}, and this reads version {}",
                    loader.path(), found->second, kVersion);
}

}  // namespace

void save_parameters(const ParameterList& parameters, const std::filesystem::path& path) {
  Saver saver;
  show_parameters(saver, parameters);
  write_safetensors(path, std::move(saver.tensors));
}

void load_parameters(const ParameterList& parameters, const std::filesystem::path& path) {
  Loader loader(path);
  show_parameters(loader, parameters);
  loader.want_no_other_tensor();
  loader.apply();
}

void CheckpointPart::show(StateVisitor& state, const ParameterList& parameters) { show_parameters(state, parameters); }

void save_checkpoint(const std::filesystem::path& path, const std::vector<CheckpointPart>& parts) {
  check_names(parts);
  Saver saver;
  saver.metadata.emplace(kKey, kVersion);
  for (const CheckpointPart& part : parts) {
    saver.enter(part.name());
    part.visit_state(saver);
  }
  write_safetensors(path, std::move(saver.tensors), std::move(saver.metadata));
}

void load_checkpoint(const std::filesystem::path& path, const std::vector<CheckpointPart>& parts) {
  check_names(parts);
  Loader loader(path);
  check_version(loader);
  for (const CheckpointPart& part : parts) {
    loader.enter(part.name());
    part.visit_state(loader);
  }
  loader.want_nothing_else();
  loader.apply();
}

void load_part(const std::filesystem::path& path, const CheckpointPart& part) {
  check_names({part});
  Loader loader(path);
  check_version(loader);
  loader.enter(part.name());
  part.visit_state(loader);
  loader.want_nothing_else_of(part.name());
  loader.apply();
}

}  // namespace attune
