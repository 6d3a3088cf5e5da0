// Tests the calls of PyTorch's TCPStore that this project does not make itself.
#include <tandem/distributed/store/pytorch_tcp_store.h>
#include <tandem/distributed/system/socket.h>

#include <gtest/gtest.h>
#include <support/raw_client.h>
#include <support/store_client.h>
#include <support/temporary_folder.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {
namespace {

using namespace std::chrono_literals;
using testing::error_of;
using testing::expect_parts;
using testing::options_for;
using testing::text;
using testing::u64;

TEST(PyTorchTcpStore, ManyKeysInOneExchange) {
  TcpStoreServer server({});
  PyTorchTcpStore a(options_for(server)), b(options_for(server));
  a.multi_set({{"x", "1"}, {"y", ""}, {"z", "3"}});
  EXPECT_EQ(a.multi_get({"z", "none", "x"}), (std::vector<std::string>{"3", "", "1"}));
  EXPECT_EQ(b.key_count(), 4);  // includes the protocol's own key
  auto keys = b.keys();
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(keys, (std::vector<std::string>{"x", "y", "z"}));
}

TEST(PyTorchTcpStore, AnItemIsForOneClient) {
  TcpStoreServer server({});
  PyTorchTcpStore giver(options_for(server));
  constexpr int takers = 4, items = 25;
  std::vector<std::thread> threads;
  std::atomic<int> sum{0};
  for (int i = 0; i < takers; ++i) {
    threads.emplace_back([&] {
      PyTorchTcpStore taker(options_for(server));
      for (int j = 0; j < items; ++j) sum += std::stoi(taker.queue_pop("queue"));
    });
  }
  for (int i = 0; i < takers * items; ++i) giver.queue_push("queue", std::to_string(i));
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sum, takers * items * (takers * items - 1) / 2);
  EXPECT_EQ(giver.queue_length("queue"), 0);
  PyTorchTcpStore hasty(options_for(server, 50ms));
  expect_parts(error_of([&] { hasty.queue_pop("queue"); }), {"no process set \"queue\""});
  giver.queue_push("queue", "late");
  EXPECT_EQ(hasty.queue_pop("queue"), "late");
}

TEST(PyTorchTcpStore, BarriersOpenForAll) {
  TcpStoreServer server({});
  std::atomic<int> arrived{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      PyTorchTcpStore store(options_for(server));
      for (int round = 1; round <= 10; ++round) {
        ++arrived;
        store.barrier("round " + std::to_string(round), 4);
        EXPECT_GE(arrived, 4 * round);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  PyTorchTcpStore lonely(options_for(server, 50ms));
  expect_parts(error_of([&] { lonely.barrier("lonely", 2); }), {"not all 2 clients"});
  lonely.set("k", "in step");
  EXPECT_EQ(lonely.get("k"), "in step");
}

// A server without a token stores nothing when a client asks for a proof.
TEST(PyTorchTcpStore, CountsTheKeysOfTheProtocol) {
  TcpStoreServer server({});
  auto options = options_for(server, 10s, "secret");
  options.needs_proof = false;
  EXPECT_EQ(PyTorchTcpStore(options).key_count(), 1);  // only the key that counts clients
}

TEST(PyTorchTcpStoreAbuse, EveryKindOfReplyIsToldFromAFarewell) {
  using Call = std::function<void(PyTorchTcpStore&)>;
  const Call calls[] = {[](PyTorchTcpStore& store) { store.add("n", 1); },
                        [](PyTorchTcpStore& store) { store.key_count(); },
                        [](PyTorchTcpStore& store) { store.check({"n"}); },
                        [](PyTorchTcpStore& store) { store.wait({"n"}, 1s); },
                        [](PyTorchTcpStore& store) { store.get("n"); },
                        [](PyTorchTcpStore& store) { store.multi_get({"n"}); },
                        [](PyTorchTcpStore& store) { store.keys(); },
                        [](PyTorchTcpStore& store) { store.delete_key("n"); },
                        [](PyTorchTcpStore& store) { store.compare_set("n", "", "1"); },
                        [](PyTorchTcpStore& store) { store.queue_length("n"); },
                        [](PyTorchTcpStore& store) { store.queue_pop("n"); },
                        [](PyTorchTcpStore& store) { store.set_when_gone("n"); },
                        [](PyTorchTcpStore& store) { store.barrier("n", 1); }};
  TcpStoreServer server({"127.0.0.1", 0, "secret"});
  TcpStore(options_for(server, 10s, "secret")).set("text", "no number");
  for (const auto& call : calls) {
    PyTorchTcpStore store(options_for(server, 10s, "secret"));
    EXPECT_THROW(store.add("text", 1), Error);  // this call expects a reply
    testing::expect_parts(testing::error_of([&] { call(store); }),
                          {"lost earlier", "the value of the key is not a number"});
    PyTorchTcpStore other(options_for(server, 10s, "secret"));
    for (int i = 0; i < 3; ++i) other.append(std::to_string(&call - calls), std::string(6 << 20, 'x'));  // no reply
    testing::expect_parts(testing::error_of([&] { call(other); }), {"ended the connection: the value is too long"});
  }
}

// A server that sends the same bytes repeatedly, as long as its client is connected.
class EndlessServer {
 public:
  EndlessServer(std::string beginning, std::string rest)
      : thread_([this, beginning = std::move(beginning), rest = std::move(rest)] {
          const auto deadline = RunningTime::now() + 60s;
          if (!wait_readable(listener_, deadline)) return;
          const FileDescriptor client(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
          try {
            send_all(client, beginning, deadline);
            for (;;) send_all(client, rest, deadline);
          } catch (const Error&) {
          }
        }) {}
  ~EndlessServer() { thread_.join(); }
  TcpStore::Options options() const { return {"127.0.0.1", local_port(listener_), 60s}; }

 private:
  const FileDescriptor listener_ = listen_on("127.0.0.1", 0);
  std::thread thread_;
};

// A reply with an endless list of keys, none of which the client keeps, would occupy it forever, because there is
// always something to read.
TEST(PyTorchTcpStoreAbuse, AServerWhoseReplyHasNoEnd) {
  const auto pid = static_cast<std::uint32_t>(getpid());
  const std::string greeting = std::string(reinterpret_cast<const char*>(&pid), sizeof pid) + u64(1);
  const auto many_keys = u64(INT64_MAX);
  EndlessServer server(greeting + many_keys, text(std::string(8 << 10, '-')));
  PyTorchTcpStore client(server.options());
  testing::expect_parts(testing::error_of([&] { client.keys(); }),
                        {"keys: ", "the reply has more than 1073741824 bytes"});
}

TEST(PyTorchTcpStoreAbuse, AServerWhoseKeyIsTooLong) {
  const auto pid = static_cast<std::uint32_t>(getpid());
  const std::string greeting = std::string(reinterpret_cast<const char*>(&pid), sizeof pid) + u64(1);
  EndlessServer server(greeting + u64(1), text(std::string((8 << 10) + 1, '-')));
  PyTorchTcpStore client(server.options());
  testing::expect_parts(testing::error_of([&] { client.keys(); }),
                        {"the server announced a text of 8193 bytes, but at most 8192"});
}

}  // namespace
}  // namespace tandem::distributed
