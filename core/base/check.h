// Errors: how every layer reports a failure.
#pragma once

#include <tandem/core/base/scope.h>

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace tandem {

// The exception that the library throws. Its text says what was found, what was expected and what to do about it. The
// library never exits or aborts: the program decides how to handle an Error. Control characters other than newlines and
// tabs are escaped ("\x1b"), because a name from a file must not steer the terminal that shows the error.
class Error : public std::runtime_error {
 public:
  explicit Error(std::string text) : std::runtime_error(detail::without_control_characters(std::move(text))) {}
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
// throws a tandem::Error whose text is the concatenation of the parts. They are evaluated only if the condition is
// false.
#define TANDEM_CHECK(condition, ...)       \
  do {                                     \
    if (!(condition)) [[unlikely]]         \
      ::tandem::detail::fail(__VA_ARGS__); \
  } while (false)
