// One client of a store's server: its socket, the bytes of queries that are not complete yet, and the replies that the
// client has not read yet.
#pragma once

#include <tandem/distributed/store/tcp_store_protocol.h>
#include <tandem/distributed/system/socket.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tandem::distributed {

// A client greets with the protocol's magic number, and then with a proof of the token if the server asks for one.
// Before the greeting a client may send only 1 KiB and must hurry (greeting_deadline); afterwards it may send as much
// as a query needs. Only the server's thread uses a session.
class StoreSession {
 public:
  static constexpr std::size_t max_token_bytes = 256;  // chosen: random tokens have 32 or 64

  // `token` and `memory` must outlive the session. `memory` is the sum over all sessions: the session adds its own
  // bytes to it and takes them off at its end. The owner closes the session if it has not greeted by the deadline.
  StoreSession(FileDescriptor socket, const std::string& token, std::size_t& memory, Deadline greeting_deadline);
  ~StoreSession();
  StoreSession(const StoreSession&) = delete;
  StoreSession& operator=(const StoreSession&) = delete;

  int fd() const { return socket_.get(); }
  bool has_greeted() const { return is_valid_ && is_trusted_; }
  // Whether the client did not prove that it knows the token.
  bool was_refused() const { return was_refused_ || (!client_nonce_.empty() && !is_trusted_); }
  Deadline greeting_deadline() const { return greeting_deadline_; }
  Deadline last_heard() const { return last_heard_; }
  // Whether the last turn ended before all queries were answered and all replies were sent. Then the next turn is due
  // when the socket is ready for writing, and otherwise when it is ready for reading.
  bool is_behind() const { return has_queries_ || !replies_.empty(); }
  std::size_t memory() const { return counted_; }

  // One turn of this client. Sends replies, reads at most chunk.size() bytes from the socket, and calls `answer` at the
  // front of each query until the turn has taken too long or the socket takes no more replies: a client that does not
  // read is not answered. `answer` throws Incomplete if the query's end has not arrived yet. Error when the client is
  // gone, or broke the protocol or a limit; the owner then drops the session. `chunk` is a buffer that all sessions
  // share.
  void serve(std::vector<char>& chunk, const std::function<void(protocol::Reader&)>& answer);
  // Never throws and never blocks. After a failure the next serve() throws.
  void reply(const protocol::Message& message) noexcept;
  // Tells the client why the owner is about to drop it.
  void refuse(const char* reason) noexcept;

 private:
  // Sends replies until all are sent or the socket takes no more.
  void flush() noexcept;
  void greet(protocol::Reader& reader);
  void count() noexcept;  // brings `memory` up to date

  FileDescriptor socket_;
  const std::string& token_;
  std::size_t& all_memory_;
  std::size_t counted_ = 0;
  const Deadline greeting_deadline_;
  Deadline last_heard_ = RunningTime::now();  // when the client sent something last
  bool is_valid_ = false;                     // the client has sent the magic number
  bool is_trusted_ = false;  // the client has proved that it knows the token, or the server asks for none
  bool was_refused_ = false;
  bool is_over_ = false;      // the next serve() throws
  bool has_queries_ = false;  // received_ may begin with a whole query
  std::string client_nonce_, server_nonce_;
  std::string received_;  // bytes of queries that are not complete yet
  std::string replies_;   // the socket has not taken the bytes from sent_ on
  std::size_t sent_ = 0;
};

}  // namespace tandem::distributed
