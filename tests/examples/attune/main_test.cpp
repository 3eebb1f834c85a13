// The command line of attune: its help, its exit codes, and a line for everything that can be wrong with it.
#include <sstream>

#include "../../support/program.h"
#include "attune/examples/show/terminal.h"

using namespace attune::programs;

namespace {

using Words = std::vector<std::string>;

const Words kCommands = {"train", "generate", "inspect", "verify", "bench", "study", "completion"};

struct BadInput {
  Words words;
  std::string message;  // what the line says, behind "attune: "
};

// The files that they name are made by the test below. Each starts from the same folder.
const std::vector<BadInput> kBadInputs = {
    // Commands and options
    {{"trian"}, "trian: no such command; did you mean train? See attune --help"},
    {{"--versoin"}, "--versoin: no such option; did you mean --version? See attune --help"},
    {{"train", "copy", "--stesp", "5"}, "--stesp: no such option; did you mean --steps? See attune train --help"},
    {{"train", "copy", "--stesp=5"}, "--stesp: no such option; did you mean --steps? See attune train --help"},
    {{"train", "copy", "-x"}, "-x: no such option; did you mean --"},
    {{"train", "copy", "sort"}, "sort: one word too many; see attune train --help"},
    {{"train", "copy", "--steps"}, "--steps wants a value behind it; see attune train --help"},
    {{"bench", "--seconds", "0"}, "--seconds 0: give a number "},
    {{"bench", "run"}, "run: one word too many; see attune bench --help"},
    {{"generate", "run", "--top_k", "3"}, "--top_k: no such option; did you mean --top-k?"},
    {{"generate"}, "generate wants DIR, the folder of a run: such as attune generate runs/text"},
    {{"inspect"}, "inspect wants DIR, the folder of a run: such as attune inspect runs/copy"},
    {{"completion"}, "completion wants SHELL, your shell: such as eval"},
    {{"completion", "bahs"}, "bahs: no such shell; did you mean bash? There are bash, zsh, fish"},
    // Tasks and presets
    {{"train"},
     "give a task: attune train copy, or one of copy, reverse, sort, addition, recall, text, parity, induction"},
    {{"train", "cpoy"}, "cpoy: no such task; did you mean copy? There are copy, "},
    {{"train", ""}, "'': no such task; did you mean "},
    {{"train", "copy", "--preset", "nanogpt"},
     "--preset nanogpt: no such preset; did you mean nanogpt-cpu? There are nanogpt-cpu, nanogpt-baby, tiny"},
    {{"train", "copy", "--preset", ""}, "--preset '': no such preset; did you mean tiny?"},
    // Numbers
    {{"train", "copy", "--steps", "0"}, "--steps 0: give a whole number from 1 to 1000000000, such as --steps 400"},
    {{"train", "copy", "--steps", "-5"}, "--steps -5: give a whole number from 1 "},
    {{"train", "copy", "--steps", "many"}, "--steps many: give a whole number from 1 "},
    {{"train", "copy", "--steps", "1e3"}, "--steps 1e3: give a whole number from 1 "},
    {{"train", "copy", "--steps", "1.5"}, "--steps 1.5: give a whole number from 1 "},
    {{"train", "copy", "--steps", "99999999999999999999"}, "--steps 99999999999999999999: give a whole number from 1 "},
    {{"train", "copy", "--steps", ""}, "--steps '': give a whole number from 1 "},
    {{"train", "copy", "--steps", " 5"}, "--steps ␣5: give a whole number from 1 "},
    {{"train", "copy", "--steps", "--lr"}, "--steps --lr: give a whole number from 1 "},
    {{"train", "copy", "--layers", "0"}, "--layers 0: give a whole number from 1 to 1000, such as --layers 2"},
    {{"train", "copy", "--heads", "0"}, "--heads 0: give a whole number from 1 to 1000, such as --heads 4"},
    {{"train", "copy", "--width", "0"}, "--width 0: give a whole number from 1 to 1000000, such as --width 64"},
    {{"train", "copy", "--width", "63"}, "--width 63 does not divide among --heads 4: such as --width 60 or 64"},
    {{"train", "copy", "--width", "3"}, "--width 3 does not divide among --heads 4: such as --width 4"},
    {{"train", "copy", "--heads", "5"}, "--width 64 does not divide among --heads 5: such as --width 60 or 65"},
    {{"train", "copy", "--batch", "0"}, "--batch 0: give a whole number from 1 to 1000000, such as --batch 32"},
    {{"train", "copy", "--width", "1000000", "--layers", "1000"},
     "--layers 1000 --width 1000000 --batch 32 --context 30 need about "},
    {{"train", "copy", "--context", "64"}, "--context 64: copy has 30 tokens of its own; --context is for text"},
    {{"train", "copy", "--lr", "0"}, "--lr 0: give a number above 0, such as --lr 0.003"},
    {{"train", "copy", "--lr", "-1"}, "--lr -1: give a number above 0, such as --lr 0.003"},
    {{"train", "copy", "--lr", "nan"}, "--lr nan: give a number above 0"},
    {{"train", "copy", "--lr", "inf"}, "--lr inf: give a number above 0"},
    {{"train", "copy", "--lr", "1e999"}, "--lr 1e999: give a number above 0"},
    {{"train", "copy", "--lr", "fast"}, "--lr fast: give a number above 0"},
    {{"train", "copy", "--warmup", "-1"}, "--warmup -1: give a whole number from 0 to 400"},
    {{"train", "copy", "--warmup", "500"}, "--warmup 500: give a whole number from 0 to 400"},
    {{"train", "copy", "--dropout", "1"}, "--dropout 1: give a number from 0 and below 1, such as --dropout 0.1"},
    {{"train", "copy", "--dropout", "-0.1"}, "--dropout -0.1: give a number from 0 and below 1"},
    {{"train", "copy", "--dropout", "nan"}, "--dropout nan: give a number from 0 and below 1"},
    {{"train", "copy", "--seed", "-1"}, "--seed -1: give a whole number from 0 to 2^64 - 1, such as --seed 1"},
    {{"train", "copy", "--seed", "x"}, "--seed x: give a whole number from 0 "},
    {{"train", "copy", "--save-every", "0"}, "--save-every 0: give a whole number from 1 "},
    // Data
    {{"train", "text"}, "text needs a file to learn from: attune train text --data FILE"},
    {{"train", "text", "--data", "none.txt"}, "--data none.txt: no such file"},
    {{"train", "text", "--data", "folder"}, "--data folder: a folder, where a file is wanted"},
    {{"train", "text", "--data", "empty"}, "--data empty is empty; give a text of some thousand bytes"},
    {{"train", "text", "--data", "short"},
     "--data short has 12 bytes, of which 2 validate: too few for --context 64; give a longer text, or "
     "--context 1"},
    {{"train", "text", "--data", "shorter"}, "--data shorter has 3 bytes, and needs 20 at least"},
    {{"train", "text", "--data", "book", "--context", "64"},
     "--data book has 400 bytes, of which 40 validate: too few for --context 64; give a longer text, or "
     "--context 39"},
    {{"train", "text", "--data", "book", "--context", "0"},
     "--context 0: give a whole number from 1 to 10000000, such as --context 64"},
    {{"train", "text", "--data", "/dev/null"}, "--data /dev/null: no regular file"},
    {{"train", "text", "--data", ""}, "text needs a file to learn from"},
    {{"train", "copy", "--data", "book"}, "--data book: copy makes its own examples; --data is for text"},
    // Folders
    {{"train", "copy", "--out", "run"},
     "--out run exists: go on with it by --resume run, or start another with --out run-2"},
    {{"train", "copy", "--out", "folder"}, "--out folder exists, and is no run: start one with --out folder-2"},
    {{"train", "copy", "--out", "book"}, "--out book exists, and is no run: start one with --out book-2"},
    {{"train", "copy", "--out", "book/run"}, "--out book/run: book is no folder"},
    {{"train", "copy", "--out", ""}, "--out '': give the path of a folder to make"},
    {{"train", "--resume", "none"}, "none: no such folder; attune train makes one"},
    {{"train", "--resume", "book"}, "book: a file, where the folder of a run is wanted"},
    {{"train", "--resume", "folder"}, "folder is not the folder of a run: it has no config.json"},
    {{"train", "--resume", "run", "--steps", "9"}, "--steps 9: --resume goes on as the run began; leave it out"},
    {{"train", "--resume", "run", "--out", "b"}, "--out b: --resume goes on as the run began; leave it out"},
    {{"train", "sort", "--resume", "run"}, "task sort: run is a run of copy"},
    {{"train", "--resume", "run", "--data", "book"}, "--data book: copy makes its own examples; --data is for text"},
    {{"train", "--resume", "future"},
     "future/config.json cannot be used: it is of format 7, written by attune 9.1.0, and attune "},
    {{"train", "--resume", "torn"}, "torn cannot be resumed: "},
    {{"generate", "none"}, "none: no such folder; attune train makes one"},
    {{"generate", "future"}, "future/config.json cannot be used: it is of format 7"},
    {{"inspect", "folder"}, "folder is not the folder of a run: it has no config.json"},
    {{"verify", "none"}, "none: no such folder; attune train makes one"},
    {{"verify", "--curve", "sofmax"}, "--curve sofmax: no such op; did you mean softmax?"},
    {{"verify", "--op", "sofmax"}, "--op sofmax: no such op; did you mean softmax?"},
    {{"verify", "run", "--mutants"}, "--mutants: it is about ops, not about a run's model; leave run away"},
    {{"verify", "run", "--op", "softmax"}, "--op: it is about ops, not about a run's model; leave run away"},
    {{"verify", "--mutants", "--curve", "softmax"}, "--mutants: --curve draws one op; give one of the two"},
    {{"verify", "--svg", "x.svg"}, "--svg x.svg: there is nothing to draw without --curve OP"},
    // Studies
    {{"study", "depht"}, "study 'depht': no such study; did you mean depth?"},
    {{"study", "saturation", "--axes", ""}, "--axes '': give axis=value,value, such as --axes seed=1,2"},
    {{"study", "saturation", "--axes", "kind=foo"}, "study saturation: kind=foo: no such kind; did you mean rows?"},
    {{"study", "saturation", "--axes", "seed=-1"},
     "study saturation: seed=-1: give a whole number from 0 to 2^64 - 1, such as seed=1"},
    {{"study", "depth", "--axes", "gain=-1"}, "study depth: gain=-1: give a number above 0, such as gain=1"},
    // Prompts and pictures
    {{"generate", "run", "--prompt", "héllo"}, "--prompt héllo: the model has never seen 'é'; it knows abcdefghij|"},
    {{"generate", "run", "--prompt", "aé"}, "--prompt aé: the model has never seen 'é'"},
    {{"generate", "run", "--prompt", "a\xff"}, "--prompt a�: the model has never seen '\\xff'"},
    {{"generate", "run", "--prompt", ""}, "--prompt '': give one character at least, such as --prompt "},
    {{"generate", "run", "--tokens", "0"}, "--tokens 0: give a whole number from 1 "},
    {{"generate", "run", "--temperature", "-1"},
     "--temperature -1: give a number from 0 up, such as --temperature 0.8"},
    {{"generate", "run", "--temperature", "nan"}, "--temperature nan: give a number from 0 up"},
    {{"generate", "run", "--top-k", "-1"}, "--top-k -1: give a whole number from 0 "},
    {{"generate", "run", "--top-p", "0"}, "--top-p 0: give a number above 0 to 1"},
    {{"generate", "run", "--top-p", "1.5"}, "--top-p 1.5: give a number above 0 to 1, such as --top-p 0.9"},
    {{"inspect", "run", "--text", ""}, "--text '': give one character at least"},
    {{"inspect", "run", "--text", "xyz"}, "--text xyz: the model has never seen 'x'"},
    {{"inspect", "run", "--text", std::string(31, 'a')},
     "--text aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: 31 bytes, and the model sees 30 at once; give no more"},
    {{"inspect", "run", "--layer", "1"}, "--layer 1: give a whole number from 0 to 0, such as --layer 0"},
    {{"inspect", "run", "--head", "2"}, "--head 2: give a whole number from 0 to 1, such as --head 0"},
    {{"inspect", "run", "--svg", "folder"}, "--svg folder: a folder; give the path of a file in it"},
    {{"inspect", "run", "--svg", "none/a.svg"}, "--svg none/a.svg: there is no folder none"},
    {{"inspect", "run", "--svg", ""}, "--svg '': give the path of a file to write"},
};

}  // namespace

