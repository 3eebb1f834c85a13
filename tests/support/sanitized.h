// Whether a sanitizer watches. Then a test that repeats the same code by the thousand, for its statistics or for every
// size, does less of it: a fault of memory shows at once.
#pragma once

namespace attune {

#ifdef ATTUNE_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// On 1, 2 and so many threads the same bits are looked for.
inline constexpr int kMostThreads = kSanitized ? 2 : 3;

}  // namespace attune
