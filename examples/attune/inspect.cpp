// attune inspect: what is in a run, and where its heads look.
#include <algorithm>
#include <cmath>

#include "arguments.h"
#include "attune/autograd/parameter.h"
#include "attune/examples/show/heat_map.h"
#include "attune/examples/show/plot.h"
#include "attune/examples/show/table.h"
#include "attune/lib/file.h"
#include "attune/lib/print.h"
#include "attune/lib/wrap.h"
#include "command.h"
#include "maps.h"
#include "picture.h"
#include "run_folder.h"

namespace attune::program {
namespace {

namespace fs = std::filesystem;

void print_layers(Gpt& model, const RunConfig& config, const show::Terminal& out) {
  show::Table table({{"layer"}, {"shape"}, {"parameters", show::Align::right}, {"memory", show::Align::right}});
  for_each_parameter(model, [&](const std::string& path, const Parameter& p) {
    table.row(
        {path, fmt::format("{}", p.shape()), grouped(p.count()), bytes_text(4.0 * static_cast<double>(p.count()))});
  });
  const Index all = parameter_count(model);
  table.rule();
  table.row({"all", "", grouped(all), bytes_text(4.0 * static_cast<double>(all))});
  const Recipe& r = config.recipe;
  // Keys and values of every layer, for one sequence.
  const double cache = 8.0 * static_cast<double>(r.layers * r.context * r.width);
  fmt::print("{}\n", table.text(out));
  fmt::print("{}\n", wrapped(fmt::format("to train: {} (values, gradients, two moments); a cache to generate: {}",
                                         bytes_text(16.0 * static_cast<double>(all)), bytes_text(cache))));
}

void print_curve(const RunFolder& folder, const RunConfig& config, const show::Terminal& out) {
  std::error_code ignored;
  if (!fs::exists(folder.path() / "metrics.csv", ignored)) return;
  const std::vector<Row> rows = folder.read_metrics();
  if (rows.empty()) return;
  show::Series train{.name = "training"}, held_out{.name = "held out"};
  for (const Row& row : rows) {
    train.x.push_back(static_cast<double>(row.step)), train.y.push_back(row.train_loss);
    held_out.x.push_back(static_cast<double>(row.step)), held_out.y.push_back(row.val_loss);
  }
  const Row& last = rows.back();
  fmt::print(
      "{}\n\n",
      wrapped(fmt::format(
          "step {} of {}: loss {:.4f}, held out {:.4f}{}", last.step, config.recipe.steps, last.train_loss,
          last.val_loss, last.accuracy ? fmt::format(", {:.0f} % of the sequences right", 100 * *last.accuracy) : "")));
  const show::Series both[] = {train, held_out};
  if (rows.size() > 1)
    fmt::print("{}\n", show::line_plot(both, {.title = "Loss", .x_label = "step", .height = 10}, out));
}

struct Chosen {
  std::optional<Index> layer, head;

  bool has(const HeadMap& map) const { return (!layer || *layer == map.layer) && (!head || *head == map.head); }
};

void print_maps(const std::vector<HeadMap>& maps, const std::vector<std::string>& labels,
                const show::Terminal& out) {
  fmt::print("Down: the token a head reads; across: what it looks at.\n\n");
  for (const HeadMap& map : maps) {
    show::HeatMapOptions options = show::attention_map(labels);
    options.title = map.name();
    fmt::print("{}\n", show::heat_map(map.weights, options, out));
  }
}

void write_maps(const std::string& path, const std::vector<HeadMap>& maps, const std::vector<std::string>& labels,
               Index heads, const std::string& title) {
  std::vector<show::Svg> pictures;
  for (const HeadMap& map : maps) {
    show::HeatMapOptions options = show::attention_map(labels);
    options.title = map.name();
    options.row_label = "reads", options.column_label = "looks at";
    pictures.push_back(show::svg_heat_map(map.weights, options));
  }
  const std::string page = show::svg_grid(pictures, static_cast<int>(heads), title).text(title);
  write_picture(path, page);
}

int run(const Arguments& a) {
  const RunFolder folder(a.operands.front());
  const RunConfig config = folder.read_config();
  const Recipe& r = config.recipe;
  Chosen chosen;
  if (a.has("--layer")) chosen.layer = a.integer("--layer", 0, 0, r.layers - 1, 0);
  if (a.has("--head")) chosen.head = a.integer("--head", 0, 0, r.heads - 1, 0);
  check_picture_path(a);
  const bool draws = a.has("--text") || a.has("--svg") || a.has("--layer") || a.has("--head");
  const std::string text = a.text("--text", config.shown_text());
  if (text.empty()) refuse("--text '': give one character at least");
  if (static_cast<Index>(text.size()) > r.context)
    refuse("--text {}: {} bytes, and the model sees {} at once; give no more",
           show::shorten(show::visible(text), 40), text.size(), r.context);
  const std::vector<std::int32_t> ids = config.encode("--text", text);
  Gpt model = load_model(folder, config);

  const show::Terminal out = a.out();
  fmt::print("{}\n",
             wrapped(fmt::format("{}: {}, {} layer{} of {} head{}, width {}, context {}, vocabulary {}",
                                 folder.path().string(), config.task, r.layers, r.layers == 1 ? "" : "s", r.heads,
                                 r.heads == 1 ? "" : "s", r.width, r.context, config.vocabulary.size())));
  std::vector<HeadMap> maps = attention_maps(model, ids);
  std::erase_if(maps, [&](const HeadMap& map) { return !chosen.has(map); });
  const std::vector<std::string> labels = labels_of(config.vocabulary, ids);
  if (draws) {
    if (a.has("--text") || chosen.layer || chosen.head) print_maps(maps, labels, out);
  } else {
    print_curve(folder, config, out);
    print_layers(model, config, out);
    fmt::print("\nWhere its heads look:\n  attune inspect {} --text {}\n", shell_word(folder.path().string()),
               shell_word(text));
  }
  if (a.has("--svg")) {
    write_maps(a.text("--svg"), maps, labels, r.heads,
              fmt::format("Where the heads of {} look", folder.path().string()));
    fmt::print("{} has the map{} of {} head{}.\n", a.text("--svg"), maps.size() == 1 ? "" : "s", maps.size(),
               maps.size() == 1 ? "" : "s");
  }
  return kDone;
}

}  // namespace

Command inspect_command() {
  return {.name = "inspect",
          .summary = "what a model is made of, and where its heads look",
          .about =
              "Shows a run's loss, its layers, shapes, parameters and memory. With --text it shows the attention "
              "maps of a "
              "text instead, a head at a time.",
          .examples = {{"attune inspect runs/copy", "layers, parameters, memory"},
                       {"attune inspect runs/copy --text 'abcabcabcabcabc|abc'", "where each head looks"},
                       {"attune inspect runs/text --text 'To be, or not' --layer 1 --head 0", "one head"},
                       {"attune inspect runs/copy --svg heads.svg", "all heads, for a browser"}},
          .operands = {{"DIR", "the folder of a run", true, {}}},
          .options = {{"--text", "TEXT", "what the model reads [an example]", {}},
                      {"--layer", "N", "only the heads of this layer, from 0", {}},
                      {"--head", "N", "only this head, from 0", {}},
                      {"--svg", "FILE", "writes the maps as a picture", {}}},
          .run = run};
}

}  // namespace attune::program
