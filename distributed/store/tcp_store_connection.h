// TcpStoreConnection: a client's connection to a TCPStore server. TcpStore and PyTorchTcpStore (an annex) are built on
// it.
#pragma once

#include <tandem/core/base/check.h>
#include <tandem/core/base/deadline.h>
#include <tandem/distributed/store/tcp_store.h>
#include <tandem/distributed/store/tcp_store_protocol.h>
#include <tandem/distributed/system/socket.h>

#include <mutex>
#include <string>
#include <vector>

namespace tandem::distributed {

// Returns the key in the form in which it is sent. Throws an Error if it is too long. check_value() throws an Error if
// a value is too long, and check_count() if a query has too many keys.
std::string user_key(const std::string& key);
void check_value(const std::string& key, const std::string& value);
void check_count(std::size_t keys);
protocol::Message keys_query(protocol::Query query, const std::vector<std::string>& keys);

class TcpStoreConnection {
 public:
  explicit TcpStoreConnection(const TcpStore::Options& options)
      : options_(options), name_("store at " + endpoint_name(options.host, options.port)) {
    join();
  }

  Store::Timeout timeout() const { return options_.timeout; }
  std::string local_address() {
    const std::lock_guard lock(mutex_);
    return socket_.is_open() ? distributed::local_address(socket_) : "";
  }

  // Sends a query and returns read(deadline), which reads the reply. mutex_ is locked during the exchange.
  template <class Read>
  auto exchange(const protocol::Message& message, const char* what, Read&& read) {
    const std::lock_guard lock(mutex_);
    TANDEM_CHECK(socket_.is_open(), name_, ": ", what, ": the connection was lost earlier: ", lost_);
    try {
      const auto deadline = RunningTime::now() + options_.timeout;
      send_all(socket_, message.bytes(), deadline);
      return read(deadline);
    } catch (const Error& error) {
      lost_ = farewell();
      if (lost_.empty()) lost_ = std::string(error.what()) + " (the process that serves the store may have ended)";
      // Part of a reply may still arrive, and a later call would mistake it for its own reply.
      socket_.close();
      detail::fail(name_, ": ", what, ": ", lost_);
    }
  }

  template <class T>
  T receive(Deadline deadline) {
    T value;
    receive_all(socket_, &value, sizeof value, deadline);
    TANDEM_CHECK(value != static_cast<T>(protocol::farewell), "the server has ended the connection");
    return value;
  }

  std::string receive_text(Deadline deadline, std::size_t most = protocol::max_value_bytes) {
    const auto size = receive<std::uint64_t>(deadline);
    TANDEM_CHECK(size <= most, "the server announced a text of ", size, " bytes, but at most ", most, " are allowed");
    std::string text(size, '\0');
    receive_all(socket_, text.data(), text.size(), deadline);
    return text;
  }

  bool is_proved() const { return is_proved_; }
  void wait(const std::vector<std::string>& keys, Store::Timeout timeout);
  // Sends a query that the server answers when another client acts. Returns false if the server has not answered by
  // `end`. It then cancels the query, and the server has until `patience`, but at least 10 s, to confirm that.
  bool await(const protocol::Message& message, const char* what, Deadline end, Deadline patience);

 private:
  void join();
  void shake_hands(Deadline deadline);
  // Returns the server's reason for ending the connection, or an empty string if the server sent no reason.
  std::string farewell();

  const TcpStore::Options options_;
  const std::string name_;
  std::mutex mutex_;
  FileDescriptor socket_;  // guarded by mutex_, except in the constructor
  std::string lost_;       // why socket_ is closed; guarded by mutex_
  bool is_proved_ = false;
};

}  // namespace tandem::distributed
