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

// The rank that serves the store leaves last: another rank may still be reading what this one wrote at its end. A rank
// that goes on without the group is waited for in vain. Chosen: a rank on an overloaded host leaves within 5 s, and a
// user can wait that long for the end of a program.
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

// The token of a store that rank 0 serves.
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
  detail::fail(error.what(), ". There ", is_own ? "rank 0" : "the launcher",
               " serves the store, in which the ranks meet: see whether ",
               is_own ? "rank 0 has started" : "it still runs",
               ", whether this is its address (MASTER_ADDR, MASTER_PORT", is_own ? ", --init-method" : "",
               "), and whether a firewall lets this port through");
}

// Serves the store at the address where the other ranks look for it. In a job of one host only that address listens,
// otherwise all addresses of this host do.
std::shared_ptr<Store> serve_store(const Environment& environment, const TcpStore::Options& client) {
  const auto& host = environment.master_addr;
  const TcpStoreServer::Options server{is_one_host(environment) ? host : "", environment.master_port, client.token};
  const auto served = std::make_shared<ServedStore>(server, client);
  return {served, &served->client};
}

std::shared_ptr<Store> open_tcp_store(const Environment& environment, Store::Timeout timeout) {
  TANDEM_CHECK(!environment.master_addr.empty() && environment.master_port > 0,
               "this process has no MASTER_ADDR and MASTER_PORT, so there is no store to connect to: start it with "
               "tandemrun or torchrun");
  const bool is_own = !environment.uses_agent_store;
  const TcpStore::Options client{environment.master_addr, environment.master_port, timeout,
                                 is_own ? own_token(environment) : environment.store_token,
                                 is_own || environment.store_proves};
  if (environment.rank > 0) return join_store(environment, client);
  if (is_own) return serve_store(environment, client);
  // A program may have set another address for its own processes and kept the launcher's other variables. A launcher's
  // store runs before the launcher starts a process. So if no store answers here, this rank has to serve one. The
  // second was chosen: long for a store that runs, and short for a user who waits.
  auto hasty = client;
  hasty.timeout = std::min<Store::Timeout>(timeout, std::chrono::seconds(1));
  try {
    const TcpStore probe(hasty);
  } catch (const Error&) {
    try {
      return serve_store(environment, client);
    } catch (const Error&) {  // the address is another host's, or is taken by a store that is only slow
    }
  }
  auto store = join_store(environment, client);
  if (!client.token.empty() && !store->is_proved())
    std::cerr << "note: the launcher's store at " << client.host << ':' << client.port
              << " knows nothing of the token: any process that reaches it may join the job" << std::endl;
  return store;
}

std::shared_ptr<Store> open_store_at_path(const Environment& environment, Store::Timeout timeout) {
  const auto& stores = stores_at_paths().entries();
  TANDEM_CHECK(!stores.empty(), "this build has no store in a file, such as ", environment.store_path,
               ": let the ranks meet at the address of rank 0, --init-method tcp://HOST:PORT");
  return stores.front()(environment.store_path, environment.run_id, timeout, environment.rank == 0);
}

}  // namespace

std::shared_ptr<Store> open_job_store(const Environment& environment, Store::Timeout timeout) {
  return environment.store_path.empty() ? open_tcp_store(environment, timeout)
                                        : open_store_at_path(environment, timeout);
}

}  // namespace tandem::distributed
