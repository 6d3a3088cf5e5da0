// Tests the calls that the observers of a group receive.
#include <tandem/core/ops.h>
#include <tandem/distributed/groups/observed_operation.h>

#include <gtest/gtest.h>
#include <support/ranks.h>
#include <support/temporary_folder.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Group;
using testing::message_of;

struct Event {
  std::string text;  // such as "started 1 all_reduce 'x'"
  std::thread::id thread;
};

// The calls that the observers of all groups of a rank received, in order.
class Diary {
 public:
  void add(std::string text) {
    const std::lock_guard lock(mutex_);
    events_.push_back({std::move(text), std::this_thread::get_id()});
  }
  std::vector<Event> events() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> texts;
    for (const auto& event : events()) texts.push_back(event.text);
    return texts;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Event> events_;  // guarded by mutex_
};

class DiaryObserver : public OperationObserver {
 public:
  DiaryObserver(Diary& diary, std::atomic<int>& alive) : diary_(diary), alive_(alive) { ++alive_; }
  ~DiaryObserver() override { --alive_; }

  std::uint64_t started(const ObservedOperation& operation, const Operation& with_arrays) noexcept override {
    EXPECT_EQ(operation.bytes, with_arrays.bytes());
    const std::string signature = operation.what + " (" + with_arrays.signature() + ")";
    EXPECT_EQ(operation.signature, operation.sequence > 0 ? signature : "");
    write("started", operation);
    return ++count_;
  }
  void running(const ObservedOperation& operation, std::uint64_t number, Time when) noexcept override {
    EXPECT_GE(when, operation.started);
    EXPECT_LE(number, count_);
    write("running", operation);
  }
  void ended(const ObservedOperation& operation, std::uint64_t number, Time when, bool has_failed) noexcept override {
    EXPECT_GE(when, operation.started);
    EXPECT_LE(number, count_);
    write(has_failed ? "ended in failure" : "ended", operation);
  }
  void failed(const std::string& reason) noexcept override { diary_.add("failed: " + reason); }

 private:
  void write(const std::string& event, const ObservedOperation& operation) {
    diary_.add(event + ' ' + std::to_string(operation.sequence) + ' ' + operation.what);
  }

  Diary& diary_;
  std::atomic<int>& alive_;
  std::atomic<std::uint64_t> count_ = 0;
};

class ObservedGroups : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<std::exception_ptr> run(const std::function<void(Group)>& body, milliseconds timeout = seconds(20)) {
    return testing::run_ranks_catching(2, body, timeout, GetParam(), observers_);
  }

  Diary diaries_[2];  // by rank
  std::atomic<int> alive_ = 0;
  const Observers observers_{[this](const ObservedGroup& group) -> std::unique_ptr<OperationObserver> {
    EXPECT_EQ(group.backend, GetParam());
    return std::make_unique<DiaryObserver>(diaries_[group.members[group.rank].rank], alive_);
  }};
};
INSTANTIATE_TEST_SUITE_P(Backends, ObservedGroups, ::testing::Values("gloo", "shm"),
                         [](const auto& info) { return info.param; });

TEST_P(ObservedGroups, every_kind_of_operation_begins_starts_and_ends) {
  const auto results = run([](Group group) {
    const auto one = [] { return ops::ones({3}); };
    const auto two = [&] { return std::vector<Array>{one(), one()}; };
    const int rank = group->rank();
    group->broadcast(one(), 0)->wait();
    group->all_reduce(one(), ReduceOp::sum, "x")->wait();
    group->reduce(one(), 1)->wait();
    group->all_gather(two(), one())->wait();
    group->reduce_scatter(one(), two())->wait();
    group->gather(rank == 0 ? two() : std::vector<Array>{}, one(), 0)->wait();
    group->scatter(one(), rank == 0 ? two() : std::vector<Array>{}, 0)->wait();
    group->all_to_all(two(), two())->wait();
    group->barrier()->wait();
    group->all_reduce(ops::ones({0}), ReduceOp::sum, "nothing")->wait();
    if (rank == 0) group->send(one(), 1, "m")->wait();
    else group->receive(one(), 0, "m")->wait();
  });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(message_of(results[rank]), "");
    const std::vector<std::string> operations{
        "1 broadcast",
        "2 all_reduce 'x'",
        "3 reduce",
        "4 all_gather",
        "5 reduce_scatter",
        "6 gather",
        "7 scatter",
        "8 all_to_all",
        "9 barrier",
        "0 all_reduce 'nothing'",
        rank == 0 ? "0 send 'm' to rank 1 (" : "0 receive 'm' from rank 0 (",
    };
    const auto events = diaries_[rank].events();
    ASSERT_EQ(events.size(), 3 * operations.size());
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const Event *started = &events[3 * i], *running = started + 1, *ended = started + 2;
      EXPECT_EQ(started->text.find("started " + operations[i]), 0u) << started->text;
      EXPECT_EQ(running->text.find("running " + operations[i]), 0u) << running->text;
      EXPECT_EQ(ended->text.find("ended " + operations[i]), 0u) << ended->text;
      EXPECT_EQ(started->thread, events[0].thread);  // the thread that calls the operations
      EXPECT_EQ(ended->thread, running->thread);     // the thread that runs this operation
    }
  }
  EXPECT_EQ(alive_, 0);
}

