// Lets some ranks do work, such as reading, downloading or writing, while the others wait.
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

// The work that a rank does while the others wait for it.
struct OwnWork {
  std::string what = "its own work";  // the name of the work in errors, such as "reading the data"
  // The longest time that another rank waits, counted from when it is ready itself.
  std::chrono::milliseconds longest = std::chrono::hours(1);
};

// For downloads of large files over slow connections.
inline const OwnWork download_work{"a download", std::chrono::hours(24)};

// All functions here are collective. f() may take longer than the group's timeout. The other ranks wait while a rank
// gives signs of life, but no longer than OwnWork::longest. (The watchdog, an annex, gives the signs.) If the last sign
// is older than the group's timeout, or if the work takes too long, they throw a PeerError that names the rank, its
// host and its process.

// Calls f() on every rank. If f() throws on some ranks, run_together throws on all ranks, with the reason of the lowest
// rank where f() threw. For example, a rank that can't read its data ends the job at once.
void run_together(ProcessGroup& group, const std::function<void()>& f, const OwnWork& work = {});
template <class F>
requires(!std::is_void_v<std::invoke_result_t<F>>) auto run_together(ProcessGroup& group, F f,
                                                                     const OwnWork& work = {}) {
  std::optional<std::invoke_result_t<F>> result;
  run_together(group, std::function<void()>([&] { result.emplace(f()); }), work);
  return std::move(*result);
}

// Calls f() on rank 0 first, and then on all other ranks. Rank 0 can prepare something for the others, such as a file
// in a shared folder. Throws as run_together does.
void run_first(ProcessGroup& group, const std::function<void()>& f, const OwnWork& work = {});

// Calls f() on the lowest rank of each host, and returns its text on all ranks of that host. This lets one process act
// for its host, for example to download a file. Throws as run_together does. `host` names the host of the calling rank.
std::string once_per_host(ProcessGroup& group, const std::function<std::string()>& f, const std::string& host,
                          const OwnWork& work = {});
// In this overload, ranks share a host if they can reach each other over the loopback interface.
std::string once_per_host(ProcessGroup& group, const std::function<std::string()>& f, const OwnWork& work = {});

// The message for a thrown object that is not a std::exception.
constexpr const char* unknown_exception = "an object that is not a std::exception was thrown";

// run_together throws this on the lowest rank where f() threw. `when` is the time of that failure, which is earlier
// than the failures of the other ranks.
struct EarlierFailure : Error {
  using Error::Error;
  std::chrono::system_clock::time_point when = std::chrono::system_clock::now();
};

// run_together throws this on the other ranks. They need not print it, because the failed rank prints its reason.
struct PeerFailure : PeerError {
  using PeerError::PeerError;
};

}  // namespace tandem::distributed
