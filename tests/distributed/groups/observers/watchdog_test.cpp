#include <tandem/distributed/groups/observed_operation.h>
#include <tandem/distributed/groups/observers/watchdog.h>
#include <tandem/distributed/store/tcp_store.h>

#include <gtest/gtest.h>
#include <support/counting_store.h>
#include <support/store_client.h>

#include <chrono>
#include <thread>

namespace tandem::distributed {
namespace {

// Returns the calls to the store in 1.7 s, while one rank of a group of `size` waits in an operation.
int calls_of_a_waiting_rank(int size) {
  TcpStoreServer server({});
  std::atomic<int> calls = 0;
  const auto store =
      std::make_shared<testing::CountingStore>(std::make_shared<TcpStore>(testing::options_for(server)), calls);
  const Members members(static_cast<std::size_t>(size));
  GroupObservers observers(
      {[](const ObservedGroup& group) { return std::make_unique<Watchdog>(group, nullptr); }},
      {store, "shm", size - 1, members, [](const std::string& reason) { ADD_FAILURE() << reason; }});
  ObservedOperation operation(observers, {.kind = Operation::Kind::barrier, .name = ""}, 1, "barrier");
  operation.set_running();
  std::this_thread::sleep_for(std::chrono::milliseconds(1700));
  operation.end(false);
  return calls;
}

TEST(Watchdog, observes_all_ranks_of_a_small_group_and_few_of_a_large_one) {
  const int few = calls_of_a_waiting_rank(2), small = calls_of_a_waiting_rank(30), large = calls_of_a_waiting_rank(500);
  EXPECT_GE(small, few + 28);  // in one period at least
  EXPECT_LE(large, few + 28);  // four in each of about three periods
}

}  // namespace
}  // namespace tandem::distributed
