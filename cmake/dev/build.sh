# Read by ./dev: building, testing and measuring.

# configure PRESET
configure() {
  check_machine
  check_cmake
  check_compiler "$1"
  in_ci=OFF
  [ "${CI:-}" != true ] || in_ci=ON
  step "Configuring build/$1" "If the message above does not help, start anew: rm -r build/$1" \
    cmake --preset "$1" -DATTUNE_WERROR=$in_ci -DATTUNE_PRECOMPILE=$in_ci
}

# configure_and_build PRESET [TARGET ...]
configure_and_build() {
  preset=$1
  shift
  configure "$preset"
  step "Building build/$preset (minutes the first time)" \
    'The first "error:" above says where. Killed, or out of memory? Build with less at once: cmake --build build/'"$preset -j1" \
    cmake --build --preset "$preset" --parallel "$(nproc)" ${1:+--target "$@"}
}

# run_tests PRESET [NAME] [options of ctest]
run_tests() {
  preset=$1
  shift
  case "${1:--}" in
    -*) again="./dev test NAME" ;;
    *)
      again="./dev test $1"
      name=$1
      shift
      set -- -R "$name" "$@"
      ;;
  esac
  # The thread sanitizer wants its addresses where they are without randomisation.
  fixed_addresses=
  if [ "$preset" = tsan ] && setarch -R true 2>/dev/null; then fixed_addresses='setarch -R'; fi
  # shellcheck disable=SC2086  # $fixed_addresses is a command and its option, or nothing
  step "Testing build/$preset" "What failed is listed above, with what it said. One alone: $(echo "$again" | sed "s/test/$(word_of "$preset")/")" \
    $fixed_addresses ctest --preset "$preset" --parallel "$(nproc)" "$@"
}

# The word of ./dev that tests this preset.
word_of() {
  case $1 in
    release) echo test ;;
    *) echo "$1" ;;
  esac
}

# The table of the uniform checks: of ops and layers, or of every case ("all").
print_table() {
  ATTUNE_TABLE=${1:-1} step 'Checking every op and layer' 'The line that says ERROR names the file and what was compared.' \
    build/release/bin/attune_tests \
    --source-file='*/autograd/ops/*_test.cpp,*/layers/attention_test.cpp,*/layers/layers_table_test.cpp'
}

# The programs of bench/, those with a main(): tape_bench for "tape", ulp for "ulp". The ones called _bench take seconds.
benchmarks() {
  grep -lE '^int main' bench/*.cpp | while read -r source; do
    name=${source##*/}
    name=${name%.cpp}
    printf '%s ' "${name%_bench}"
  done
}
benchmark() { if [ -f "bench/$1_bench.cpp" ]; then echo "$1_bench"; else echo "$1"; fi; }
quick_benchmarks() { for name in $(benchmarks); do [ ! -f "bench/${name}_bench.cpp" ] || printf '%s ' "$name"; done; }

# build_benchmarks [NAME ...], and run_benchmarks the same: all that take seconds, or NAME alone.
build_benchmarks() {
  if [ $# -gt 0 ]; then
    case " $(benchmarks)" in
      *" ${1%_bench} "*) ;;  # by its name, or its program's
      *) misuse "$1: no such benchmark. There are $(benchmarks | sed 's/ $//; s/ /, /g')" ;;
    esac
    configure_and_build release "$(benchmark "$1")"
  else
    # shellcheck disable=SC2046  # a list
    configure_and_build release $(for name in $(quick_benchmarks); do benchmark "$name"; done)
  fi
}

run_benchmarks() {
  names=${1:-$(quick_benchmarks)}
  [ $# -eq 0 ] || shift
  for name in $names; do
    program=build/release/bin/$(benchmark "$name")
    step "$program" 'Its own message is above.' "$program" "$@"
  done
}

# open_reports [REPORT DIR]: the browser's tests; or pictures of a report, for someone to look at.
open_reports() {
  if [ $# -eq 0 ]; then
    ATTUNE_BROWSER=required step 'Opening reports in Chromium' 'Each ERROR above says what was expected, and what was seen.' \
      ctest --preset release --label-regex browser
  else
    step "Photographing $1" 'It says above what it could not do.' \
      python3 -B tests/browser/report_test.py --pictures "$(path_of "$1")" "$(path_of "$2")"
  fi
}

# measure_coverage [NAME]: runs the tests, or those that match NAME, and says which lines of the libraries none came by.
measure_coverage() {
  find build/coverage -name '*.gcda' -delete                # of the last time
  find build/coverage -name '*CompilerId.gcno' -delete      # of CMake's own
  # These hold the program to time and to the size of files, which counting exceeds; and house/ runs no library.
  run_tests coverage "$@" --exclude-regex '^(house/|examples/attune/train)'
  step 'Reading what was run' 'gcovr says above what it could not read; start anew: rm -r build/coverage' \
    gcovr --root . --object-directory build/coverage build/coverage --gcov-ignore-parse-errors -j "$(nproc)" \
    --filter 'lib/' --filter 'autograd/' --filter 'layers/' --json build/coverage/coverage.json
  python3 cmake/dev/coverage.py build/coverage/coverage.json build/coverage/uncovered.txt
}
