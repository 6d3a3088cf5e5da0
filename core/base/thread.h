// start_thread() starts a thread, or throws an Error that says what to do. name_thread() names the calling thread.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace tandem {
namespace detail {

[[noreturn]] void fail_without_thread(const std::string& what, const std::error_code& reason);

}  // namespace detail

// Starts a thread that runs `f`. Throws an Error that names the thread (`what`) if the system allows no more threads.
// The std::system_error of std::thread would say only "Resource temporarily unavailable".
template <class Thread = std::thread, class F>
Thread start_thread(const std::string& what, F f) {
  try {
    return Thread(std::move(f));
  } catch (const std::system_error& error) {
    detail::fail_without_thread(what, error.code());
  }
}

// Names the calling thread, for instance "loader". Traces show the name. `name` must live as long as the program, like
// a literal.
void name_thread(const char* name);
// Returns the name of the calling thread, or "thread" if it has none.
const char* thread_name();

}  // namespace tandem
