#include "attune/autograd/place.h"

#include <fmt/format.h>

namespace attune {
namespace {
constinit thread_local const Within* innermost_place = nullptr;
}  // namespace

Within::Within(std::string_view name, int number) : name_(name), number_(number), outer_(innermost_place) {
  innermost_place = this;
}

Within::~Within() { innermost_place = outer_; }

void current_path(std::string& path) {
  path.clear();
  for (const Within* at = innermost_place; at; at = at->outer_) {  // from the end to the start
    if (!path.empty()) path.insert(0, 1, '.');
    if (at->number_ >= 0) {
      const fmt::format_int number(at->number_);
      path.insert(0, number.data(), number.size());
      path.insert(0, 1, '.');
    }
    path.insert(0, at->name_);
  }
}

std::string current_path() {
  std::string path;
  current_path(path);
  return path;
}

}  // namespace attune
