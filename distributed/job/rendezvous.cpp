#include <tandem/core/base/check.h>
#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/job/rendezvous.h>
#include <tandem/distributed/job/store_token.h>
#include <tandem/distributed/store/tcp_store.h>
#include <tandem/distributed/system/host_identity.h>
#include <tandem/distributed/system/random_text.h>
#include <tandem/distributed/system/socket.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;

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
    while (server.clients() > 1 && RunningTime::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
  }
};

// The token of a store that rank 0 serves.
std::string own_token(const Environment& environment) {
  if (environment.open_store) return "";
  if (!environment.store_token.empty()) return environment.store_token;
  if (!is_one_host(environment)) fail_without_token();
  return host_token(environment.run_id + " at port " + std::to_string(environment.master_port));
}

// Where the ranks meet, for people.
std::string meeting_place(const Environment& environment) {
  return environment.store_path.empty() ? endpoint_name(environment.master_addr, environment.master_port)
                                        : environment.store_path;
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

// One attempt of a job's ranks to meet. Its keys begin with the run's name:
//   generations                    the number of attempts so far
//   guests                         the guest book: "WORD:RANK:WORLD_SIZE " of each process but rank 0, in any attempt
//   answer/WORD                    the attempt's number, or "!" and the reason why the process can't take part
//   attempt/NUMBER/claims/RANK     the number of processes that say that they are this rank
//   attempt/NUMBER/host/RANK       the loopback identity of the rank's host; set when the rank has come
//   attempt/NUMBER/hosts           the same for all ranks, one a line; set when all have come
class Meeting {
 public:
  Meeting(const Environment& environment, std::shared_ptr<Store> store, Store::Timeout timeout)
      : rank_(environment.rank),
        size_(environment.world_size),
        place_(meeting_place(environment)),
        store_(std::move(store)),
        timeout_(timeout),
        deadline_(RunningTime::now() + timeout) {}

  // Returns a store of which only this attempt uses the keys. `hosts` gets every rank's loopback identity, by rank.
  std::shared_ptr<Store> meet(std::vector<std::string>& hosts) {
    const auto number = rank_ == 0 ? std::to_string(store_->add("generations", 1)) : ask_for_number();
    attempt_ = prefix_store("attempt/" + number, store_);
    TANDEM_CHECK(attempt_->add(claim(rank_), 1) == 1, "two processes say that they are rank ", rank_,
                 " of this job (RANK): each needs its own");
    attempt_->set(host(rank_), loopback_identity());
    if (rank_ == 0) receive_guests(number);
    std::istringstream lines(wait_for_all());
    for (std::string line; std::getline(lines, line);) hosts.push_back(line);
    return prefix_store("keys", attempt_);
  }

 private:
  static std::string claim(int rank) { return "claims/" + std::to_string(rank); }
  static std::string host(int rank) { return "host/" + std::to_string(rank); }

  std::string ask_for_number() {
    const auto word = random_text(4);
    store_->append(guests, word + ":" + std::to_string(rank_) + ":" + std::to_string(size_) + " ");
    std::string number;
    try {
      number = store_->get("answer/" + word);
    } catch (const Error& error) {
      TANDEM_CHECK(!have_met(), "rank ", rank_, ": all ", size_, " processes of this job have already met at ", place_,
                   ". Either another process has the same RANK as this one, or the job restarts and its new rank 0"
                   " has not come");
      detail::fail("rank ", rank_, ": rank 0 has not arrived at ", place_,
                   ": check whether it was started, with the same ", advice, " (", error.what(), ")");
    }
    store_->delete_key("answer/" + word);
    TANDEM_CHECK(!number.starts_with("!"), "rank ", rank_, ": ", number.substr(1));
    return number;
  }

  bool have_met() const {
    try {
      const auto last = store_->add("generations", 0);
      return last > 0 && store_->check({"attempt/" + std::to_string(last) + "/hosts"});
    } catch (const Error&) {  // the store is gone
      return false;
    }
  }

  // Rank 0 answers every process that writes to the guest book, until all ranks have arrived. It looks again after a
  // pause of 1 to 20 ms (chosen: short for a person, and long for a store that many jobs use).
  void receive_guests(const std::string& number) {
    std::vector<int> missing;
    for (int rank = 1; rank < size_; ++rank) missing.push_back(rank);
    std::set<std::string> answered;
    for (auto pause = milliseconds(1); !missing.empty(); pause = std::min(pause * 2, milliseconds(20))) {
      // Ranks that have come, and ranks that the job does not have, are answered as well: several processes may say
      // that they are the same rank, or know another size of the job.
      std::istringstream book(store_->check({guests}) ? store_->get(guests) : "");
      for (std::string entry; book >> entry;) {
        if (!answered.insert(entry).second) continue;
        answer(entry, number);
        pause = milliseconds(1);
      }
      std::erase_if(missing, [&](int rank) { return RunningTime::now() < deadline_ && attempt_->check({host(rank)}); });
      if (missing.empty()) break;
      check_time(missing);
      std::this_thread::sleep_for(pause);
    }
    store_->delete_key(guests);
    std::string hosts;
    for (int rank = 0; rank < size_; ++rank) hosts += attempt_->get(host(rank)) + "\n";
    attempt_->set("hosts", hosts);
  }

  void answer(const std::string& entry, const std::string& number) {
    const auto rank = entry.find(':'), size = entry.rfind(':');
    std::string text = number;
    if (entry.substr(size + 1) != std::to_string(size_)) {
      const auto told = " was told that the job has " + entry.substr(size + 1) + " processes (WORLD_SIZE)";
      refused_ = ". A rank " + entry.substr(rank + 1, size - rank - 1) + " came that" + told;
      text = "!it" + told + ", and rank 0 that it has " + std::to_string(size_);
    }
    store_->set("answer/" + entry.substr(0, rank), text);
  }

  std::string wait_for_all() {
    try {
      return attempt_->get("hosts");
    } catch (const Error&) {
      std::vector<int> missing;
      const auto end = RunningTime::now() + std::chrono::seconds(1);
      for (int rank = 0; rank < size_ && RunningTime::now() < end; ++rank) {
        if (!attempt_->check({host(rank)})) missing.push_back(rank);
      }
      if (!missing.empty()) check_time(missing);
      throw;
    }
  }

  void check_time(const std::vector<int>& missing) const {
    TANDEM_CHECK(RunningTime::now() < deadline_, rank_list(missing), " of ", size_, " ",
                 missing.size() == 1 ? "has" : "have", " not arrived within ",
                 std::chrono::duration<double>(timeout_).count(), " s at ", place_, ": check whether ",
                 missing.size() == 1 ? "it was" : "they were", " started, with the same ", advice, refused_);
  }

  static constexpr const char* guests = "guests";
  static constexpr const char* advice =
      "WORLD_SIZE, run id (TORCHELASTIC_RUN_ID) and address (MASTER_ADDR and MASTER_PORT, or --init-method)";

  const int rank_;
  const int size_;
  const std::string place_;
  const std::shared_ptr<Store> store_;
  const Store::Timeout timeout_;
  const Deadline deadline_;
  std::shared_ptr<Store> attempt_;
  std::string refused_;  // the last process that was told another size of the job, as a sentence; empty: none
};

// Fills in which ranks share this process's host. Local ranks follow the order of ranks. Hosts follow the order of
// their lowest ranks.
void find_neighbours(Environment& environment, const std::vector<std::string>& hosts) {
  std::vector<std::string> nodes;
  const auto& mine = hosts.at(static_cast<std::size_t>(environment.rank));
  const auto here = hosts.begin() + environment.rank;
  for (const auto& host : hosts) {
    if (std::find(nodes.begin(), nodes.end(), host) == nodes.end()) nodes.push_back(host);
  }
  environment.local_rank = static_cast<int>(std::count(hosts.begin(), here, mine));
  environment.local_world_size = static_cast<int>(std::count(hosts.begin(), hosts.end(), mine));
  environment.node_rank = static_cast<int>(std::find(nodes.begin(), nodes.end(), mine) - nodes.begin());
  environment.node_count = static_cast<int>(nodes.size());
  environment.knows_host = true;
}

}  // namespace

std::shared_ptr<Store> connect_store(Environment& environment, Store::Timeout timeout) {
  auto store =
      environment.store_path.empty() ? open_tcp_store(environment, timeout) : open_store_at_path(environment, timeout);
  store = prefix_store("tandem/" + environment.run_id, std::move(store));
  std::vector<std::string> hosts;
  store = Meeting(environment, std::move(store), timeout).meet(hosts);
  if (!environment.knows_host) find_neighbours(environment, hosts);
  return store;
}

}  // namespace tandem::distributed
