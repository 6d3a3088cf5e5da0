#include <tandem/core/base/check.h>
#include <tandem/core/base/deadline.h>
#include <tandem/distributed/job/job_store.h>
#include <tandem/distributed/job/store_token.h>
#include <tandem/distributed/store/tcp_store.h>
#include <tandem/distributed/system/socket.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

namespace tandem::distributed {
namespace {

// The rank that serves the store leaves last, because another rank may still be reading its last keys. Its destructor
// waits for the other clients. A rank that continues without the group never leaves, so the wait is limited. Even on an
// overloaded host, a rank leaves within 5 s, and a user can wait that long for the end of a program.
struct ServedStore {
  TcpStoreServer server;
  TcpStore client;
  ServedStore(const TcpStoreServer::Options& serving, const TcpStore::Options& connecting)
      : server(serving), client(connecting) {}
  ~ServedStore() {
    const auto deadline = RunningTime::now() + std::chrono::seconds(5);
    while (server.clients() > 1 && RunningTime::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

// Returns the token of a store that rank 0 serves.
std::string own_token(const Environment& environment) {
  if (environment.open_store) return "";
  if (!environment.store_token.empty()) return environment.store_token;
  if (!is_one_host(environment)) fail_without_token();
  return host_token(environment.run_id + " at port " + std::to_string(environment.master_port));
}

std::shared_ptr<TcpStore> join_store(const Environment& environment, const TcpStore::Options& client) try {
  return std::make_shared<TcpStore>(client);
} catch (const CannotConnect& error) {
  const bool is_own = !environment.uses_agent_store;
  detail::fail(error.what(), ". At this address, ", is_own ? "rank 0" : "the launcher",
               " serves the store in which the ranks meet: check whether ",
               is_own ? "rank 0 has started" : "it is still running",
               ", whether the address is right (MASTER_ADDR, MASTER_PORT", is_own ? ", --init-method" : "",
               "), and whether a firewall lets this port through");
}

// Serves the store at the address at which the other ranks expect it. In a job on one host, the server listens on that
// address only, otherwise on all addresses of this host.
std::shared_ptr<Store> serve_store(const Environment& environment, const TcpStore::Options& client) {
  const auto& host = environment.master_addr;
  const TcpStoreServer::Options server{is_one_host(environment) ? host : "", environment.master_port, client.token};
  const auto served = std::make_shared<ServedStore>(server, client);
  return {served, &served->client};
}

std::shared_ptr<Store> open_tcp_store(const Environment& environment, Store::Timeout timeout) {
  TANDEM_CHECK(!environment.master_addr.empty() && environment.master_port > 0,
               "this process has no MASTER_ADDR and MASTER_PORT, so it can't connect to a store: start it with "
               "tandemrun or torchrun");
  const bool is_own = !environment.uses_agent_store;
  const TcpStore::Options client{environment.master_addr, environment.master_port, timeout,
                                 is_own ? own_token(environment) : environment.store_token,
                                 is_own || environment.store_proves};
  if (environment.rank > 0) return join_store(environment, client);
  if (is_own) return serve_store(environment, client);
  // A program may have set a different address for its own processes and kept the launcher's other variables. A
  // launcher's store is running before the launcher starts a process. If no store answers at this address, this rank
  // must therefore serve it. The timeout of 1 s is long for a running store, and short for a waiting user.
  auto hasty = client;
  hasty.timeout = std::min<Store::Timeout>(timeout, std::chrono::seconds(1));
  try {
    const TcpStore probe(hasty);
  } catch (const Error&) {
    try {
      return serve_store(environment, client);
    } catch (const Error&) {  // the address belongs to another host, or a slow store is already using it
    }
  }
  auto store = join_store(environment, client);
  if (!client.token.empty() && !store->is_proved())
    std::cerr << "note: the launcher's store at " << client.host << ':' << client.port
              << " does not support the token: any process that reaches it may join the job" << std::endl;
  return store;
}

std::shared_ptr<Store> open_store_at_path(const Environment& environment, Store::Timeout timeout) {
  const auto stores = stores_at_paths.entries();
  TANDEM_CHECK(!stores.empty(), "this build does not support a store in a file, such as ", environment.store_path,
               ": let the ranks meet at the address of rank 0, --init-method tcp://HOST:PORT");
  return stores.front()(environment.store_path, environment.run_id, timeout, environment.rank == 0);
}

}  // namespace

std::shared_ptr<Store> open_job_store(const Environment& environment, Store::Timeout timeout) {
  return environment.store_path.empty() ? open_tcp_store(environment, timeout)
                                        : open_store_at_path(environment, timeout);
}

}  // namespace tandem::distributed
