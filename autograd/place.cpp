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

std::string current_path() {
  std::string path;
  for (const Within* at = innermost_place; at; at = at->outer_) {
    const std::string step = at->number_ < 0 ? std::string(at->name_) : fmt::format("{}.{}", at->name_, at->number_);
    path = path.empty() ? step : step + "." + path;
  }
  return path;
}

}  // namespace attune
