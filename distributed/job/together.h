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

// All functions here are collective. None of them bounds how long f() may take on a rank. The other ranks wait as long
// as that rank gives signs of life; when the last sign is older than the group's timeout, they throw a PeerError.

// Calls f() on every rank. If f() throws on some ranks, run_together throws on all, with the reason of the lowest of
// them. So a rank that can't read its data, for example, ends the job at once.
void run_together(ProcessGroup& group, const std::function<void()>& f);
template <class F>
requires(!std::is_void_v<std::invoke_result_t<F>>) auto run_together(ProcessGroup& group, F f) {
  std::optional<std::invoke_result_t<F>> result;
  run_together(group, std::function<void()>([&] { result.emplace(f()); }));
  return std::move(*result);
}

// Calls f() on rank 0 and then on all other ranks. Rank 0 may prepare something that the others find, such as a file in
// a folder that all of them see. Errors as in run_together.
void run_first(ProcessGroup& group, const std::function<void()>& f);

// Calls f() on the lowest rank of each host, and returns its text on all ranks of that host. So one process can act for
// its host: it downloads a file, for example. Errors as in run_together. `host` names the host of the calling rank.
std::string once_per_host(ProcessGroup& group, const std::function<std::string()>& f, const std::string& host);
// Here ranks share a host if they reach each other over the loopback.
std::string once_per_host(ProcessGroup& group, const std::function<std::string()>& f);

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
