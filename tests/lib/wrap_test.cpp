#include "attune/lib/wrap.h"

#include <doctest/doctest.h>

using attune::wrapped;

TEST_CASE("wrapped: lines break at spaces, and what fits stays as it is") {
  CHECK(wrapped("") == "");
  CHECK(wrapped("to be, or not", 0, 13) == "to be, or not");
  CHECK(wrapped("to be, or not", 0, 12) == "to be, or\nnot");
  CHECK(wrapped("to be, or not to be", 0, 5) == "to\nbe,\nor\nnot\nto be");
  CHECK(wrapped("to  be", 0, 10) == "to  be");
  CHECK(wrapped("to  be", 0, 3) == "to\nbe");
  CHECK(wrapped("to be   ", 0, 5) == "to be   ");  // nothing that could go to another line
}

TEST_CASE("wrapped: what is broken off stands behind a margin: the one given, or its line's own") {
  CHECK(wrapped("name  what it is", 6, 14) == "name  what it\n      is");
  CHECK(wrapped("  a list of words", 0, 10) == "  a list\n  of words");
  CHECK(wrapped("  a list of words", 4, 10) == "  a list\n    of\n    words");
}

TEST_CASE("wrapped: each line by itself, and empty ones, too") {
  CHECK(wrapped("one two\n\n  three four\n", 0, 6) == "one\ntwo\n\n  three\n  four\n");
}

TEST_CASE("wrapped: a word that is too long has a line of its own") {
  CHECK(wrapped("see /a/very/long/path or not", 0, 8) == "see\n/a/very/long/path\nor not");
  CHECK(wrapped("/a/very/long/path", 2, 8) == "/a/very/long/path");
  CHECK(wrapped("  /a/very/long/path is", 2, 8) == "  /a/very/long/path\n  is");
}

TEST_CASE("wrapped: counts characters, not bytes") {
  CHECK(wrapped("√√√√ √√√√", 0, 9) == "√√√√ √√√√");
  CHECK(wrapped("√√√√ √√√√", 0, 8) == "√√√√\n√√√√");
}
