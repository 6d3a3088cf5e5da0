#include <tandem/distributed/groups/host/host_group.h>
#include <tandem/distributed/store/tcp_store.h>

#include <support/ranks.h>
#ifndef TANDEM_WITHOUT_ANNEXES
#include <tandem/distributed/job/observers.h>
#endif

#include <cstdlib>
#include <thread>

namespace tandem::testing {

distributed::Observers usual_observers() {
#ifdef TANDEM_WITHOUT_ANNEXES
  return {};
#else
  return distributed::usual_observers();
#endif
}

int mpi_size() {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  return size ? std::atoi(size) : 0;
}

std::exception_ptr run_mpi_rank(const std::function<void(Group)>& body, std::chrono::milliseconds timeout) {
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

std::vector<std::exception_ptr> run_ranks_catching(int size, const std::function<void(Group)>& body,
                                                   std::chrono::milliseconds timeout, const std::string& backend,
                                                   const distributed::Observers& observers) {
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

void run_ranks(int size, const std::function<void(Group)>& body, std::chrono::milliseconds timeout,
               const std::string& backend) {
  for (const auto& result : run_ranks_catching(size, body, timeout, backend)) {
    if (result) std::rethrow_exception(result);
  }
}

bool is_peer_error(const std::exception_ptr& exception) {
  try {
    if (exception) std::rethrow_exception(exception);
  } catch (const distributed::PeerError&) {
    return true;
  } catch (const std::exception&) {
  }
  return false;
}

std::string message_of(const std::exception_ptr& exception) {
  if (!exception) return "";
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace tandem::testing
