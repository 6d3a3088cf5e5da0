// TcpStore: a Store that one process serves and all reach over TCP, in the protocol of PyTorch's TCPStore
// (2.2 and later) byte for byte: clients of either kind work with servers of either kind.
#pragma once

#include <tandem/distributed/store.h>

#include <memory>
#include <string>

namespace tandem::distributed {

// Serves the table from a thread of its own until it is destroyed. A client that breaks the protocol or asks
// for more than the protocol's limits loses its connection; nothing a client sends does more than that.
class TcpStoreServer {
 public:
  struct Options {
    std::string host =
        "127.0.0.1";  // the address to listen on; empty: every interface, for a job of several hosts
    int port = 0;     // 0: a free one
    // When not empty, a client must prove that it knows it (TcpStore does) before any other query is
    // answered.
    std::string token;
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
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override;
  bool delete_key(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, Timeout timeout) override;

 private:
  class Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace tandem::distributed
