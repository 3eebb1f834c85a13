#include "run_folder.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "attune/layers/checkpoint.h"
#include "attune/lib/kernels/rows.h"
#include "attune/lib/threads.h"
#include "attune/lib/utf8.h"
#include "attune/lib/version.h"

namespace attune::program {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;  // of config.json
constexpr const char* kHeading = "step,tokens,train_loss,val_loss,accuracy,lr,grad_norm,tokens_per_s";

// Bytes as text of JSON and back: byte b as U+00b, so that ASCII reads as itself and nothing is lost.
std::string widened(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(text, static_cast<unsigned char>(byte));
  return text;
}

std::string narrowed(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80)
      bytes += static_cast<char>(byte);
    else if ((byte == 0xc2 || byte == 0xc3) && i + 1 < text.size())
      bytes += static_cast<char>((byte & 3) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f));
    else
      throw std::runtime_error("a character above U+00FF stands for no byte");
  }
  return bytes;
}

// A key of an object, as T.
template <class T>
T get(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) throw std::runtime_error(fmt::format("there is no '{}'", key));
  try {
    return found->template get<T>();
  } catch (const Json::exception&) {
    throw std::runtime_error(fmt::format("'{}' is {}", key, show::shorten(found->dump(-1, ' ', true), 40)));
  }
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

// What /proc/cpuinfo calls it.
std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  return "unknown";
}

Json machine() {
  utsname system{};
  uname(&system);
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return {{"cpu", cpu_name()},
          {"cpus", sysconf(_SC_NPROCESSORS_ONLN)},
          {"memory_bytes", std::llround(memory)},
          {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)}};
}

Json recipe_json(const Recipe& r) {
  return {{"batch", r.batch},   {"steps", r.steps}, {"lr", r.lr},       {"min_lr", r.min_lr},
          {"warmup", r.warmup}, {"beta2", r.beta2}, {"decay", r.decay}, {"clip", 1}};
}

Recipe read_recipe(const Json& model, const Json& training) {
  Recipe r;
  r.layers = get<Index>(model, "layers"), r.heads = get<Index>(model, "heads"), r.width = get<Index>(model, "width");
  r.context = get<Index>(model, "context"), r.dropout = get<double>(model, "dropout");
  r.deviation = get<double>(model, "deviation");
  r.batch = get<Index>(training, "batch"), r.steps = get<Index>(training, "steps");
  r.warmup = get<Index>(training, "warmup"), r.lr = get<double>(training, "lr");
  r.min_lr = get<double>(training, "min_lr"), r.beta2 = get<double>(training, "beta2");
  r.decay = get<double>(training, "decay");
  const auto in = [](Index number, Index most) { return number >= 1 && number <= most; };
  if (!in(r.layers, 1000) || !in(r.heads, 1000) || !in(r.width, 1000000) || !in(r.context, 10000000) ||
      !in(r.batch, 1000000) || !in(r.steps, 1000000000) || r.width % r.heads != 0)
    throw std::runtime_error("its numbers make no model");
  return r;
}

RunConfig parse_config(const std::string& text) {
  const Json json = Json::parse(text);
  if (const int format = get<int>(json, "format"); format != kFormat)
    throw std::runtime_error(fmt::format("it is of format {}, written by attune {}, and attune {} reads format {}",
                                         format, json.value("attune", "of another version"), version(), kFormat));
  RunConfig config;
  config.task = get<std::string>(json, "task");
  config.vocabulary = narrowed(get<std::string>(json, "vocabulary"));
  config.example = narrowed(get<std::string>(json, "example"));
  config.answer = narrowed(get<std::string>(json, "answer"));
  config.seed = get<std::uint64_t>(json, "seed");
  config.every = get<Index>(json, "every");
  config.recipe = read_recipe(get<Json>(json, "model"), get<Json>(json, "training"));
  if (json.contains("meter")) config.meter = get<Index>(json, "meter");
  if (config.meter < 0) throw std::runtime_error("it measures attention every so many steps that are less than 0");
  if (config.vocabulary.empty() || config.every < 1) throw std::runtime_error("its vocabulary is empty");
  const auto& names = task_names();
  if (std::find(names.begin(), names.end(), config.task) == names.end())
    throw std::runtime_error(fmt::format("its task '{}' is unknown", config.task));
  if (config.task == "text") {
    const Json data = get<Json>(json, "data");
    config.data = narrowed(get<std::string>(data, "path"));
    config.fingerprint = get<std::string>(data, "fnv1a");
  }
  return config;
}

