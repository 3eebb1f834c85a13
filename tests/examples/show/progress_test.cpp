// The line of a progress bar. That it is drawn on a terminal and nowhere else, the program's own test shows.
#include "attune/examples/show/progress.h"

#include <doctest/doctest.h>

using namespace attune::show;

TEST_CASE("progress: how far, in a bar, with the text behind it") {
  const Progress bar(200, 0, {.width = 80});
  CHECK(bar.line(0, "loss 4.17") == "0/200 ──────────────────────────────  loss 4.17");
  CHECK(bar.line(100, "loss 1.2") == "100/200 ━━━━━━━━━━━━━━━───────────────  loss 1.2");
  CHECK(bar.line(200, "") == "200/200 ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  ");
  CHECK(bar.line(300, "") == "300/200 ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  ");
}

TEST_CASE("progress: never wider than the terminal, whose last column stays free") {
  for (const int width : {20, 30, 40, 60, 79, 80, 200}) {
    const Progress bar(100000, 0, {.colors = true, .width = width});
    CHECK(columns(bar.line(50000, "loss 1.2345  accuracy 99.1 %  123k tokens/s  ▇▆▅▄▃▂▁")) < width);
  }
}

TEST_CASE("progress: nothing to do is done") {
  CHECK(Progress(0, 0, {}).line(0, "") == "0/0 ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  ");
}

TEST_CASE("progress: the rate counts what is done now, not what was done before") {
  Progress bar(100, 50, {});
  CHECK(bar.rate() == 0);
  bar.show(50, "");
  CHECK(bar.rate() == 0);
  bar.show(51, "");
  CHECK(bar.rate() > 0);
  CHECK(bar.line(51, "x").find("left") != std::string::npos);
  CHECK(bar.line(51, std::string(200, 'x')).find("… ") != std::string::npos);  // the text gives way, not the time
  CHECK(bar.line(51, std::string(200, 'x')).ends_with(" left"));
}

TEST_CASE("duration: in the unit that reads best") {
  CHECK(duration(0) == "0.0 s");
  CHECK(duration(3.21) == "3.2 s");
  CHECK(duration(9.96) == "10 s");
  CHECK(duration(59.4) == "59 s");
  CHECK(duration(59.6) == "1 min 00 s");
  CHECK(duration(245) == "4 min 05 s");
  CHECK(duration(7800) == "2 h 10 min");
  CHECK(duration(1e300) == "?");
  CHECK(duration(0.0 / 0.0) == "?");
}
