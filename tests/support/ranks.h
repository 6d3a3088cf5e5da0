// Runs ranks as threads of one process, which communicate over real sockets on loopback. The mpi backend needs
// processes, so mpi_test.cpp starts this program with mpirun and serves the store.
#pragma once

#include <tandem/distributed/groups/host/host_group.h>
#include <tandem/distributed/groups/local_group.h>
#include <tandem/distributed/store/tcp_store.h>
#ifndef TANDEM_WITHOUT_ANNEXES
#include <tandem/distributed/job/observers.h>
#endif

#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tandem::testing {

using Group = std::shared_ptr<distributed::ProcessGroup>;

// Without annexes there are no observers.
inline distributed::Observers usual_observers() {
#ifdef TANDEM_WITHOUT_ANNEXES
  return {};
#else
  return distributed::usual_observers();
#endif
}

// The number of processes that mpirun started, or 0 without mpirun.
inline int mpi_size() {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  return size ? std::atoi(size) : 0;
}

inline std::exception_ptr run_mpi_rank(const std::function<void(Group)>& body, std::chrono::milliseconds timeout) {
  static int groups = 0;
  const distributed::TcpStore::Options options{.port = std::atoi(std::getenv("TANDEM_TEST_STORE_PORT")),
                                               .timeout = timeout};
  const auto store = std::make_shared<distributed::TcpStore>(options);
  try {
    body(distributed::host_group(distributed::prefix_store(std::to_string(++groups), store),
                                 {.rank = std::atoi(std::getenv("OMPI_COMM_WORLD_RANK")),
                                  .size = mpi_size(),
                                  .timeout = timeout,
                                  .backend = distributed::GroupBackend::mpi,
                                  .observers = usual_observers()}));
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

// Runs body(group) on `size` ranks. Returns for each rank the exception that it threw, or null. With the mpi backend,
// this process is one rank, and the list holds only its exception.
inline std::vector<std::exception_ptr> run_ranks_catching(int size, const std::function<void(Group)>& body,
                                                          std::chrono::milliseconds timeout = std::chrono::seconds(60),
                                                          const std::string& backend = "auto",
                                                          const distributed::Observers& observers = usual_observers()) {
  if (backend == "mpi") return {run_mpi_rank(body, timeout)};
  distributed::TcpStoreServer server({});
  std::vector<std::exception_ptr> results(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const distributed::TcpStore::Options options{.port = server.port(), .timeout = timeout};
        body(distributed::host_group(std::make_shared<distributed::TcpStore>(options),
                                     {.rank = rank,
                                      .size = size,
                                      .timeout = timeout,
                                      .backend = value_named<distributed::GroupBackend>(backend),
                                      .observers = observers}));
      } catch (...) {
        results[rank] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return results;
}

// Runs body(group) on `size` ranks. No wait in it takes longer than `timeout`. Throws the exception of the lowest rank
// that failed.
inline void run_ranks(int size, const std::function<void(Group)>& body,
                      std::chrono::milliseconds timeout = std::chrono::seconds(60),
                      const std::string& backend = "auto") {
  for (const auto& result : run_ranks_catching(size, body, timeout, backend)) {
    if (result) std::rethrow_exception(result);
  }
}

// Whether the exception blames another rank.
inline bool is_peer_error(const std::exception_ptr& exception) {
  try {
    if (exception) std::rethrow_exception(exception);
  } catch (const distributed::PeerError&) {
    return true;
  } catch (const std::exception&) {
  }
  return false;
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
