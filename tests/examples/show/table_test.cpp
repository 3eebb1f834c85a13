// Tables, character by character.
#include "attune/examples/show/table.h"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace attune::show;

namespace {

Table layers() {
  Table table({{"layer"}, {"shape"}, {"parameters", Align::right}});
  table.row({"token.weight", "[65, 128]", "8,320"});
  table.rule();
  table.row({"√ all"});
  return table;
}

}  // namespace

TEST_CASE("table: columns stand in line, and nothing trails") {
  CHECK(layers().text() ==
        "layer         shape      parameters\n"
        "───────────────────────────────────\n"
        "token.weight  [65, 128]       8,320\n"
        "───────────────────────────────────\n"
        "√ all\n");
}

TEST_CASE("table: colours do not move anything") {
  Table table({{"name"}, {"n", Align::right}});
  table.row({"\033[31mred\033[0m", "1"});
  table.row({"green", "22"});
  CHECK(table.text() == "name    n\n─────────\n\033[31mred\033[0m     1\ngreen  22\n");
  CHECK(table.text({.colors = true}).find("\033[1mname\033[0m") == 0);
}

TEST_CASE("table: where the terminal is too narrow, the first column is shortened") {
  CHECK(layers().text({.width = 31}).find("token.w…  [65, 128]       8,320\n") != std::string::npos);
  CHECK(layers().text({.width = 5}).find("token.w…  [65, 128]       8,320\n") != std::string::npos);
}

TEST_CASE("table: more cells than columns are refused, and no rows are a heading") {
  Table table({{"a"}});
  CHECK_THROWS_WITH_AS(table.row({"1", "2"}), "table: 2 cells do not fit into 1 columns", std::invalid_argument);
  CHECK(table.text() == "a\n─\n");
}
