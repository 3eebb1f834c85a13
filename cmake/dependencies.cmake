# Where each library that Attune uses comes from: the system's package, and the network only where there is none.
#
# A machine without network can also name a source folder: -DFETCHCONTENT_SOURCE_DIR_FMT=/path/to/fmt, and so on.
include(FetchContent)

FetchContent_Declare(fmt SYSTEM
  GIT_REPOSITORY https://github.com/fmtlib/fmt.git
  GIT_TAG a33701196adfad74917046096bf5a2aa0ab0bb50  # 9.1.0
  FIND_PACKAGE_ARGS 9 CONFIG)
set(FMT_INSTALL ${ATTUNE_INSTALL})  # where fmt is not the system's, it is installed with Attune, which needs it

# Other projects that add Attune never need the rest.
if(ATTUNE_DEVELOPER)
  FetchContent_Declare(spdlog SYSTEM
    GIT_REPOSITORY https://github.com/gabime/spdlog.git
    GIT_TAG 76fb40d95455f249bd70824ecfcae7a8f0930fa3  # 1.10.0
    FIND_PACKAGE_ARGS 1.10 CONFIG)
  set(SPDLOG_FMT_EXTERNAL ON CACHE BOOL "one fmt in a program, not two")

  FetchContent_Declare(doctest SYSTEM
    GIT_REPOSITORY https://github.com/doctest/doctest.git
    GIT_TAG b7c21ec5ceeadb4951b00396fc1e4642dd347e5f  # 2.4.9
    FIND_PACKAGE_ARGS 2.4 CONFIG)
  set(DOCTEST_WITH_TESTS OFF CACHE BOOL "doctest's own tests")

  FetchContent_Declare(benchmark SYSTEM
    GIT_REPOSITORY https://github.com/google/benchmark.git
    GIT_TAG d572f4777349d43653b21d6c2fc63020ab326db2  # 1.7.1
    FIND_PACKAGE_ARGS 1.7 CONFIG)
  set(BENCHMARK_ENABLE_TESTING OFF CACHE BOOL "Google Benchmark's own tests")
  set(BENCHMARK_ENABLE_INSTALL OFF CACHE BOOL "install Google Benchmark with Attune")

  FetchContent_Declare(CLI11 SYSTEM
    GIT_REPOSITORY https://github.com/CLIUtils/CLI11.git
    GIT_TAG 70f8072f9dd2292fd0b9f9e5f58e279f60483ed3  # 2.1.2
    FIND_PACKAGE_ARGS 2.1 CONFIG)

  FetchContent_Declare(nlohmann_json SYSTEM
    GIT_REPOSITORY https://github.com/nlohmann/json.git
    GIT_TAG bc889afb4c5bf1c0d8ee29ef35eaaf4c8bef8a5d  # 3.11.2
    FIND_PACKAGE_ARGS 3.11 CONFIG)
  set(JSON_BuildTests OFF CACHE BOOL "nlohmann-json's own tests")
endif()

# After attune_use(fmt) the target fmt::fmt is there.
macro(attune_use name)
  FetchContent_MakeAvailable(${name})
endmacro()
