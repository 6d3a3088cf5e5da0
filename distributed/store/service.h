// StoreService: answers the queries to a store's server. It holds the table of keys, and knows which client waits for
// which key.
#pragma once

#include <tandem/distributed/store/table.h>
#include <tandem/distributed/store/tcp_store_protocol.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::distributed {

// The service has no sockets, and identifies clients by number. Its owner passes it the bytes of queries, and sends its
// replies. Only one thread may use a service.
class StoreService {
 public:
  using ClientId = std::uint64_t;
  using Reply = std::function<void(ClientId, const protocol::Message&)>;

  // `reply` must not throw, because the service also calls it for clients other than the one whose query it answers.
  explicit StoreService(Reply reply) : reply_(std::move(reply)) {}

  // Answers the query at the beginning of `reader`. Throws Incomplete if the end of the query is missing, and an Error
  // if the query violates the protocol or a limit. After Incomplete, nothing has changed.
  void answer(ClientId client, protocol::Reader& reader);
  bool is_waiting(ClientId client) const { return waits_.count(client) > 0; }
  // Ends the client's wait without a reply.
  void stop_waiting(ClientId client);
  // The owner must call it when the client is gone. Sets the keys of the client's will.
  void forget(ClientId client) noexcept;

 private:
  struct Wait {
    std::set<std::string> keys;  // those that are still missing
    std::size_t bytes = 0;       // this wait's part of wait_bytes_
  };

  void put(const std::string& key, std::string value);
  // Ends the waits that missed only this key, but at most `most` of them. A new item of a queue ends the wait of one
  // client only. The other clients continue to wait.
  void key_arrived(const std::string& key, std::size_t most = SIZE_MAX);
  void start_wait(ClientId client, std::vector<std::string_view> keys);
  void enter_barrier(ClientId client, const std::string& key, std::int64_t world_size);
  // Returns false if the key exceeds a limit.
  bool add_to_will(ClientId client, const std::string& key);
  // Called when a client sets a key itself. It then needs no will for the key.
  void take_from_will(ClientId client, const std::string& key);

  Reply reply_;
  StoreTable table_;
  std::map<ClientId, Wait> waits_;
  std::map<std::string, std::set<ClientId>> waiting_;  // which clients wait for a key
  std::map<ClientId, std::set<std::string>> wills_;
  std::size_t wait_bytes_ = 0;  // an estimate of the memory that waits_, waiting_ and wills_ use
};

}  // namespace tandem::distributed