TEST_CASE("every bad input is one line that says what would do, exit code 2, and nothing is made") {
  const Folder folder;
  folder.good({"train", "copy", "--preset", "tiny", "--steps", "2", "--out", "run"});
  fs::create_directory(folder / "folder");
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"empty", ""}, {"short", "twelve chars"}, {"shorter", "abc"}, {"book", std::string(400, 'x')}})
    folder.write(name, text);
  fs::copy(folder / "run", folder / "future");
  folder.write("future/config.json", R"({"format": 7, "attune": "9.1.0"})");
  fs::copy(folder / "run", folder / "torn");
  fs::resize_file(folder / "torn/checkpoint.safetensors", 1000);

  CHECK(kBadInputs.size() >= 60);
  const std::vector<std::string> before = folder.names();
  for (const BadInput& bad : kBadInputs) {
    const Outcome outcome = folder.run(bad.words);
    INFO(fmt::format("attune {}", fmt::join(bad.words, " ")), "\n", outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.out == "");
    CHECK(outcome.err.starts_with("attune: " + bad.message));
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK(outcome.err.ends_with('\n'));
    CHECK(folder.names() == before);
  }
}

TEST_CASE("the environment's faults are exit code 3") {
  const Folder folder;
  const Outcome threads =
      folder.run({"train", "copy", "--preset", "tiny", "--steps", "1"}, {.environment = {"ATTUNE_THREADS=none"}});
  CHECK(threads.code == 3);
  CHECK(contains(threads.err, "ATTUNE_THREADS"));
  const Outcome row =
      folder.run({"train", "copy", "--preset", "tiny", "--steps", "1"}, {.environment = {"ATTUNE_ISA=mmx"}});
  CHECK(row.code == 3);
  CHECK(contains(row.err, "mmx"));
  const Outcome full = folder.run({"train", "--help"}, {.out = "/dev/full"});
  CHECK(full.code == 3);
  CHECK(full.err == "attune: standard output cannot be written\n");
}

