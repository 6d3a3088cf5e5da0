// One client of a store's server: its socket, the queries it has sent so far and the replies it has not taken yet.
#pragma once

#include <tandem/distributed/store/tcp_store_protocol.h>
#include <tandem/distributed/system/socket.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tandem::distributed {

// A client greets with the protocol's magic number, and then with the token if the server asks for one. Before the
// greeting a client gets neither memory nor time; afterwards it gets as much as a query may need. Only one thread may
// use a session.
class StoreSession {
 public:
  static constexpr std::size_t max_token_bytes = 256;

  // `token` and `memory` must outlive the session; the session keeps its own bytes counted in `memory`.
  StoreSession(FileDescriptor socket, const std::string& token, std::size_t& memory, Deadline greeting_deadline);
  ~StoreSession();
  StoreSession(const StoreSession&) = delete;
  StoreSession& operator=(const StoreSession&) = delete;

  int fd() const { return socket_.get(); }
  bool has_greeted() const { return is_valid_ && is_trusted_; }
  bool was_refused() const { return was_refused_; }  // it did not prove the token
  Deadline greeting_deadline() const { return greeting_deadline_; }
  bool has_replies() const { return !replies_.empty(); }
  std::size_t memory() const { return counted_; }

  // Takes what has arrived, at most one chunk, and calls `answer` at the front of each complete query. Error when the
  // client is gone, broke the protocol or a limit; then the session is over.
  void receive(std::vector<char>& chunk, const std::function<void(protocol::Reader&)>& answer);
  // Never throws and never blocks; a client that leaves too much unread is over at its next turn.
  void reply(const protocol::Message& message) noexcept;
  // Sends on what the socket did not take at once.
  void flush() noexcept;

 private:
  void greet(protocol::Reader& reader);
  void count() noexcept;

  FileDescriptor socket_;
  const std::string& token_;
  std::size_t& all_memory_;
  std::size_t counted_ = 0;
  const Deadline greeting_deadline_;
  bool is_valid_ = false;    // has sent the magic
  bool is_trusted_ = false;  // has proved the token, or none is asked for
  bool was_refused_ = false;
  bool is_over_ = false;
  std::string received_;  // bytes of queries that are not complete yet
  std::string replies_;   // the socket has not taken the bytes from `sent_` on
  std::size_t sent_ = 0;
};

}  // namespace tandem::distributed
