// How many queries of the store the start of a job takes.
#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/job/together.h>
#include <tandem/distributed/store/tcp_store.h>

#include <gtest/gtest.h>
#include <support/counting_store.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::distributed {
namespace {

// A group that has a store and no operations.
class StoreGroup final : public ProcessGroup {
 public:
  StoreGroup(std::shared_ptr<Store> store, int rank, int size) : store_(std::move(store)), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* backend() const override { return "store"; }
  std::shared_ptr<Store> store() const override { return store_; }
  std::chrono::milliseconds timeout() const override { return store_->timeout(); }
  Array allocate(const Shape&, DType, Device) override { return {}; }
  std::shared_ptr<ProcessGroup> subgroup(const std::vector<int>&) override { return nullptr; }
  std::shared_ptr<Work> start(Operation) override { throw Error("this group has no operations"); }

 private:
  const std::shared_ptr<Store> store_;
  const int rank_, size_;
};

// If each rank made one call for every other rank, that alone would be size^2 calls. Here, each rank makes about 18.
TEST(Start, takes_a_number_of_queries_that_grows_like_the_number_of_ranks) {
  constexpr int size = 64;
  std::atomic<int> calls = 0;
  TcpStoreServer server({});
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      const TcpStore::Options options{.port = server.port()};
      const auto store = std::make_shared<testing::CountingStore>(std::make_shared<TcpStore>(options), calls);
      EXPECT_EQ(collect_members(*store, rank, size, {.rank = rank}, options.timeout).back().rank, size - 1);
      StoreGroup group(store, rank, size);
      for (int i = 0; i < 2; ++i) run_together(group, [] {});
    });
  }
  for (auto& rank : ranks) rank.join();
  EXPECT_LT(calls, size * size * 9 / 10);
}

}  // namespace
}  // namespace tandem::distributed