double number_from(const std::string& text) { return text.empty() ? NAN : std::strtod(text.c_str(), nullptr); }

Row parse_row(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line)
    if (c == ',')
      cells.emplace_back();
    else
      cells.back() += c;
  cells.resize(8);
  Row row{
      std::atoll(cells[0].c_str()), std::atoll(cells[1].c_str()), number_from(cells[2]), number_from(cells[3]), {},
      number_from(cells[5]),        number_from(cells[6]),        number_from(cells[7])};
  if (!cells[4].empty()) row.accuracy = number_from(cells[4]);
  return row;
}

}  // namespace

// ---- What a run is

GptOptions RunConfig::model() const {
  return {.vocab = static_cast<Index>(vocabulary.size()),
          .context = recipe.context,
          .layers = static_cast<int>(recipe.layers),
          .heads = recipe.heads,
          .width = recipe.width,
          .dropout = recipe.dropout,
          .deviation = recipe.deviation};
}

std::vector<std::int32_t> RunConfig::encode(const std::string& what, const std::string& text) const {
  std::vector<std::int32_t> ids;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view character = rest.substr(0, std::max<std::size_t>(1, show::character_length(rest)));
    for (const char byte : character) {
      const std::size_t id = vocabulary.find(byte);
      if (id == vocabulary.npos)
        refuse("{} {}: the model has never seen '{}'; it knows {}", what, show::shorten(show::visible(text), 40),
               show::spelled(character), show::spelled(vocabulary));
      ids.push_back(static_cast<std::int32_t>(id));
    }
    rest.remove_prefix(character.size());
  }
  return ids;
}

std::string RunConfig::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += vocabulary.at(static_cast<std::size_t>(id));
  return text;
}

// ---- Its folder

void RunFolder::check_new() const {
  std::error_code ignored;
  if (path_.empty()) refuse("--out '': give the path of a folder to make");
  if (fs::exists(fs::symlink_status(path_, ignored))) {
    std::string other;
    for (int i = 2; other.empty() || fs::exists(other, ignored); ++i) other = fmt::format("{}-{}", path_.string(), i);
    if (fs::exists(path_ / "checkpoint.safetensors", ignored))
      refuse("--out {} exists: go on with it by --resume {}, or start another with --out {}", path_.string(),
             shell_word(path_.string()), shell_word(other));
    refuse("--out {} exists, and is no run: start one with --out {}", path_.string(), shell_word(other));
  }
  for (fs::path parent = path_.parent_path(); !parent.empty(); parent = parent.parent_path()) {
    if (!fs::exists(parent, ignored)) {
      if (parent == parent.parent_path()) break;
      continue;
    }
    if (!fs::is_directory(parent, ignored)) refuse("--out {}: {} is no folder", path_.string(), parent.string());
    break;
  }
}

void RunFolder::create() const {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) throw std::runtime_error(fmt::format("--out {} cannot be made: {}", path_.string(), error.message()));
}

std::unique_ptr<FolderLock> RunFolder::lock() const {
  try {
    return std::make_unique<FolderLock>(path_);
  } catch (const std::runtime_error&) {
    refuse("{}: another attune trains there; wait for it, or name another folder", path_.string());
  }
}

void RunFolder::write(const char* file, const std::string& text) const {
  OutputFile out(path_ / file);
  out.write(text.data(), text.size());
  out.commit();
}

