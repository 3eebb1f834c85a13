// attune inspect and attune verify, on a run.
#include "../../support/program.h"

using namespace attune::programs;

TEST_CASE("inspect: layers, parameters, memory and the loss; maps of a text; all maps as a picture") {
  const Folder folder;
  folder.good({"train", "copy", "--preset", "tiny", "--layers", "2", "--steps", "20", "--out", "run"});
  const std::string page = folder.good({"inspect", "run"});
  CHECK(contains(page, "run: copy, 2 layers of 2 heads, width 16, context 30, vocabulary 11"));
  CHECK(contains(page, "blocks.1.attention.qkv.weight  [16, 48]         768  3.1 kB"));
  CHECK(contains(page, "step 20 of 20: loss"));
  CHECK(contains(page, "● training   ▲ held out"));
  CHECK_FALSE(contains(page, "\033"));

  const std::string maps = folder.good({"inspect", "run", "--text", "abc|ab"});
  CHECK(contains(maps, "layer 0, head 0\n  a b c | a b\na ██\n"));
  CHECK(contains(maps, "layer 1, head 1"));
  CHECK(contains(maps, "blank: masked"));
  const std::string one = folder.good({"inspect", "run", "--text", "abc|ab", "--layer", "1", "--head", "0"});
  CHECK(contains(one, "layer 1, head 0"));
  CHECK_FALSE(contains(one, "layer 0"));
  CHECK_FALSE(contains(one, "head 1"));

  CHECK(contains(folder.good({"inspect", "run", "--svg", "heads.svg"}), "heads.svg has the maps of 4 heads"));
  const std::string svg = bytes_of(folder / "heads.svg");
  CHECK(svg.starts_with("<svg xmlns"));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(contains(svg, "layer 1, head 1"));
  CHECK(contains(svg, "prefers-color-scheme"));
}

TEST_CASE("verify: a run's gradients, parameter by parameter, in both modes, by differences and in f32") {
  const Folder folder;
  folder.write("book.txt", some_text());
  folder.good({"train", "text", "--preset", "tiny", "--dropout", "0.2", "--steps", "5", "--data", "book.txt", "--out",
               "run"});
  for (const bool has_data : {true, false}) {  // without its text: on random tokens
    if (!has_data) fs::remove(folder / "book.txt");
    const std::string page = folder.good({"verify", "run"});
    CHECK(contains(page, "blocks.0.mlp.up.weight"));
    CHECK(contains(page, "each op: "));
    CHECK(contains(page, "12 of 12 right; the least agrees with forward mode to 1"));
    CHECK_FALSE(contains(page, "WRONG"));
  }
}

TEST_CASE("verify: without a run, every op, layer and kind of model") {
  const Folder folder;
  const std::string page = folder.good({"verify"});
  for (const char* line : {"scatter_add", "attention, sparsemax", "DecoderLayer", "Gpt, RoPE", "the same with dropout"})
    CHECK(contains(page, line));
  CHECK(contains(page, "108 of 108 right; the least agrees with forward mode to 14."));

  const std::string json = folder.good({"verify", "--json"});
  CHECK(json.starts_with("{\n  \"passed\": true,"));
  CHECK(contains(json, "\"name\": \"softmax\", \"shape\": \"4×8\""));
}

// README names every op; those that have a gradient are checked.
TEST_CASE("verify: no op of autograd/ops with a gradient is left out") {
  const Folder folder;
  const std::string page = folder.good({"verify"});
  for (const auto& entry : fs::directory_iterator(fs::path(ATTUNE_SOURCE_DIR) / "autograd/ops")) {
    const std::string op = entry.path().stem().string();
    if (entry.path().extension() != ".h") continue;
    if (op == "argmax" || op == "argmin" || op == "compare" || op == "one_hot" || op == "sign" || op == "detach") continue;  // constants
    CHECK_MESSAGE(contains(page, "\n" + (op == "t" ? "permute" : op) + " "), op);
  }
}

TEST_CASE("verify: the error of a difference against its step, drawn and as a picture") {
  const Folder folder;
  const std::string page = folder.good({"verify", "--curve", "softmax", "--svg", "curve.svg"});
  CHECK(contains(page, "The best step is 1e-05, and leaves 10.4 digits."));
  CHECK(bytes_of(folder / "curve.svg").starts_with("<svg xmlns"));
  const Outcome unknown = folder.run({"verify", "--curve", "softmux"});
  CHECK(unknown.code == 2);
  CHECK(contains(unknown.err, "did you mean softmax?"));
  const Outcome nothing = folder.run({"verify", "--svg", "x.svg"});
  CHECK(nothing.code == 2);
  CHECK(contains(nothing.err, "nothing to draw without --curve OP"));
}
