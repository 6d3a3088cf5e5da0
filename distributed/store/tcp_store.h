// TcpStore: a Store that one process serves and all processes reach over TCP. Client and server speak the protocol of
// PyTorch's TCPStore (2.2 and later) byte for byte, so that clients of either kind work with servers of either kind.
#pragma once

#include <tandem/distributed/store/store.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tandem::distributed {

// Serves the table from a thread of its own until it is destroyed. A client that breaks the protocol or asks for more
// than the protocol's limits loses its connection; nothing that a client sends can do more harm. Memory and open files
// are bounded. When they run short, the server drops clients that have not greeted first, and then the client whose
// unfinished query and unread replies are the largest.
class TcpStoreServer {
 public:
  struct Options {
    // The address to listen on; empty: every interface, for a job of several hosts.
    std::string host = "127.0.0.1";
    int port = 0;  // 0: a free one
    // If not empty: a client must prove that it knows the token before the server answers any other query, and the
    // server proves it to the client. TcpStore does so.
    std::string token;
    // The time within which a client must have greeted and proved the token. Chosen: ranks greet within milliseconds,
    // and a client on an overloaded host still has time.
    std::chrono::milliseconds greeting_time = std::chrono::seconds(10);
    // Without a token anybody may hold a connection. If no place is left for a new client, the one that has been silent
    // longest, for at least this time, and waits for no key, loses its place. Chosen: ranks and launchers of this
    // project ask something every few seconds.
    std::chrono::milliseconds idle_time = std::chrono::minutes(1);
  };

  explicit TcpStoreServer(const Options& options);
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  int port() const;
  // How many clients were turned away so far because they did not prove the token. Any thread may call it.
  int refused_clients() const;
  // How many clients that have greeted are connected. Any thread may call it.
  int clients() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

class TcpStoreConnection;

// One connection to a server. Keys go over the wire as "/" + key, like PyTorch's.
class TcpStore : public Store {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    int port = 0;
    Timeout timeout = default_timeout;  // for connecting, and for every later call
    std::string token = "";
    // Whether only a server that proves to know the token will do. Stores of PyTorch know no tokens.
    bool needs_proof = true;
  };

  // Connects, and tries again while the server is not there yet. After the timeout it throws an Error that names host
  // and port.
  explicit TcpStore(const Options& options);
  ~TcpStore() override;

  // Whether the server has proved to know the token.
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
