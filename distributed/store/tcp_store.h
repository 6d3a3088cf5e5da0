// TcpStore: a Store that one process serves and all reach over TCP, in the protocol of PyTorch's TCPStore
// (2.2 and later) byte for byte: clients of either kind work with servers of either kind.
#pragma once

#include <tandem/distributed/store/store.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tandem::distributed {

// Serves the table from a thread of its own until it is destroyed. A client that breaks the protocol or asks
// for more than the protocol's limits loses its connection; nothing a client sends does more than that. Memory and open
// files are bounded: clients that do not greet go first, then the one with the largest unfinished query or unread
// replies.
class TcpStoreServer {
 public:
  struct Options {
    // The address to listen on; empty: every interface, for a job of several hosts.
    std::string host = "127.0.0.1";
    int port = 0;  // 0: a free one
    // When not empty, a client must prove that it knows it (TcpStore does) before any other query is
    // answered.
    std::string token;
    std::chrono::milliseconds greeting_time = std::chrono::seconds(10);  // within which it must have done so
  };

  explicit TcpStoreServer(const Options& options);
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  int port() const;
  // Clients turned away so far because they did not prove the token. Any thread may ask.
  int refused_clients() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

// One connection to a server. Keys go over the wire as "/" + key, as PyTorch's do.
class TcpStore final : public Store {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    int port = 0;
    Timeout timeout = default_timeout;  // for connecting, and for every later call
    std::string token = "";
  };

  // Connects, trying again while the server is not there yet. Error when the timeout is over, naming host and
  // port.
  explicit TcpStore(const Options& options);
  ~TcpStore() override;

  using Store::wait;
  Timeout timeout() const override;
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  void append(const std::string& key, const std::string& value) override;
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override;
  bool delete_key(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, Timeout timeout) override;
  void set_when_gone(const std::string& key) override;
  std::string local_address() const override;

  // Many keys in one exchange. multi_get gives an empty value for a key that is missing; it does not wait.
  std::vector<std::string> multi_get(const std::vector<std::string>& keys);
  void multi_set(const std::vector<std::pair<std::string, std::string>>& entries);
  std::int64_t key_count();         // the protocol's own and other users' keys too
  std::vector<std::string> keys();  // without the "/"; PyTorch from 2026 on serves this and the barrier

  // Queues (PyTorch from 2.8 on), apart from the values: an item goes to one of those that pop or wait for the key.
  void queue_push(const std::string& queue, const std::string& item);
  std::string queue_pop(const std::string& queue);  // waits for an item
  std::int64_t queue_length(const std::string& queue);

  // Returns when `world_size` clients have called it with this key; each barrier needs a key of its own.
  void barrier(const std::string& key, int world_size);

 private:
  class Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace tandem::distributed
