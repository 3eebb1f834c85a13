// Where in a model one is: the path of the layer that computes, for taps and reports.
#pragma once

#include <string>
#include <string_view>

namespace attune {

// While it lives, what this thread computes lies one step deeper in the model: Within("blocks", 1) adds "blocks.1.".
class Within {
 public:
  explicit Within(std::string_view name, int number = -1);
  ~Within();
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  friend void current_path(std::string& path);
  std::string_view name_;
  int number_;
  const Within* outer_;
};

// "blocks.1.attention"; empty outside of all.
std::string current_path();
// The same into a string, whose memory is used again.
void current_path(std::string& path);

}  // namespace attune
