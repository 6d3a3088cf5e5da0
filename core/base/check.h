// Errors: how every layer reports what it cannot do.
#pragma once

#include <tandem/core/base/scope.h>

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace tandem {

// What the library throws. The text says what was found, what was expected and what to do about it. The library
// never exits or aborts; a program decides what an error means for it.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Error(with_scope(std::move(text).str()));
}

}  // namespace detail
}  // namespace tandem

// TANDEM_CHECK(weight.dim(1) == channels, "conv2d: input has ", channels, " channels, weight wants ", weight.dim(1))
// throws tandem::Error, whose text is the parts put together. The parts are evaluated only when the condition is false.
#define TANDEM_CHECK(condition, ...)       \
  do {                                     \
    if (!(condition)) [[unlikely]]         \
      ::tandem::detail::fail(__VA_ARGS__); \
  } while (false)
