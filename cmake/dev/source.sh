# Read by ./dev: the source's looks, what clang-tidy thinks of it, and its pages.

# format_source [--check] [FILE ...]: the lines that differ from the last commit; or those files, whole. What stands is left
# as its author laid it out: a table of one-line definitions reads better than what a tool makes of it.
format_source() {
  check=
  if [ "${1:-}" = --check ]; then
    check=yes
    shift
  fi
  for file; do
    set -- "$@" "$(path_of "$file")"
    shift
  done
  if [ $# -eq 0 ]; then
    format_changes
  elif [ -z "$check" ]; then
    step "Formatting $# files" 'A file is named above: does it compile?' clang-format-16 -i "$@"
  else
    step "Looking at the form of $# files" 'To mend these: ./dev format FILE ...' all_formatted "$@"
  fi
}

format_changes() {
  if [ -z "$check" ]; then
    git clang-format-16 --binary clang-format-16 --extensions h,cpp,inl --force || [ $? = 1 ]  # 1: something was changed
  else
    step 'Looking at the lines that changed' 'To mend these: ./dev format' \
      git clang-format-16 --binary clang-format-16 --extensions h,cpp,inl --diff
  fi
}

all_formatted() {
  different=0
  for file; do
    if ! clang-format-16 "$file" | cmp -s - "$file"; then
      echo "$file"
      different=$((different + 1))
    fi
  done
  echo "$different of $# files are not as .clang-format says"
  [ $different = 0 ]
}

# run_tidy [NAME]: over the libraries' sources, or those whose path has NAME. The headers they include are seen with them.
run_tidy() {
  files=$(find lib autograd layers -name '*.cpp' | grep -e "${1:-.}" | sort)
  [ -n "$files" ] || misuse "No source's path has '$1' in it"
  configure clang  # clang-tidy wants clang's options
  # shellcheck disable=SC2086  # $files is a list
  step "clang-tidy reads $(echo "$files" | wc -l) files (seconds each)" \
    'Each finding names its check in [brackets]. Mend it; or, where the check is wrong, say so: // NOLINT(check): why' \
    run-clang-tidy-16 -quiet -p build/clang -j "$(nproc)" $files
}

make_docs() {
  mkdir -p build/docs
  step 'Writing the pages' 'Each line above names a header and what its comment says wrongly.' doxygen cmake/docs/Doxyfile
  mkdir -p build/docs/examples && cp -r examples/pictures build/docs/examples/  # where README looks for them
  say "Read them: build/docs/index.html"
}
