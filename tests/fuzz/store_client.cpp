// Fuzzes a client of a store whose server is malicious. The first byte of the input says how far the server follows the
// protocol, and whether the client has a token. The second byte says how many of the following bytes choose calls of
// the client. The server sends the rest.
#include <tandem/distributed/store/pytorch_tcp_store.h>
#include <tandem/distributed/store/tcp_store_protocol.h>
#include <tandem/distributed/system/socket.h>

#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "fuzz.h"

using namespace tandem;
using namespace tandem::distributed;

namespace {

const std::string token = "secret";

enum Mode : std::uint8_t { raw, raw_with_token, greets, greets_without_proof, greets_with_proof, modes };

// Answers a client's greeting as a correct server does, and then sends `bytes`, whatever the client requests.
void serve(const FileDescriptor& listener, Mode mode, std::string_view bytes) {
  const auto deadline = tandem::RunningTime::now() + std::chrono::seconds(10);
  if (!wait_readable(listener, deadline)) std::abort();
  const FileDescriptor client(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  fuzz::expect_at_most_an_error([&] {
    protocol::Message reply;
    const auto receive = [&](std::size_t size) {
      std::string query(size, '\0');
      receive_all(client, query.data(), size, deadline);
      return query;
    };
    const auto has_token = mode == greets_without_proof || mode == greets_with_proof;
    if (mode == greets || has_token) {
      receive(5);  // validate
      const std::size_t key = 1 + 8 + std::string(protocol::token_key).size();
      if (has_token) {
        receive(key);
        const auto nonce = receive(2 * (8 + protocol::nonce_bytes)).substr(8, protocol::nonce_bytes);
        if (mode == greets_with_proof) {
          const std::string mine(protocol::nonce_bytes, 'f');
          send_all(client, reply.text(mine + protocol::server_proof(token, nonce, mine)).bytes(), deadline);
          reply = {};
          receive(key + 2 * (8 + 64));
          reply.text("");
        } else {
          reply.text(nonce);
        }
      }
      reply.u32(static_cast<std::uint32_t>(::getpid())).i64(1);
    }
    send_all(client, reply.bytes() + std::string(bytes), deadline);
    ::shutdown(client.get(), SHUT_WR);
    for (char rest[4096]; wait_readable(client, deadline) && ::recv(client.get(), rest, sizeof rest, 0) > 0;) continue;
  });
}

void call(PyTorchTcpStore& store, std::uint8_t which) {
  const std::string key = "key", value = "value";
  const Store::Timeout brief(1);
  switch (which % 18) {
    case 0: store.set(key, value); break;
    case 1: store.get(key); break;
    case 2: store.add(key, 1); break;
    case 3: store.append(key, value); break;
    case 4: store.compare_set(key, value, ""); break;
    case 5: store.delete_key(key); break;
    case 6: store.check({key, value}); break;
    case 7: store.wait({key}, brief); break;
    case 8: store.wait({key, value}, Store::Timeout(0)); break;
    case 9: store.set_when_gone(key); break;
    case 10: store.multi_get({key, value}); break;
    case 11: store.multi_set({{key, value}, {value, key}}); break;
    case 12: store.key_count(); break;
    case 13: store.keys(); break;
    case 14: store.queue_push(key, value); break;
    case 15: store.queue_pop(key); break;
    case 16: store.queue_length(key); break;
    default: store.barrier(key, 2);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto mode = static_cast<Mode>(data[0] % modes);
  const std::size_t calls = std::min<std::size_t>(data[1] % 16, size - 2);
  const auto bytes = fuzz::text_of(data, size).substr(2 + calls);
  static const FileDescriptor listener = listen_on("127.0.0.1", 0);
  std::thread server([&] { serve(listener, mode, bytes); });
  const bool has_token = mode != raw && mode != greets;
  // so short that a rejected client does not connect again
  const std::chrono::milliseconds timeout(90);
  std::unique_ptr<PyTorchTcpStore> store;
  fuzz::expect_at_most_an_error([&] {
    store = std::make_unique<PyTorchTcpStore>(TcpStore::Options{"127.0.0.1", local_port(listener), timeout,
                                                                has_token ? token : "", mode == greets_with_proof});
  });
  for (std::size_t i = 0; store && i < calls; ++i) fuzz::expect_at_most_an_error([&] { call(*store, data[2 + i]); });
  store.reset();
  server.join();
  return 0;
}
