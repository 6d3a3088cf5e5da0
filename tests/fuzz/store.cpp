// Fuzzes a store's server through three clients, the last of which must prove a token. The input is what they send.
// "\xff\x00", "\xff\x01" and "\xff\x02" in it say which client sends next.
#include <tandem/distributed/store/service.h>
#include <tandem/distributed/store/session.h>

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <vector>

#include "fuzz.h"

using namespace tandem;
using namespace tandem::distributed;

namespace {

struct Client {
  FileDescriptor end;  // the client's end
  std::unique_ptr<StoreSession> session;

  Client(const std::string& token, std::size_t& memory) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    end = FileDescriptor(ends[0]);
    session = std::make_unique<StoreSession>(FileDescriptor(ends[1]), token, memory, Deadline::max());
  }
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string none, token = "secret";
  std::size_t memory = 0;
  std::vector<char> chunk(4096);
  std::array<Client, 3> clients{Client(none, memory), Client(none, memory), Client(token, memory)};
  StoreService service([&](StoreService::ClientId id, const protocol::Message& message) {
    if (clients[id].session) clients[id].session->reply(message);
  });
  const auto send = [&](std::size_t id, std::string_view bytes) {
    auto& client = clients[id];
    while (!bytes.empty() && client.session) {
      const auto n = ::send(client.end.get(), bytes.data(), std::min<std::size_t>(bytes.size(), 4096), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(n));
      do {
        try {
          client.session->serve(chunk, [&](protocol::Reader& reader) { service.answer(id, reader); });
        } catch (const Error& error) {
          client.session->refuse(error.what());
          service.forget(id);
          client.session.reset();
        }
        char replies[4096];
        while (::recv(client.end.get(), replies, sizeof replies, 0) > 0) {
        }
      } while (client.session && client.session->is_behind());
    }
  };

  std::size_t turn = 0;
  auto rest = fuzz::text_of(data, size);
  while (!rest.empty()) {
    std::size_t at = 0;
    while (at + 1 < rest.size() && !(rest[at] == '\xff' && 0 <= rest[at + 1] && rest[at + 1] <= 2)) ++at;
    const bool is_cut = at + 1 < rest.size();
    send(turn, rest.substr(0, is_cut ? at : rest.size()));
    if (is_cut) turn = static_cast<std::size_t>(rest[at + 1]);
    rest.remove_prefix(is_cut ? at + 2 : rest.size());
  }
  for (std::size_t id : {0, 1, 2}) service.forget(id);
  for (auto& client : clients) client.session.reset();
  if (memory != 0) std::abort();  // the sessions have not released all memory that they counted
  return 0;
}