TEST_CASE("help: of all and of each command, with examples, in 80 columns and without colours") {
  const Folder folder;
  std::vector<Words> pages = {{"--help"}, {"-h"}, {}};
  for (const std::string& command : kCommands) pages.push_back({command, "--help"});
  for (const Words& words : pages) {
    const std::string page = folder.good(words);
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(attune::show::columns(line) <= 80);
      CHECK((line.empty() || line.back() != ' '));
    }
    CHECK(contains(page, "usage: attune "));
    CHECK_FALSE(contains(page, "\033"));
    if (words.size() == 2) CHECK(contains(page, "attune " + words[0] + " "));
  }
  for (const std::string& command : kCommands) CHECK(contains(folder.good({}), "\n  " + command + " "));
}

TEST_CASE("what commands print fits into 80 columns") {
  const Folder folder;
  for (const Words& words :
       std::vector<Words>{{"train", "copy", "--preset", "tiny", "--steps", "200", "--batch", "1", "--out", "run"},
                          {"inspect", "run"},
                          {"inspect", "run", "--layer", "0"},
                          {"verify", "run"},
                          {"verify", "--op", "attention"},
                          {"verify", "--mutants", "--op", "add"},
                          {"verify", "--curve", "exp"},
                          {"study", "list"},
                          {"bench", "--seconds", "0.01"}}) {
    std::istringstream lines(folder.good(words));
    for (std::string line; std::getline(lines, line);)
      CHECK_MESSAGE(attune::show::columns(line) <= 80, fmt::format("{}: {}", fmt::join(words, " "), line));
  }
}