std::string RunFolder::read(const char* file) const {
  std::error_code ignored;
  if (!fs::exists(path_, ignored)) refuse("{}: no such folder; attune train makes one", path_.string());
  if (!fs::is_directory(path_, ignored)) refuse("{}: a file, where the folder of a run is wanted", path_.string());
  if (!fs::exists(path_ / file, ignored)) refuse("{} is not the folder of a run: it has no {}", path_.string(), file);
  return read_input_file("the run's", path_ / file);
}

void RunFolder::write_config(const RunConfig& config) const {
  const Recipe& r = config.recipe;
  Json json = {{"format", kFormat},
               {"attune", version()},
               {"task", config.task},
               {"vocabulary", widened(config.vocabulary)},
               {"example", widened(config.example)},
               {"answer", widened(config.answer)},
               {"model",
                {{"layers", r.layers},
                 {"heads", r.heads},
                 {"width", r.width},
                 {"context", r.context},
                 {"dropout", r.dropout},
                 {"deviation", r.deviation}}},
               {"training", recipe_json(r)},
               {"seed", config.seed},
               {"every", config.every}};
  if (config.meter > 0) json["meter"] = config.meter;
  if (config.task == "text") json["data"] = {{"path", widened(config.data)}, {"fnv1a", config.fingerprint}};
  write("config.json", json.dump(2) + "\n");
}

RunConfig RunFolder::read_config() const {
  const std::string text = read("config.json");
  try {
    return parse_config(text);
  } catch (const Json::parse_error& error) {
    refuse("{}/config.json is no JSON from byte {} on", path_.string(), error.byte);
  } catch (const std::exception& error) {
    refuse("{}/config.json cannot be used: {}", path_.string(), error.what());
  }
}

void RunFolder::write_metrics(const std::vector<Row>& rows) const {
  std::string text = fmt::format("{}\n", kHeading);
  for (const Row& row : rows)
    text +=
        fmt::format("{},{},{},{},{},{},{},{:.0f}\n", row.step, row.tokens, row.train_loss, row.val_loss,
                    row.accuracy ? fmt::format("{}", *row.accuracy) : "", row.lr, row.grad_norm, row.tokens_per_s);
  write("metrics.csv", text);
}

std::vector<Row> RunFolder::read_metrics() const {
  std::istringstream lines(read("metrics.csv"));
  std::vector<Row> rows;
  std::string line;
  std::getline(lines, line);
  if (line != kHeading) refuse("{}/metrics.csv does not start with {}", path_.string(), kHeading);
  while (std::getline(lines, line)) rows.push_back(parse_row(line));
  return rows;
}

void RunFolder::write_story(const Arguments& arguments, const RunConfig& config, Index from_step) const {
  Json story;
  const Json chapter = {{"from_step", from_step},
                        {"started", now()},
                        {"command_line", arguments.command_line},
                        {"version", version()},
                        {"instruction_set", std::string(row())},
                        {"threads", threads()},
                        {"machine", machine()}};
  if (from_step == 0) {
    story = chapter;
    story["seed"] = config.seed;
  } else {
    // A story that cannot be read is not worth the run.
    story = Json::parse(read("run.json"), nullptr, false);
    if (!story.is_object()) story = Json::object();
    if (!story["resumed"].is_array()) story["resumed"] = Json::array();
    story["resumed"].push_back(chapter);
  }
  // A command line is bytes; what is not UTF-8 is replaced.
  write("run.json", story.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Gpt load_model(const RunFolder& folder, const RunConfig& config) {
  std::error_code ignored;
  if (!fs::exists(folder.model(), ignored)) refuse("{} has no model.safetensors", folder.path().string());
  try {
    Gpt model(config.model(), Rng(config.seed));
    load_parameters(model, folder.model());
    return model;
  } catch (const std::exception& error) {
    refuse("{} cannot be used: {}", folder.path().string(), error.what());
  }
}

}  // namespace attune::program
