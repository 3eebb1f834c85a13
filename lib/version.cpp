#include "attune/lib/version.h"

#define ATTUNE_TEXT_OF(number) #number
#define ATTUNE_TEXT(major, minor, patch) ATTUNE_TEXT_OF(major) "." ATTUNE_TEXT_OF(minor) "." ATTUNE_TEXT_OF(patch)

namespace attune {

const char* version() { return ATTUNE_TEXT(ATTUNE_VERSION_MAJOR, ATTUNE_VERSION_MINOR, ATTUNE_VERSION_PATCH); }

}  // namespace attune
