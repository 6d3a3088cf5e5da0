// Work that some ranks do while the others wait: reading data, downloading, writing.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace tandem::distributed {

// All functions here are collective. None of them bounds how long a rank may take: the others wait for as long
// as it gives signs of life, and for the group's timeout after the last one.

// f() on every rank, for what may fail on some of them: when it throws on one it throws on all, with the reason of the
// first, so that a rank that can't read its data ends the job at once.
void run_together(ProcessGroup& group, const std::function<void()>& f);
template <class F>
requires(!std::is_void_v<std::invoke_result_t<F>>) auto run_together(ProcessGroup& group, F f) {
  std::optional<std::invoke_result_t<F>> result;
  run_together(group, std::function<void()>([&] { result.emplace(f()); }));
  return std::move(*result);
}

// f() on rank 0, and when that is done on all others: for what the first leaves ready for the rest, such as a file in
// a folder that all see. Errors as run_together's.
void run_first(ProcessGroup& group, const std::function<void()>& f);

// The text that f() gives on the first process of each host, on all processes of that host: for what one of them should
// do for all, such as downloading. Errors as run_together's. `host` is the same text for the processes of
// one host.
std::string once_per_host(ProcessGroup& group, const std::function<std::string()>& f, const std::string& host);
// Of those that reach each other over the loopback.
std::string once_per_host(ProcessGroup& group, const std::function<std::string()>& f);

// What can be said of a thrown object that is no std::exception.
constexpr const char* unknown_exception = "something that is no std::exception was thrown";

// What run_together throws on the rank that failed: it did so before the others heard of it.
struct EarlierFailure : Error {
  using Error::Error;
  std::chrono::system_clock::time_point when = std::chrono::system_clock::now();
};

// What it throws on the others: the one that failed says so itself.
struct PeerFailure : PeerError {
  using PeerError::PeerError;
};

}  // namespace tandem::distributed
