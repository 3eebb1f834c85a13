// attune generate: a trained model goes on from a prompt, token by token.
#include "attune/layers/generate.h"

#include <cmath>
#include <cstdio>

#include "arguments.h"
#include "command.h"
#include "run_folder.h"

namespace attune::program {
namespace {

// Tasks have one right answer: the likeliest. Texts are drawn.
int run(const Arguments& a) {
  const RunFolder folder(a.operands.front());
  const RunConfig config = folder.read_config();
  const bool is_text = config.task == "text";
  const Index vocab = static_cast<Index>(config.vocabulary.size());
  const SampleOptions sampling{.temperature = a.number("--temperature", is_text ? 0.8 : 0, {0, HUGE_VAL}, 0.8),
                               .top_k = a.integer("--top-k", 0, 0, 1000000000, std::min<Index>(vocab, 20)),
                               .top_p = a.number("--top-p", 1, {0, 1, true}, 0.9)};
  const std::string prompt = a.text("--prompt", config.example);
  if (prompt.empty())
    refuse("--prompt '': give one character at least, such as --prompt {}", shell_word(config.example));
  const Index rest = std::max<Index>(1, config.recipe.context + 1 - static_cast<Index>(prompt.size()));
  const Index tokens = a.integer("--tokens", is_text ? 500 : rest, 1, 1000000000, 500);
  const std::uint64_t seed = a.seed("--seed", 1);
  const std::vector<std::int32_t> ids = config.encode("--prompt", prompt);
  const Gpt model = load_model(folder, config);
  if (const std::string prompts = prompts_instead_of(prompt, config.task); !prompts.empty())
    fmt::print(stderr, "attune: hint: a prompt of {} is {}: {}\n", config.task, prompts, shell_word(config.example));

  Rng random(seed);
  const auto write = [](const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  write(prompt);
  generate(model, ids,
           {.tokens = tokens,
            .sampling = sampling,
            .stop = {},
            .each = [&](std::int32_t id) { write(std::string(1, config.vocabulary[static_cast<std::size_t>(id)])); }},
           random);
  write("\n");
  return kDone;
}

}  // namespace

Command generate_command() {
  return {
      .name = "generate",
      .summary = "a trained model goes on from a prompt",
      .about =
          "Writes the prompt and what the model says after it to standard output, token by token as they come. "
          "The same seed says the same.",
      .examples = {{"attune generate runs/text --prompt 'ROMEO:'", "500 characters more"},
                   {"attune generate runs/text --temperature 0", "the likeliest, always"},
                   {"attune generate runs/copy --prompt 'abcdeabcdeabcde|'", "a task's answer"}},
      .operands = {{"DIR", "the folder of a run", true, {}}},
      .options = {{"--prompt", "TEXT", "what to go on from [an example of the task]", {}},
                  {"--tokens", "N", "how many more [500; of a task, its answer]", {}},
                  {"--temperature", "X", "1 draws as the model says, 0 takes the likeliest [0.8; of a task, 0]", {}},
                  {"--top-k", "N", "draws from the N likeliest alone; 0: from all [0]", {}},
                  {"--top-p", "P", "draws from the likeliest that together reach P [1]", {}},
                  {"--seed", "N", "of what is drawn [1]", {}}},
      .run = run};
}

}  // namespace attune::program
