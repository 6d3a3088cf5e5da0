// TcpStore: a Store that one process serves and all processes reach over TCP. Client and server use exactly the
// protocol of PyTorch's TCPStore (2.2 and later), so clients of either kind work with servers of either kind.
#pragma once

#include <tandem/distributed/store/store.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tandem::distributed {

// Serves the table on its own thread until it is destroyed. A client that violates the protocol or its limits loses its
// connection. Nothing that a client sends can do more harm. Memory and open files are bounded. When they run short, the
// server first drops clients that have not greeted. Then it drops the client with the largest unfinished query and
// unread replies.
class TcpStoreServer {
 public:
  struct Options {
    // The address to listen on; empty: every interface, for a job of several hosts.
    std::string host = "127.0.0.1";
    int port = 0;  // 0: any free port
    // If the token is not empty, a client must prove that it knows the token before the server answers any other query,
    // and the server proves it to the client. TcpStore does so.
    std::string token;
    // The time within which a client must greet and prove the token. Ranks greet within milliseconds, and even a client
    // on an overloaded host has enough time.
    std::chrono::milliseconds greeting_time = std::chrono::seconds(10);
    // Without a token, any process may keep a connection open. If a new client needs a connection and the limit is
    // reached, the server drops the client that has been silent longest, if that is at least this time and the client
    // is not waiting for a key. Ranks and launchers of this project send a query every few seconds.
    std::chrono::milliseconds idle_time = std::chrono::minutes(1);
  };

  explicit TcpStoreServer(const Options& options);
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  int port() const;
  // Returns how many clients the server has rejected because they did not prove the token. Any thread may call it.
  int refused_clients() const;
  // Returns how many connected clients have greeted. Any thread may call it.
  int clients() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

class TcpStoreConnection;

// One connection to a server. Keys are sent as "/" + key, as in PyTorch.
class TcpStore : public Store {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    int port = 0;
    Timeout timeout = default_timeout;  // for connecting, and for every later call
    std::string token = "";
    // Whether the constructor rejects a server that does not prove the token. PyTorch's stores don't support tokens.
    bool needs_proof = true;
  };

  // Connects, and retries while the server is not there yet. Throws an Error that names host and port after the
  // timeout.
  explicit TcpStore(const Options& options);
  ~TcpStore() override;

  // Returns whether the server has proved that it knows the token.
  bool is_proved() const;

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

 protected:
  TcpStoreConnection& connection() { return *connection_; }

 private:
  std::unique_ptr<TcpStoreConnection> connection_;
};

}  // namespace tandem::distributed
