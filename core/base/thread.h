// start_thread: a thread, or an error that says what to do. name_thread: what a thread is for.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace tandem {
namespace detail {

[[noreturn]] void fail_without_thread(const std::string& what, const std::error_code& reason);

}  // namespace detail

// Starts a thread that runs `f`. `what` names the thread in the Error that is thrown when the system allows no more of
// them: the std::system_error of std::thread says no more than "Resource temporarily unavailable".
template <class Thread = std::thread, class F>
Thread start_thread(const std::string& what, F f) {
  try {
    return Thread(std::move(f));
  } catch (const std::system_error& error) {
    detail::fail_without_thread(what, error.code());
  }
}

// Names the calling thread, "loader" for instance; traces show it by that name. `name` lives as long as the program, as
// a literal does.
void name_thread(const char* name);
// The name of the calling thread; "thread" where it was given none.
const char* thread_name();

}  // namespace tandem