TEST_CASE("study: one run is a run") {
  const Folder folder;
  CHECK(contains(folder.run({"study", "depth", "--axes", "seed=7"}).out, "\n1 run in "));
}

TEST_CASE("version: a number of three parts") {
  const Folder folder;
  const std::string version = folder.good({"--version"});
  CHECK(version.starts_with("attune "));
  CHECK(std::count(version.begin(), version.end(), '.') == 2);
}

TEST_CASE("completion: scripts that the shells accept, with every command and option") {
  const Folder folder;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = folder.good({"completion", shell});
    for (const char* word : {"train", "inspect", "resume", "nanogpt-baby", "top-k", "induction"})
      CHECK(contains(script, word));
    folder.write("script", script);
    const std::string check =
        fmt::format("command -v {0} >/dev/null || exit 0; {0} -n {1}", shell, (folder / "script").string());
    CHECK(std::system(check.c_str()) == 0);
  }
  // What bash makes of it.
  folder.write("try",
               "source ./script\nCOMP_WORDS=(attune train --pre); COMP_CWORD=2; _attune; echo ${COMPREPLY[@]}\n"
               "COMP_WORDS=(attune train --preset nano); COMP_CWORD=3; _attune; echo ${COMPREPLY[@]}\n"
               "COMP_WORDS=(attune i); COMP_CWORD=1; _attune; echo ${COMPREPLY[@]}\n");
  folder.write("script", folder.good({"completion", "bash"}));
  const std::string command = fmt::format("cd {} && bash try > tried", (folder / "").string());
  REQUIRE(std::system(command.c_str()) == 0);
  CHECK(bytes_of(folder / "tried") == "--preset\nnanogpt-cpu nanogpt-baby\ninspect\n");
}

TEST_CASE("the manual page has every command and every option") {
  const Folder folder;
  const std::string page = folder.good({"--manual"});
  CHECK(page.starts_with(".TH ATTUNE 1 "));
  for (const std::string& command : kCommands) CHECK(contains(page, ".SS attune " + command));
  for (const char* part : {".B \\-\\-save\\-every \\fIN\\fR", ".B ATTUNE_THREADS", ".B 130"})
    CHECK(contains(page, part));
  for (const char* fault : {"\n\n", "\n'", " -"}) CHECK(!contains(page, fault));  // a blank line, a command, a hyphen
}

TEST_CASE("bench: the peak, products and a step, in the time it is given") {
  const Folder folder;
  const std::string text = folder.good({"bench", "--seconds", "0.01"});
  for (const char* part :
       {"fused multiply-adds: ", "1024 x 1024 x 1024", "a training step of nanogpt-cpu (805,248 parameters"})
    CHECK(contains(text, part));
}
