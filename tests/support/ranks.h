// Ranks as threads: real sockets over loopback, one process.
#pragma once

#include <tandem/distributed/host_group.h>
#include <tandem/distributed/local_group.h>
#include <tandem/distributed/tcp_store.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tandem::testing {

using Group = std::shared_ptr<distributed::ProcessGroup>;

// What each rank ended with, by rank; null: nothing was thrown.
inline std::vector<std::exception_ptr> run_ranks_catching(
    int size, const std::function<void(Group)>& body,
    std::chrono::milliseconds timeout = std::chrono::seconds(60), const std::string& backend = "auto") {
  distributed::TcpStoreServer server({});
  std::vector<std::exception_ptr> results(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const distributed::TcpStore::Options options{.port = server.port(), .timeout = timeout};
        body(distributed::host_group(std::make_shared<distributed::TcpStore>(options),
                                     {.rank = rank, .size = size, .timeout = timeout, .backend = backend}));
      } catch (...) {
        results[rank] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return results;
}

// Runs body(group) on `size` ranks. Every wait in it is bounded by `timeout`. Throws what the lowest failing
// rank threw.
inline void run_ranks(int size, const std::function<void(Group)>& body,
                      std::chrono::milliseconds timeout = std::chrono::seconds(60),
                      const std::string& backend = "auto") {
  for (const auto& result : run_ranks_catching(size, body, timeout, backend)) {
    if (result) std::rethrow_exception(result);
  }
}

// The message of an exception_ptr; "" for null.
inline std::string message_of(const std::exception_ptr& exception) {
  if (!exception) return "";
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace tandem::testing
