// The factor by which tests of time and memory raise their limits under a sanitizer.
#pragma once

namespace tandem::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int sanitizer_factor = 4;
#else
constexpr int sanitizer_factor = 1;
#endif

}  // namespace tandem::testing
