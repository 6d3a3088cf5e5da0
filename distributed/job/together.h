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

// What a rank does while the others wait for it.
struct OwnWork {
  std::string what = "what it does on its own";  // "reading the data": for errors
  // The longest that the others wait, counted from when they are ready themselves.
  std::chrono::milliseconds longest = std::chrono::hours(1);
};

// Downloads of large files over slow lines.
inline const OwnWork download_work{"a download", std::chrono::hours(24)};

// All functions here are collective. f() may take longer than the group's timeout. The other ranks wait as long as a
// rank gives signs of life (a group's watchdog gives them, an annex) and no longer than OwnWork::longest. When the last
// sign is older than the group's timeout, or the work takes too long, they throw a PeerError that names the rank, its
// host and its process.

// Calls f() on every rank. If f() throws on some ranks, run_together throws on all, with the reason of the lowest of
// them. So a rank that can't read its data, for example, ends the job at once.
void run_together(ProcessGroup& group, const std::function<void()>& f, const OwnWork& work = {});
template <class F>
requires(!std::is_void_v<std::invoke_result_t<F>>) auto run_together(ProcessGroup& group, F f,
                                                                     const OwnWork& work = {}) {
  std::optional<std::invoke_result_t<F>> result;
  run_together(group, std::function<void()>([&] { result.emplace(f()); }), work);
  return std::move(*result);
}

// Calls f() on rank 0 and then on all other ranks. Rank 0 may prepare something that the others find, such as a file in
// a folder that all of them see. Errors as in run_together.
void run_first(ProcessGroup& group, const std::function<void()>& f, const OwnWork& work = {});

// Calls f() on the lowest rank of each host, and returns its text on all ranks of that host. So one process can act for
// its host: it downloads a file, for example. Errors as in run_together. `host` names the host of the calling rank.
std::string once_per_host(ProcessGroup& group, const std::function<std::string()>& f, const std::string& host,
                          const OwnWork& work = {});
// Here ranks share a host if they reach each other over the loopback.
std::string once_per_host(ProcessGroup& group, const std::function<std::string()>& f, const OwnWork& work = {});

// The message for a thrown object that is no std::exception.
constexpr const char* unknown_exception = "something that is no std::exception was thrown";

// run_together throws this on the lowest rank where f() threw. `when` is the time of that failure, which is earlier
// than the failures of the other ranks.
struct EarlierFailure : Error {
  using Error::Error;
  std::chrono::system_clock::time_point when = std::chrono::system_clock::now();
};

// run_together throws this on the other ranks. They need not print it, because the rank that failed prints its reason.
struct PeerFailure : PeerError {
  using PeerError::PeerError;
};

}  // namespace tandem::distributed
