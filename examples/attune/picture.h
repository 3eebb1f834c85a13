// Where a picture goes that a command was asked for: --svg FILE.
#pragma once

#include <string>

namespace attune::program {

class Arguments;

// Refuses a --svg that cannot become a file, before any work is done.
void check_picture_path(const Arguments& arguments);
// The file has all of `page`, or is as it was.
void write_picture(const std::string& path, const std::string& page);

}  // namespace attune::program
