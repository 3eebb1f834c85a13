// attune verify --mutants: the check is checked, and no op is forgotten.
#include <regex>
#include <set>
#include <sstream>

#include "../../support/program.h"
#include "../../support/sanitized.h"

using namespace attune::programs;

namespace {

// All of them take some seconds, so a few ops stand for the rest here: `attune verify --mutants` has them all.
std::vector<std::string> some_ops() {
  if (attune::kSanitized) return {"add", "gather", "tril"};
  return {"add",       "where", "gather", "matmul", "softmax", "layer_norm", "cross_entropy", "attention, sparse, cap",
          "checkpoint"};
}

std::vector<std::string> lines_with(const std::string& page, const std::string& part) {
  std::vector<std::string> found;
  std::istringstream text(page);
  for (std::string line; std::getline(text, line);)
    if (contains(line, part)) found.push_back(line);
  return found;
}

// "kind": "wrong sign"  ->  wrong sign
std::string field(const std::string& line, const std::string& name) {
  std::smatch found;
  const std::regex pattern("\"" + name + "\": \"?([^\",}]*)");
  return std::regex_search(line, found, pattern) ? found[1].str() : "";
}

// What record() is called with, in a folder.
std::set<std::string> recorded_names(const fs::path& folder) {
  const std::regex call(R"r(\brecord\("([a-z_0-9]+)")r");
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string text = entry.is_regular_file() ? bytes_of(entry.path()) : "";
    for (std::sregex_iterator found(text.begin(), text.end(), call), end; found != end; ++found)
      names.insert((*found)[1]);
  }
  return names;
}

}  // namespace

TEST_CASE("verify --mutants: every mutant is caught, or computes the same bits") {
  const Folder folder;
  std::set<std::string> kinds;
  for (const std::string& op : some_ops()) {
    const std::string report = folder.good({"verify", "--mutants", "--op", op, "--json"});
    CHECK(contains(report, "\"passed\": true"));
    const std::vector<std::string> mutants = lines_with(report, "\"kind\"");
    CHECK(mutants.size() > 10);
    for (const std::string& mutant : mutants) {
      INFO(mutant);
      const std::string kind = field(mutant, "kind"), verdict = field(mutant, "verdict"),
                        error = field(mutant, "error");
      kinds.insert(kind);
      const bool is_the_same = op == "add" && kind == "operands swapped";  // db = da = dy
      CHECK(verdict == (is_the_same ? "equal" : "caught"));
      if (kind == "factor 1 + 1e-9") CHECK(std::stod(error) == doctest::Approx(1e-9).epsilon(0.01));
      if (kind == "factor 1.001") CHECK(field(mutant, "passes_pytorch") == "true");
      if (kind == "factor 2") CHECK(field(mutant, "passes_pytorch") == "false");
    }
  }
  CHECK(kinds.size() == (attune::kSanitized ? 15 : 16));
}

TEST_CASE("verify --mutants: the table") {
  const Folder folder;
  const std::string page = folder.good({"verify", "--mutants", "--op", "add"});
  CHECK(contains(page, "\nfactor 1.001 "));
  CHECK(contains(page, "equal   add, one shape: add, gradient of input 0: operands swapped, with input 1"));
  CHECK(contains(page, "\n1 equal, 0 ESCAPED\n"));
}

// The steps of attention are not called by themselves: samples of attention show mutants of theirs.
TEST_CASE("verify: every op that records a rule has a sample") {
  const Folder folder;
  const std::string samples = folder.good({"verify", "--json"});
  const std::set<std::string> others = {"attention_scores", "masked_scores", "attention_weights", "weigh",
                                        "sign"};  // whose rule is empty
  std::set<std::string> names = recorded_names(fs::path(ATTUNE_SOURCE_DIR) / "autograd/ops");
  names.merge(recorded_names(fs::path(ATTUNE_SOURCE_DIR) / "layers"));
  CHECK(names.size() > 50);
  for (const std::string& name : names) {
    const std::string line = "\"name\": \"" + name;  // "mul", or "mul, a number"
    const bool is_listed = contains(samples, line + "\"") || contains(samples, line + ",");
    CHECK_MESSAGE((is_listed || others.contains(name)), name);
  }
}
