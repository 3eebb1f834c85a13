# Read by ./dev: what the machine must have, and what is said where it has not.

# give_up SENTENCE COMMAND: what is wrong with the machine, and what would help.
give_up() {
  printf '\n%s\n\n    %s\n\n' "$1" "$2" >&2
  exit 3
}

# ---- Packages -------------------------------------------------------------------------------------------------

# The packages that the word $1 needs and that are not installed.
missing_packages() {
  case $1 in
    format | docs) compiles=nothing ;;
    *) compiles=all ;;
  esac
  while read -r package words; do
    case " $words " in
      *" $compiles "* | *" $1 "*) ;;
      *) continue ;;
    esac
    case "$(dpkg-query -W -f '${db:Status-Status} ' "$package" 2>/dev/null || true)" in
      *'not-installed'*) echo "$package" ;;
      *installed*) ;;
      *) echo "$package" ;;
    esac
  done < cmake/packages.txt
}

# install_packages WORD: asks nothing of the network, nor for root, where nothing is missing.
install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    give_up 'This is not Debian: install what cmake/packages.txt names, then build without this script:' \
      'cmake --workflow --preset release'
  fi
  missing=$(missing_packages "$1" | tr '\n' ' ')
  missing=${missing% }
  [ -n "$missing" ] || return 0

  command="apt-get update && apt-get install --no-install-recommends -y $missing"
  root=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || give_up 'Packages are missing. As root, run:' "$command"
    root='sudo'
  fi
  say "Installing $missing"
  start=$(now)
  log=$(mktemp)
  # shellcheck disable=SC2086  # $missing is a list
  if ! { $root apt-get -q update &&
    $root env DEBIAN_FRONTEND=noninteractive apt-get -q install --no-install-recommends -y $missing; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    reason='The packages could not be installed.'
    if grep -E -q 'Could not (resolve|connect)|Temporary failure|Network is unreachable|Unable to connect' "$log"; then
      reason='The packages could not be installed: there is no way to the network.'
    fi
    rm -f "$log"
    give_up "$reason As root, run:" "$command"
  fi
  rm -f "$log"
  say "Installed in $(($(now) - start)) s; next time nothing is asked of the network"
}

# ---- The compiler and CMake -----------------------------------------------------------------------------------

check_machine() {
  [ "$(uname -m)" = x86_64 ] || give_up "This machine is $(uname -m); Attune runs on x86-64." 'uname -m'
}

check_cmake() {
  version=$(cmake --version | sed -n 's/^cmake version \([0-9]*\.[0-9]*\).*/\1/p')
  case $version in
    3.2[5-9] | 3.[3-9][0-9] | 3.[1-9][0-9][0-9] | [4-9].* | [1-9][0-9].*) ;;
    *) give_up "CMake ${version:-?} ($(command -v cmake)) is too old: 3.25 or newer is needed. Debian 12 has it; a newer one is at" \
      'https://cmake.org/download' ;;
  esac
}

# check_compiler PRESET: the one that CXX names, or c++, unless the preset says which.
check_compiler() {
  case $1 in asan | tsan | clang | coverage) return 0 ;; esac
  compiler=${CXX:-c++}
  path=$(command -v "${compiler%% *}") ||
    give_up "CXX names the compiler '$compiler', which is not here. Use the system's:" "unset CXX"
  # shellcheck disable=SC2086  # CXX may have options
  macros=$($compiler -x c++ -dM -E /dev/null 2>/dev/null) || give_up "'$compiler' is no C++ compiler." "unset CXX"
  name=g++ least=12 number=$(echo "$macros" | sed -n 's/^#define __GNUC__ //p')
  case $macros in *__clang_major__*)
    name=clang++ least=16 number=$(echo "$macros" | sed -n 's/^#define __clang_major__ //p') ;;
  esac
  if [ "${number:-0}" -lt $least ]; then
    give_up "$name $number ($path) is too old: g++ 12 or clang++ 16 is needed, or newer. Name one that is here:" \
      'CXX=g++-12 ./dev test'
  fi

  # A build keeps its first compiler: better said than silently done.
  cache=build/$1/CMakeCache.txt
  [ -n "${CXX:-}" ] && [ -f "$cache" ] || return 0
  before=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$cache")
  if [ "$(readlink -f "$before")" != "$(readlink -f "$path")" ]; then
    give_up "build/$1 was made with $before, and CXX asks for $path. To start it anew:" "rm -r build/$1"
  fi
}
