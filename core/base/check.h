// Errors: how every layer reports a failure.
#pragma once

#include <tandem/core/base/scope.h>

#include <initializer_list>
#include <ostream>
#include <stdexcept>
#include <string>
#include <type_traits>
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

// A part of an Error's text: a value of any type that a stream writes. The function that joins the parts is compiled
// once, because calls of it stand in nearly every function. A TextPart refers to the value.
class TextPart {
 public:
  TextPart(const char* text) : value_(text), write_(write_text) {}
  template <class T>
  requires(!std::is_array_v<T>) TextPart(const T& value)
      : value_(&value), write_([](std::ostream& to, const void* from) { to << *static_cast<const T*>(from); }) {}
  void write(std::ostream& to) const { write_(to, value_); }

 private:
  static void write_text(std::ostream& to, const void* text);
  const void* value_;
  void (*write_)(std::ostream&, const void*);
};

// Throws an Error whose text is the concatenation of the parts.
[[noreturn]] void fail_with(std::initializer_list<TextPart> parts);
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  fail_with({parts...});
}

}  // namespace detail
}  // namespace tandem

// TANDEM_CHECK(weight.dim(1) == channels, "conv2d: input has ", channels, " channels, weight wants ", weight.dim(1))
// throws a tandem::Error whose text is the concatenation of the parts. They are evaluated only if the condition is
// false.
#define TANDEM_CHECK(condition, ...)              \
  do {                                            \
    if (!(condition)) [[unlikely]]                \
      ::tandem::detail::fail_with({__VA_ARGS__}); \
  } while (false)
