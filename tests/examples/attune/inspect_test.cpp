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

  CHECK(contains(folder.good({"inspect", "run", "--svg", "heads.svg"}), "heads.svg has the maps of all 4 heads"));
  const std::string svg = bytes_of(folder / "heads.svg");
  CHECK(svg.starts_with("<svg xmlns"));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(contains(svg, "layer 1, head 1"));
  CHECK(contains(svg, "prefers-color-scheme"));
}

TEST_CASE("verify: a run's gradients, parameter by parameter, and forward against reverse") {
  const Folder folder;
  folder.write("book.txt", some_text());
  folder.good({"train", "text", "--preset", "tiny", "--dropout", "0.2", "--steps", "5", "--data", "book.txt", "--out",
               "run"});
  for (const bool has_data : {true, false}) {  // without its text: on random tokens
    if (!has_data) fs::remove(folder / "book.txt");
    const std::string page = folder.good({"verify", "run", "--elements", "3"});
    CHECK(contains(page, "blocks.0.mlp.up.weight"));
    CHECK(contains(page, "forward and reverse"));
    CHECK(contains(page, "13 of 13 right; the least agree to "));
    CHECK_FALSE(contains(page, "WRONG"));
  }
}

TEST_CASE("verify: without a run, on built-in models") {
  const Folder folder;
  const std::string page = folder.good({"verify"});
  CHECK(contains(page, "gpt.blocks.1.attention.qkv.bias"));
  CHECK(contains(page, "encoder.all, in one direction"));
  CHECK(contains(page, "53 of 53 right"));
}
