// Attune's version. Semantic versioning: while the first number is 0, the second one changes when the interface does.
//
// The three numbers stand here and nowhere else: CMakeLists.txt reads them, and from there the package has them.
#pragma once

// Of the headers that are compiled: for #if.
#define ATTUNE_VERSION_MAJOR 0
#define ATTUNE_VERSION_MINOR 1
#define ATTUNE_VERSION_PATCH 0

namespace attune {

// Of the library that is linked: "0.1.0". A shared one may be another than its headers.
const char* version();

}  // namespace attune
