// The test program's main: doctest's. `attune_tests --help` says how to choose tests.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
