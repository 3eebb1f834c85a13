# Read by ./dev: the source's looks, what clang-tidy thinks of it, and its pages.

# The files that clang-format has a say in.
formatted_files() { find lib autograd layers examples bench tests -name '*.h' -o -name '*.cpp' -o -name '*.inl' | sort; }

# format_source [--check] [FILE ...]
format_source() {
  check=
  if [ "${1:-}" = --check ]; then
    check=yes
    shift
  fi
  # shellcheck disable=SC2046  # no file of ours has blanks in its name
  [ $# -gt 0 ] || set -- $(formatted_files)
  if [ -z "$check" ]; then
    step "Formatting $# files" 'A file is named above: does it compile?' clang-format-16 -i "$@"
  else
    step "Looking at the form of $# files" 'To mend these: ./dev format, or ./dev format FILE ...' all_formatted "$@"
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
  configure clang  # clang-tidy wants clang's options
  files=$(find lib autograd layers -name '*.cpp' | grep -e "${1:-.}" | sort) || misuse "No source's path has '$1' in it"
  # shellcheck disable=SC2086  # $files is a list
  step "clang-tidy reads $(echo "$files" | wc -l) files (seconds each)" \
    'Each finding names its check in [brackets]. Mend it; or, where the check is wrong, say so: // NOLINT(check): why' \
    run-clang-tidy-16 -quiet -p build/clang -j "$(nproc)" $files
}

make_docs() {
  mkdir -p build/docs
  step 'Writing the pages' 'Each line above names a header and what its comment says wrongly.' doxygen cmake/docs/Doxyfile
  say "Read them: build/docs/index.html"
}
