// attune generate: the same seed says the same, and what a model cannot do is refused.
#include "../../support/program.h"

using namespace attune::programs;

namespace {

struct Trained {
  Folder folder;
  Trained() {
    folder.write("book.txt", some_text());
    folder.good({"train", "text", "--preset", "tiny", "--steps", "60", "--data", "book.txt", "--out", "run"});
    folder.good({"train", "copy", "--preset", "tiny", "--steps", "2", "--out", "copy"});
  }
  std::string say(std::vector<std::string> more) const {
    more.insert(more.begin(), {"generate", "run", "--prompt", "the"});
    return folder.good(more);
  }
};

}  // namespace

TEST_CASE("generate: the prompt and so many characters more, the same for the same seed") {
  const Trained trained;
  const std::string text = trained.say({"--tokens", "40", "--seed", "3"});
  CHECK(text.size() == 3 + 40 + 1);
  CHECK(text.starts_with("the"));
  CHECK(trained.say({"--tokens", "40", "--seed", "3"}) == text);
  CHECK(trained.say({"--tokens", "40", "--seed", "4"}) != text);
  // However many are asked for: those that come first are the same, beyond the context, too.
  CHECK(trained.say({"--tokens", "60", "--seed", "3"}).starts_with(text.substr(0, 43)));

  // B77: at temperature 0 the likeliest wins, whatever the seed; a small one, and the likeliest alone, are the same.
  const std::string likeliest = trained.say({"--tokens", "30", "--temperature", "0"});
  CHECK(trained.say({"--tokens", "30", "--temperature", "0", "--seed", "9"}) == likeliest);
  CHECK(trained.say({"--tokens", "30", "--temperature", "1e-6"}) == likeliest);
  CHECK(trained.say({"--tokens", "30", "--top-k", "1"}) == likeliest);
  CHECK(trained.say({"--tokens", "30", "--top-p", "1e-9"}) == likeliest);
  // More than there are is all of them.
  CHECK(trained.say({"--tokens", "30", "--top-k", "1000"}) == trained.say({"--tokens", "30", "--top-k", "0"}));

  // Of a task: its example, and the answer's length.
  const std::string copied = trained.folder.good({"generate", "copy"});
  CHECK(copied.size() == 16 + 15 + 1);
  CHECK(copied == trained.folder.good({"generate", "copy", "--seed", "2"}));
}

TEST_CASE("generate: a prompt that a task cannot have is answered, with a hint what its prompts are") {
  const Folder folder;
  const auto hint_of = [&](const std::string& task, const std::string& prompt) {
    const Outcome outcome = folder.run({"generate", task, "--prompt", prompt});
    CHECK(outcome.code == 0);
    CHECK(outcome.out.starts_with(prompt));
    return outcome.err;
  };
  struct Prompts {
    std::string task, what;
    std::vector<std::string> good, bad;
  };
  const std::string letters = "abcdefghijabcde";
  const std::vector<Prompts> all = {
      {"copy", "15 letters a to j and |", {letters + "|", letters + "|abc"}, {"abc|", letters, "|" + letters, "a|b|c"}},
      {"reverse", "15 letters a to j and |", {letters + "|", letters + "|edc"}, {"abc|"}},
      {"sort", "10 letters a to j and |", {"jihgfedcba|", "aaaaaaaaaa|aa"}, {letters + "|"}},
      {"addition", "3 digits, +, 3 digits and =", {"047+985=", "047+985=23"}, {"47+985=", "1+1=", "047+985"}},
      {"recall",
       "4 pairs, | and a letter again",
       {"a3c1b3d0|c", "a3c1b3d0|c1a"},
       {"a3c1b3d0|", "a3c1b3a0|c", "a3c1b3d0|e", "a3c1|c", "3a1c3b0d|3"}},
      {"parity", "16 digits 0 or 1 and =", {"0110011001100110=", "0110011001100110=01"}, {"1101="}},
      {"induction",
       "| and a pattern, again",
       {"|dbacefd", "|dbacefdbacef", "|abcdefghijklmnopa"},
       {"|dbac", "dbacefd", "|dbacefdc", "|abca", "|abcbefga", "|abcdefghijklmnopqa"}},
  };
  for (const Prompts& prompts : all) {
    folder.good({"train", prompts.task, "--preset", "tiny", "--steps", "1", "--out", prompts.task});
    CHECK(folder.good({"generate", prompts.task}) != "");  // its own example: good() wants no word of a hint
    for (const std::string& prompt : prompts.good) CHECK_MESSAGE(hint_of(prompts.task, prompt) == "", prompt);
    for (const std::string& prompt : prompts.bad) {
      const std::string hint = hint_of(prompts.task, prompt);
      INFO(prompt, ": ", hint);
      CHECK(hint.starts_with(fmt::format("attune: hint: a prompt of {} is {}: ", prompts.task, prompts.what)));
      CHECK(std::count(hint.begin(), hint.end(), '\n') == 1);
      CHECK(hint.size() <= 81);
    }
  }
  CHECK(hint_of("copy", std::string(100000, 'a')) != "");
  CHECK(folder.run({"generate", "copy", "--prompt", "xyz"}).code == 2);  // what it cannot read is an error, as ever
}

