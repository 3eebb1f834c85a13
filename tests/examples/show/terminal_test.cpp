// What may be written where, and how wide a text is.
#include "attune/examples/show/terminal.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <optional>

using namespace attune::show;

namespace {

// An environment variable, for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = getenv(name)) before_ = before;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// The two ends of a terminal that nobody looks at.
struct Pair {
  int master = posix_openpt(O_RDWR | O_NOCTTY), slave = -1;

  explicit Pair(unsigned short width) {
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return;
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    const winsize size{24, width, 0, 0};
    if (slave >= 0) ioctl(slave, TIOCSWINSZ, &size);
  }
  ~Pair() { close(slave), close(master); }
};

}  // namespace

TEST_CASE("terminal: a file is plain and has 80 columns") {
  const int file = open("/dev/null", O_WRONLY);
  const Terminal found = terminal(file);
  close(file);
  CHECK_FALSE(found.redraws);
  CHECK_FALSE(found.colors);
  CHECK(found.width == 80);
}

TEST_CASE("terminal: a terminal has its width, and colours unless somebody refuses them") {
  const Pair pair(57);
  if (pair.slave < 0) return;  // no terminals here
  const Variable kind("TERM", "xterm"), none("NO_COLOR", nullptr);
  CHECK(terminal(pair.slave).redraws);
  CHECK(terminal(pair.slave).colors);
  CHECK(terminal(pair.slave).width == 57);
  CHECK_FALSE(terminal(pair.slave, true).redraws);
  CHECK_FALSE(terminal(pair.slave, true).colors);
  {
    const Variable refused("NO_COLOR", "1");
    CHECK(terminal(pair.slave).redraws);
    CHECK_FALSE(terminal(pair.slave).colors);
  }
  {
    const Variable empty("NO_COLOR", "");
    CHECK(terminal(pair.slave).colors);
  }
  for (const char* term : {"dumb", static_cast<const char*>(nullptr)}) {
    const Variable dumb("TERM", term);
    CHECK_FALSE(terminal(pair.slave).redraws);
    CHECK_FALSE(terminal(pair.slave).colors);
    CHECK(terminal(pair.slave).width == 57);
  }
}

TEST_CASE("terminal: a terminal that does not know its width has 80 columns") {
  const Pair pair(0);
  if (pair.slave >= 0) CHECK(terminal(pair.slave).width == 80);
}

TEST_CASE("paint: only where there are colours") {
  CHECK(paint({}, Style::red, "no") == "no");
  CHECK(paint({.colors = true}, Style::red, "no") == "\033[31mno\033[0m");
}

TEST_CASE("columns count characters, neither bytes nor escape sequences") {
  CHECK(columns("") == 0);
  CHECK(columns("√d = 8") == 6);
  CHECK(columns("\033[1;31m█░\033[0m!") == 3);
  CHECK(columns("\033[") == 0);
  CHECK(pad("é", 3) == "é  ");
  CHECK(pad_left("é", 3) == "  é");
  CHECK(pad("long", 2) == "long");
}

TEST_CASE("shorten keeps what fits, and says where something is missing") {
  CHECK(shorten("blocks", 6) == "blocks");
  CHECK(shorten("blocks", 4) == "blo…");
  CHECK(shorten("ééé", 2) == "é…");
  CHECK(shorten("\033[31mred\033[0m", 3) == "red");
  CHECK(shorten("ab", 1) == "…");
  CHECK(shorten("ab", 0) == "");
}

TEST_CASE("visible: one line, whatever the token is") {
  CHECK(visible("a b\nc\t") == "a␣b↵c⇥");
  CHECK(visible("é a") == "é␣a");
  CHECK(visible("\x01\x7f") == "��");
  CHECK(visible("\xc3") == "�");
  CHECK(visible("\xff"
                "a") == "�a");
  CHECK(spelled("a é\n") == "a␣é↵");
  CHECK(spelled("\x01z\xa9\xc3") == "\\x01z\\xa9\\xc3");
  CHECK(character_length("é") == 2);
  CHECK(character_length("") == 0);
}
