// Errors: how every layer reports what it cannot do.
#pragma once

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

// Where in a program a thread is: in a module of a network (nn/module.h). Errors say it. Threads have a stack of these.
class Place {
 public:
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  // "blocks.2.mlp (Linear)". Empty when there is nothing to say.
  virtual std::string text() const = 0;
  const char* range() const { return range_; }
  const Place* outer() const { return outer_; }

 protected:
  // `range`: the name of the ProfileRange that is opened together with this Place.
  explicit Place(const char* range);
  ~Place();

 private:
  const char* const range_;
  const Place* const outer_;
};
const Place* innermost_place();  // of this thread; null outside of all
std::string place_text();        // its text(); empty outside of all

// Puts the place of this thread and the operation that it is in before `text`, unless the text has these names already.
// The operation is the innermost ProfileRange (core/profile/profile.h). Code that many operations share therefore need
// not know which of them called it.
std::string with_place(std::string text);

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Error(with_place(std::move(text).str()));
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
