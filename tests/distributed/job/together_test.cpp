#include <tandem/distributed/job/together.h>

#include <gtest/gtest.h>
#include <support/ranks.h>
#include <support/temporary_folder.h>

#include <atomic>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;

TEST(RunTogether, throws_everywhere_what_was_thrown_somewhere) {
  const auto results = testing::run_ranks_catching(3, [](testing::Group group) {
    EXPECT_EQ(run_together(*group, [&] { return group->rank() * 2; }), group->rank() * 2);
    run_together(*group, [&] {
      if (group->rank() == 1) throw Error("no such folder");
    });
  });
  EXPECT_EQ(testing::message_of(results[0]), "rank 1 failed: no such folder");
  EXPECT_EQ(testing::message_of(results[1]), "no such folder");
  EXPECT_EQ(testing::message_of(results[2]), "rank 1 failed: no such folder");
}

TEST(RunTogether, throws_everywhere_what_is_no_exception) {
  const auto results = testing::run_ranks_catching(2, [](testing::Group group) {
    run_together(*group, [&] {
      if (group->rank() == 1) throw 42;
    });
  });
  EXPECT_EQ(testing::message_of(results[0]), "rank 1 failed: an object that is not a std::exception was thrown");
  EXPECT_EQ(testing::message_of(results[1]), "an object that is not a std::exception was thrown");
}

// A job may save thousands of checkpoints.
TEST(RunTogether, leaves_a_constant_number_of_keys) {
  const auto keys_after = [](int rounds) {
    std::int64_t keys = 0;
    testing::run_ranks(3, [&](testing::Group group) {
      for (int i = 0; i < rounds; ++i) {
        const bool fails = i % 10 == 9;
        if (fails) EXPECT_THROW(run_together(*group, [] { throw Error("a full disk"); }), Error);
        else run_together(*group, [] {});
      }
      group->barrier()->wait();
      for (int round = 1; group->rank() == 0 && round <= rounds; ++round) {
        for (const char* key : {"/0", "/1", "/2", "/all", "/seen"})
          keys += group->store()->check({"together/" + std::to_string(round) + key}) ? 1 : 0;
      }
      group->barrier()->wait();
    });
    return keys;
  };
  EXPECT_LE(keys_after(40), keys_after(2) + 3);
}

// A rank may see the failure after rank 0 has stopped waiting for it. The key that this rank writes is then removed
// with the next round.
TEST(RunTogether, removes_what_a_late_rank_has_written) {
  testing::run_ranks(2, [&](testing::Group group) {
    EXPECT_THROW(run_together(*group, [] { throw Error("a full disk"); }), Error);
    if (group->rank() == 1) group->store()->add("together/1/seen", 1);
    group->barrier()->wait();
    run_together(*group, [] {});
    group->barrier()->wait();
    EXPECT_FALSE(group->store()->check({"together/1/seen"}));
    group->barrier()->wait();
  });
}

TEST(OncePerHost, one_process_of_each_host_acts_for_all_of_it) {
  testing::run_ranks(4, [](testing::Group group) {
    // Two hosts with two processes each.
    const int rank = group->rank(), host = rank % 2;
    const auto act = [&] { return "by rank " + std::to_string(rank); };
    EXPECT_EQ(once_per_host(*group, act, std::to_string(host)), "by rank " + std::to_string(host));
    EXPECT_EQ(once_per_host(*group, act), "by rank 0");
  });
}

TEST(RunTogether, waits_for_a_rank_that_works_longer_than_any_timeout) {
  testing::run_ranks(
      2,
      [](testing::Group group) {
        run_together(*group, [&] {
          if (group->rank() == 0) std::this_thread::sleep_for(milliseconds(2500));
        });
        group->barrier()->wait();
      },
      milliseconds(1000));
}

TEST(RunTogether, ends_when_a_rank_works_longer_than_its_work_may_take) {
  const auto start = std::chrono::steady_clock::now();
  const auto results = testing::run_ranks_catching(2, [](testing::Group group) {
    run_together(*group,
                 [&] {
                   if (group->rank() == 1) std::this_thread::sleep_for(milliseconds(3000));
                 },
                 {.what = "reading the data", .longest = milliseconds(500)});
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  testing::expect_parts(
      testing::message_of(results[0]),
      {"rank 1 (", ", pid ", "is alive, but the other ranks have waited for reading the data for 0.5 s"});
}

TEST(RunTogether, ends_when_a_rank_that_others_wait_for_is_gone) {
  const auto start = std::chrono::steady_clock::now();
  for (const int gone : {0, 1}) {
    const auto results = testing::run_ranks_catching(
        3,
        [&](testing::Group group) {
          if (group->rank() == gone) return;
          run_together(*group, [] {});
        },
        std::chrono::seconds(60));
    for (const int r : {1 - gone, 2})
      testing::expect_parts(testing::message_of(results[r]),
                            {"rank " + std::to_string(gone) + " (", ", pid ", ") has left"});
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

// Rank 0 publishes the texts of all ranks. If it does not, the other ranks blame rank 0.
TEST(RunTogether, ends_when_rank_0_is_gone_before_it_publishes) {
  const auto results = testing::run_ranks_catching(3, [](testing::Group group) {
    if (group->rank() == 0) return group->store()->set("together/1/0", "");
    run_together(*group, [] {});
  });
  for (const int r : {1, 2}) testing::expect_parts(testing::message_of(results[r]), {"rank 0 (", ") has left"});
}

TEST(RunFirst, rank_0_is_done_before_the_others_begin) {
  std::atomic<int> done = 0;
  testing::run_ranks(3, [&](testing::Group group) {
    run_first(*group, [&] {
      if (group->rank() == 0) std::this_thread::sleep_for(milliseconds(50));
      else EXPECT_GE(done, 1);
      ++done;
    });
    EXPECT_EQ(done, 3);
  });
}

}  // namespace
}  // namespace tandem::distributed
