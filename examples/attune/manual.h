// The manual page of the program, in the language of man pages.
#pragma once

#include <string>
#include <vector>

#include "command.h"

namespace attune::program {

// What all commands take, and what they read of the environment, are the main program's to say.
std::string manual(const std::vector<Option>& common, const std::vector<Option>& environment);

}  // namespace attune::program
