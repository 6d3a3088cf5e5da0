// The messages of the TCPStore protocol, for the client and the server.
#pragma once

#include <tandem/core/base/check.h>
#include <tandem/distributed/system/keyed_hash.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::distributed::protocol {

// A query is one byte, its kind, followed by its arguments. Integers are in host byte order. A text is a u64 length
// followed by the bytes. A reply has no header. These are the values of PyTorch 2.2 and later.
enum class Query : std::uint8_t {
  validate = 0,       // u32 magic; must come first
  set = 1,            // key, value
  compare_set = 2,    // key, expected, desired -> value
  get = 3,            // key -> value
  add = 4,            // key, i64 -> i64
  check = 5,          // n, n keys -> CheckReply
  wait = 6,           // n, n keys -> WaitReply::stop
  key_count = 7,      // -> i64
  delete_key = 8,     // key -> i64
  append = 9,         // key, value
  multi_get = 10,     // n, n keys -> n values
  multi_set = 11,     // n, n x (key, value)
  cancel_wait = 12,   // -> WaitReply::canceled
  ping = 13,          // u32 -> the same u32
  queue_push = 14,    // key, value
  queue_pop = 15,     // key -> i64 (0: empty), value
  queue_length = 16,  // key -> i64
  list_keys = 17,     // -> i64 n, n keys
  barrier = 18,       // key, i64 world size -> WaitReply::stop
};
enum class CheckReply : std::uint8_t { ready = 0, not_ready = 1 };
enum class WaitReply : std::uint8_t { stop = 0, canceled = 1 };

// PyTorch's server has the same values. A client that exceeds a limit loses its connection.
constexpr std::uint32_t magic = 0x3C85F7CE;
constexpr std::size_t max_key_bytes = std::size_t{8} << 10;
constexpr std::size_t max_value_bytes = std::size_t{8} << 20;
// The limit of keys in one query. PyTorch's server accepts 128 Ki, but such a query would delay all other clients by
// some tenths of a second.
constexpr std::size_t max_keys = std::size_t{16} << 10;

// The prefix of every user key. It distinguishes them from the protocol's own keys.
constexpr char user_prefix = '/';
// Every client adds 1 to this key when it joins.
constexpr const char* join_key = "init/";
// A server of this project may ask for the job's token. Right after `validate`, both sides prove that they know the
// token without revealing it:
//   client: compare_set(token_key, N, N)   N: the client's nonce
//   server: M + server_proof(token, N, M)  M: the server's nonce, as long as N
//   client: compare_set(token_key, P, P)   P: client_proof(token, N, M)
//   server: P
// The key is never stored. A server without tokens sees a compare_set of a missing key, and answers with N. That server
// has proved nothing.
constexpr const char* token_key = "tandem/token";
constexpr int nonce_words = 4;                        // of random_text: 128 bits
constexpr std::size_t nonce_bytes = 8 * nonce_words;  // as hexadecimal digits
inline std::string server_proof(const std::string& token, const std::string& client, const std::string& server) {
  return keyed_hash(token, "server " + client + server);
}
inline std::string client_proof(const std::string& token, const std::string& client, const std::string& server) {
  return keyed_hash(token, "client " + client + server);
}
// compare_set(will_key, KEY, "") -> KEY asks a server of this project to set KEY to an empty value when this client's
// connection ends. will_key itself is never stored either, so other servers return the same answer and do nothing. A
// server that has no room for KEY answers with an empty text. If the client sets KEY itself, that cancels the request.
constexpr const char* will_key = "tandem/will";
// Before a server of this project ends the connection of a client that has proved the token, it sends this number
// twice, followed by the reason as a text. A client that waits for a reply of any type finds the first number
// impossible, and then looks for the second.
constexpr std::uint64_t farewell = 0x64657375'666572F5;  // "\xF5" and "refused"

// Builds the bytes of one or several queries, or of a reply.
class Message {
 public:
  Message& query(Query query) { return raw(query); }
  template <class Reply>
  Message& u8(Reply reply) {
    static_assert(sizeof reply == 1);
    return raw(reply);
  }
  Message& u32(std::uint32_t value) { return raw(value); }
  Message& u64(std::uint64_t value) { return raw(value); }
  Message& i64(std::int64_t value) { return raw(value); }
  Message& text(std::string_view text) {
    u64(text.size());
    bytes_.append(text);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <class T>
  Message& raw(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  std::string bytes_;
};

// Reader throws it if the rest of the query has not arrived yet.
struct Incomplete {};

// Reads arguments from the bytes that have arrived. Throws Incomplete if the end of an argument is missing, and an
// Error if a length exceeds the protocol's limit.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T number() {
    if (bytes_.size() < sizeof(T)) throw Incomplete();
    T value;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof value);
    return value;
  }
  std::string_view text(std::size_t limit) {
    const auto size = number<std::uint64_t>();
    TANDEM_CHECK(size <= limit, "a text has ", size, " bytes, but at most ", limit, " are allowed");
    if (bytes_.size() < size) throw Incomplete();
    const auto text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return text;
  }
  std::string key() { return std::string(text(max_key_bytes)); }
  std::string_view value() { return text(max_value_bytes); }
  std::uint64_t count() {
    const auto n = number<std::uint64_t>();
    TANDEM_CHECK(n <= max_keys, "the query has ", n, " keys, but at most ", max_keys, " are allowed");
    return n;
  }
  std::vector<std::string_view> keys() {
    std::vector<std::string_view> keys;
    for (auto n = count(); n > 0; --n) keys.push_back(text(max_key_bytes));
    return keys;
  }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

}  // namespace tandem::distributed::protocol