TEST_P(ObservedGroups, an_operation_that_fails_ends_in_failure) {
  const auto results = run([](Group group) {
    group->barrier()->wait();
    if (group->rank() == 1) throw Error("bye");
    EXPECT_THROW(group->all_reduce(ops::ones({3}), ReduceOp::sum, "x")->wait(), PeerError);
    EXPECT_THROW(group->barrier("late")->wait(), PeerError);
  });
  EXPECT_EQ(message_of(results[0]), "");
  const auto told = diaries_[0].texts();
  ASSERT_EQ(told.size(), 9u);
  EXPECT_EQ(told[3], "started 2 all_reduce 'x'");
  EXPECT_EQ(told[4], "running 2 all_reduce 'x'");
  EXPECT_EQ(told[5].find("failed: rank 1 ("), 0u) << told[5];
  EXPECT_NE(told[5].find("closed the connection during all_reduce 'x'"), std::string::npos) << told[5];
  EXPECT_EQ(told[6], "ended in failure 2 all_reduce 'x'");
  EXPECT_EQ(told[7], "started 3 barrier 'late'");
  EXPECT_EQ(told[8], "ended in failure 3 barrier 'late'");
}

TEST_P(ObservedGroups, a_message_that_does_not_come_ends_in_failure) {
  run([](Group group) {
    group->barrier()->wait();
    if (group->rank() == 1) return;
    EXPECT_THROW(group->receive(ops::ones({3}), 1, "m")->wait(), PeerError);
  });
  const auto told = diaries_[0].texts();
  ASSERT_EQ(told.size(), 7u);
  EXPECT_EQ(told[4].find("running 0 receive 'm' from rank 1 ("), 0u) << told[4];
  EXPECT_EQ(told[5].find("failed: rank 1 ("), 0u) << told[5];
  EXPECT_EQ(told[6].find("ended in failure 0 receive 'm' from rank 1 ("), 0u) << told[6];
}

TEST_P(ObservedGroups, subgroups_are_observed_too) {
  run([](Group group) { group->subgroup({1, 0})->all_reduce(ops::ones({3}))->wait(); });
  for (const auto& diary : diaries_)
    EXPECT_EQ(diary.texts(),
              (std::vector<std::string>{"started 1 all_reduce", "running 1 all_reduce", "ended 1 all_reduce"}));
}

TEST_P(ObservedGroups, observers_go_with_their_group_though_a_work_stays) {
  run([this](Group group) {
    static std::atomic<int> here;
    here = 0;
    const auto work = group->all_reduce(ops::ones({3}));
    work->wait();
    group->barrier()->wait();
    group.reset();
    // Both ranks have released their groups, and run_ranks_catching() holds none
    for (++here; here < 2;) std::this_thread::yield();
    EXPECT_EQ(alive_, 0);
    EXPECT_FALSE(work->exception());
  });
}

// An observer whose thread reports a failure at once.
class Alarm : public OperationObserver {
 public:
  explicit Alarm(const ObservedGroup& group) : thread_([fail = group.fail] { fail("the alarm rang"); }) {}
  ~Alarm() override { thread_.join(); }

 private:
  std::thread thread_;
};

TEST_P(ObservedGroups, an_observer_can_break_off_the_group) {
  Observers observers = observers_;
  observers.push_back([](const ObservedGroup& group) { return std::make_unique<Alarm>(group); });
  const auto start = std::chrono::steady_clock::now();
  const auto results = testing::run_ranks_catching(
      2,
      [](Group group) {
        std::this_thread::sleep_for(milliseconds(group->rank() * 100));
        group->all_reduce(ops::ones({3}), ReduceOp::sum, "x")->wait();
      },
      seconds(20), GetParam(), observers);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_NE(message_of(results[rank]).find("the alarm rang"), std::string::npos) << message_of(results[rank]);
    const auto told = diaries_[rank].texts();
    EXPECT_NE(std::find(told.begin(), told.end(), "failed: the alarm rang"), told.end());
  }
}

TEST_P(ObservedGroups, without_observers_errors_still_name_the_late_rank) {
  std::atomic<bool> waits = true;
  const auto results = testing::run_ranks_catching(
      2,
      [&](Group group) {
        group->all_reduce(ops::ones({3}))->wait();
        while (group->rank() == 1 && waits) std::this_thread::sleep_for(milliseconds(10));
        if (group->rank() == 1) return;
        testing::expect_parts(testing::error_of([&] { group->all_reduce(ops::ones({3}), ReduceOp::sum, "x")->wait(); }),
                              {"rank 1 (", "did not reach all_reduce 'x' within 0.3 s"});
        waits = false;
      },
      milliseconds(300), GetParam(), {});
  EXPECT_EQ(message_of(results[0]), "");
}

}  // namespace
}  // namespace tandem::distributed
