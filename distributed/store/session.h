// StoreSession: one client of a store's server, with its socket, its incomplete queries, and the replies that it has
// not read yet.
#pragma once

#include <tandem/distributed/store/tcp_store_protocol.h>
#include <tandem/distributed/system/socket.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tandem::distributed {

// A client greets with the protocol's magic number, and then with a proof of the token if the server asks for it. Until
// the client has greeted, it may send only 1 KiB, and it must greet before greeting_deadline(). Afterwards, it may send
// as much as a query needs. Only the server's thread uses a session.
class StoreSession {
 public:
  static constexpr std::size_t max_token_bytes = 256;  // chosen: random tokens have 32 or 64 bytes

  // `token` and `memory` must outlive the session. `memory` is the sum over all sessions. The session adds its own
  // bytes, and subtracts them when it is destroyed. The owner must close the session if the client has not greeted by
  // the deadline.
  StoreSession(FileDescriptor socket, const std::string& token, std::size_t& memory, Deadline greeting_deadline);
  ~StoreSession();
  StoreSession(const StoreSession&) = delete;
  StoreSession& operator=(const StoreSession&) = delete;

  int fd() const { return socket_.get(); }
  bool has_greeted() const { return is_valid_ && is_trusted_; }
  // Returns whether the client has failed to prove that it knows the token.
  bool was_refused() const { return was_refused_ || (!client_nonce_.empty() && !is_trusted_); }
  Deadline greeting_deadline() const { return greeting_deadline_; }
  Deadline last_heard() const { return last_heard_; }
  // Returns whether the last turn ended before all queries were answered and all replies were sent. In that case, the
  // next turn is due when the socket is writable, otherwise when it is readable.
  bool is_behind() const { return has_queries_ || !replies_.empty(); }
  std::size_t memory() const { return counted_; }

  // Runs one turn of this client: sends replies, reads at most chunk.size() bytes from the socket, and calls `answer`
  // for each query. The turn ends when it has taken too long or when the socket accepts no more replies. A client that
  // does not read its replies gets no further ones. `answer` throws Incomplete if the end of the query has not arrived
  // yet. serve() throws an Error if the client is gone, or has violated the protocol or a limit. The owner must then
  // drop the session. All sessions share the buffer `chunk`.
  void serve(std::vector<char>& chunk, const std::function<void(protocol::Reader&)>& answer);
  // Queues a reply. It never throws and never blocks. After a failure, the next serve() throws.
  void reply(const protocol::Message& message) noexcept;
  // Tells a client that has proved the token why the owner is about to drop it. Other clients learn nothing.
  void refuse(const char* reason) noexcept;

 private:
  // Sends replies until all are sent or the socket accepts no more.
  void flush() noexcept;
  void greet(protocol::Reader& reader);
  void count() noexcept;  // updates `memory`

  FileDescriptor socket_;
  const std::string& token_;
  std::size_t& all_memory_;
  std::size_t counted_ = 0;
  const Deadline greeting_deadline_;
  Deadline last_heard_ = RunningTime::now();  // when the client last sent data
  bool is_valid_ = false;                     // the client has sent the magic number
  bool is_trusted_ = false;  // the client has proved that it knows the token, or the server asks for none
  bool was_refused_ = false;
  bool is_over_ = false;      // the next serve() throws
  bool has_queries_ = false;  // whether received_ may begin with a complete query
  std::string client_nonce_, server_nonce_;
  std::string received_;  // the bytes of incomplete queries
  std::string replies_;   // the socket has accepted the first sent_ bytes
  std::size_t sent_ = 0;
};

}  // namespace tandem::distributed
