// What a store does with the queries of its clients: the table of keys, and who waits for which of them.
#pragma once

#include <tandem/distributed/store/table.h>
#include <tandem/distributed/store/tcp_store_protocol.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace tandem::distributed {

// The service knows clients by number and has no sockets: its owner brings the queries' bytes and takes the replies
// away. Only one thread may use it.
class StoreService {
 public:
  using ClientId = std::uint64_t;
  using Reply = std::function<void(ClientId, const protocol::Message&)>;

  // `reply` must not throw: it is also called for clients other than the one whose query is answered.
  explicit StoreService(Reply reply) : reply_(std::move(reply)) {}

  // Answers the query at the reader's front. Incomplete when part of it is still missing, Error when it breaks the
  // protocol or a limit; both leave everything as it was.
  void answer(ClientId client, protocol::Reader& reader);
  // The client no longer waits.
  void stop_waiting(ClientId client);
  // The client is gone: sets the keys that the client had asked to be set at its end (its wills).
  void forget(ClientId client) noexcept;

 private:
  // What a client waits for: keys, or the others at a barrier.
  struct Wait {
    std::set<std::string> keys;
    std::string barrier;
    bool is_at_barrier = false;
    std::size_t bytes = 0;
  };

  void put(const std::string& key, std::string value);
  void key_arrived(const std::string& key);
  void item_arrived(const std::string& queue);
  void start_wait(ClientId client, std::vector<std::string> keys);
  void enter_barrier(ClientId client, const std::string& key, std::int64_t world_size);
  void released(ClientId client);
  void add_to_will(ClientId client, const std::string& key);

  Reply reply_;
  StoreTable table_;
  std::map<ClientId, Wait> waits_;
  std::unordered_map<std::string, std::set<ClientId>> waiting_;   // clients, by the key that they wait for
  std::unordered_map<std::string, std::set<ClientId>> barriers_;  // clients that have arrived, by barrier
  std::map<ClientId, std::vector<std::string>> wills_;
  std::size_t wait_bytes_ = 0;  // memory of waits and wills
};

}  // namespace tandem::distributed