TEST_CASE("generate: model.safetensors and config.json are enough") {
  const Trained trained;
  const std::string before = trained.say({"--tokens", "9"});
  for (const char* file : {"checkpoint.safetensors", "metrics.csv", "run.json"})
    fs::remove(trained.folder / "run" / file);
  fs::remove(trained.folder / "book.txt");
  CHECK(trained.say({"--tokens", "9"}) == before);
}

TEST_CASE("generate: what is wrong with a run's files is said in one line") {
  const Trained trained;
  const fs::path run = trained.folder / "run";
  const std::string config = bytes_of(run / "config.json"), model = bytes_of(run / "model.safetensors");
  const auto refused = [&](const std::string& why) {
    const Outcome outcome = trained.folder.run({"generate", "run"});
    CHECK(outcome.code == 2);
    CHECK(outcome.out == "");
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    INFO(outcome.err);
    CHECK(contains(outcome.err, why));
  };
  const auto with_config = [&](const std::string& from, const std::string& to) {
    std::string text = config;
    const std::size_t at = text.find(from);
    REQUIRE(at != text.npos);
    trained.folder.write("run/config.json", text.replace(at, from.size(), to));
  };
  trained.folder.write("run/config.json", "{");
  refused("run/config.json is no JSON from byte 2 on");
  trained.folder.write("run/config.json", "");
  refused("run/config.json is no JSON");
  trained.folder.write("run/config.json", "[]");
  refused("run/config.json cannot be used: there is no 'format'");
  trained.folder.write("run/config.json", std::string(100000, '['));
  refused("run/config.json is no JSON");
  with_config("\"format\": 1", "\"format\": 2");
  refused("it is of format 2, written by attune ");
  with_config("\"layers\": 1", "\"layers\": \"many\"");
  refused("run/config.json cannot be used: 'layers' is \"many\"");
  with_config("\"layers\": 1,", "");
  refused("run/config.json cannot be used: there is no 'layers'");
  with_config("\"heads\": 2", "\"heads\": 3");
  refused("run/config.json cannot be used: its numbers make no model");
  with_config("\"heads\": 2", "\"heads\": 0");
  refused("run/config.json cannot be used: its numbers make no model");
  with_config("\"task\": \"text\"", "\"task\": \"song\"");
  refused("run/config.json cannot be used: its task 'song' is unknown");
  with_config("\"width\": 16", "\"width\": 32");
  refused("run cannot be used: load: run/model.safetensors does not fit: ");
  trained.folder.write("run/config.json", config);
  trained.folder.write("run/model.safetensors", model.substr(0, model.size() / 2));
  refused("run cannot be used: ");
  fs::remove(run / "model.safetensors");
  refused("run has no model.safetensors");
}
