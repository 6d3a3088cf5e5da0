// The calls of PyTorch's TCPStore that this project does not make itself.
#include <tandem/distributed/store/pytorch_tcp_store.h>

#include <gtest/gtest.h>
#include <support/store_client.h>
#include <support/temporary_folder.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {
namespace {

using namespace std::chrono_literals;
using testing::error_of;
using testing::expect_parts;
using testing::options_for;

TEST(PyTorchTcpStore, ManyKeysInOneExchange) {
  TcpStoreServer server({});
  PyTorchTcpStore a(options_for(server)), b(options_for(server));
  a.multi_set({{"x", "1"}, {"y", ""}, {"z", "3"}});
  EXPECT_EQ(a.multi_get({"z", "none", "x"}), (std::vector<std::string>{"3", "", "1"}));
  EXPECT_EQ(b.key_count(), 4);  // with the protocol's own
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

// A server that was told no token keeps nothing of a client's question for one.
TEST(PyTorchTcpStore, CountsTheKeysOfTheProtocol) {
  TcpStoreServer server({});
  auto options = options_for(server, 10s, "secret");
  options.needs_proof = false;
  EXPECT_EQ(PyTorchTcpStore(options).key_count(), 1);  // only the one that counts clients
}

}  // namespace
}  // namespace tandem::distributed
