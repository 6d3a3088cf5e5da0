// Tests process groups whose ranks leave, come late or run different operations, and the errors that the watchdog
// reports.
#include <tandem/core/ops.h>
#include <tandem/distributed/groups/host/host_group.h>
#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/job/observers.h>
#include <tandem/distributed/store/tcp_store.h>

#include <gtest/gtest.h>
#include <support/ranks.h>
#include <support/temporary_folder.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Group;
using testing::message_of;

class FailingGroup : public ::testing::TestWithParam<std::string> {
 protected:
  static std::vector<std::exception_ptr> run_ranks_catching(int size, const std::function<void(Group)>& body,
                                                            milliseconds timeout) {
    return testing::run_ranks_catching(size, body, timeout, GetParam());
  }

  // Returns the error of rank 0 if rank 1 does nothing after `on_both`.
  static std::string error_while_rank_1_stays_away(
      const std::function<void(Group)>& on_rank_0, milliseconds timeout,
      const std::function<void(Group)>& on_both = [](Group) {}) {
    std::atomic<bool> waiting = true;
    const auto results = run_ranks_catching(
        2,
        [&](Group group) {
          on_both(group);
          if (group->rank() == 1) {
            while (waiting) std::this_thread::sleep_for(milliseconds(10));
            return;
          }
          struct Done {
            std::atomic<bool>& flag;
            ~Done() { flag = false; }
          } done{waiting};
          on_rank_0(group);
        },
        timeout);
    return message_of(results[0]);
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, FailingGroup, ::testing::Values("gloo", "shm"),
                         [](const auto& info) { return info.param; });

TEST_P(FailingGroup, outputs_that_share_memory_are_refused) {
  testing::run_ranks(
      2,
      [](Group group) {
        const Array zeros = ops::zeros({2}), rows = ops::zeros({3, 2});
        EXPECT_ERROR(group->all_gather({zeros, zeros}, ops::ones({2}))->wait(),
                     "all_gather: outputs 0 and 1 share memory");
        EXPECT_ERROR(
            group->all_to_all({rows.slice(0, 0, 2), rows.slice(0, 1, 3)}, {ops::ones({2, 2}), ops::ones({2, 2})})
                ->wait(),
            "all_to_all: outputs 0 and 1 share memory");
        group->all_gather({rows.select(0, 0), rows.select(0, 1)}, ops::full({2}, group->rank() + 1.0))->wait();
        EXPECT_EQ(rows.to_vector<float>(), (std::vector<float>{1, 1, 2, 2, 0, 0}));
      },
      seconds(60), GetParam());
}

// It would take its parent's place in a collective.
TEST_P(FailingGroup, a_forked_process_is_refused) {
  testing::run_ranks(
      2,
      [](Group group) {
        group->barrier()->wait();
        if (group->rank() == 0) {
          const pid_t child = fork();
          if (child == 0) {
            std::string text;
            try {
              group->all_reduce(ops::ones({2}))->wait();
            } catch (const Error& error) {
              text = error.what();
            }
            const auto parent = "Only process " + std::to_string(getppid()) + " may use the group";
            _exit(text.find("all_reduce") == 0 && text.find(parent) != std::string::npos ? 17 : 1);
          }
          int status = 0;
          ASSERT_EQ(waitpid(child, &status, 0), child);
          EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 17);
        }
        const Array ones = ops::ones({2});
        group->all_reduce(ones)->wait();
        EXPECT_EQ(ones.to_vector<float>(), (std::vector<float>{2, 2}));
      },
      seconds(60), GetParam());
}

TEST_P(FailingGroup, names_the_rank_that_went_away) {
  const auto results = run_ranks_catching(
      3,
      [](Group group) {
        group->barrier()->wait();
        if (group->rank() == 1) throw Error("bye");
        group->all_reduce(ops::ones({10}), ReduceOp::sum, "gradient bucket 0")->wait();
      },
      seconds(20));
  EXPECT_EQ(message_of(results[1]), "bye");
  for (const int r : {0, 2}) {
    EXPECT_NE(message_of(results[r]).find("rank 1 ("), std::string::npos) << message_of(results[r]);
    EXPECT_NE(message_of(results[r]).find("during all_reduce 'gradient bucket 0'"), std::string::npos);
  }
}

TEST_P(FailingGroup, names_the_rank_that_does_not_come_in_time) {
  std::atomic<int> waiting = 2;
  const auto start = std::chrono::steady_clock::now();
  const auto results = run_ranks_catching(
      3,
      [&](Group group) {
        if (group->rank() == 2) {
          while (waiting > 0) std::this_thread::sleep_for(milliseconds(10));
          return;
        }
        try {
          group->all_reduce(ops::ones({10}))->wait();
        } catch (...) {
          --waiting;
          throw;
        }
        --waiting;
      },
      milliseconds(800));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
  // The rank that gives up first leaves. The other one then learns the reason from the store.
  for (const int r : {0, 1}) {
    EXPECT_EQ(message_of(results[r]).find("rank 2 ("), 0) << message_of(results[r]);
    EXPECT_NE(message_of(results[r]).find("did not reach all_reduce"), std::string::npos);
  }
}

// A rank publishes the name of an operation as a single line. If the name had two lines, ranks 0 and 1 would conclude
// that the other one waits for a different operation.
TEST_P(FailingGroup, a_name_of_two_lines_is_no_difference) {
  const auto results = run_ranks_catching(
      3,
      [](Group group) {
        if (group->rank() == 2) std::this_thread::sleep_for(seconds(3));
        group->all_reduce(ops::ones({10}), ReduceOp::sum, "bucket\n0\x1b[31m")->wait();
        if (group->rank() == 0) {
          Operation operation{Operation::Kind::barrier, "a\nb\tc\x7f"};
          EXPECT_EQ(operation.what(), "barrier 'a?b?c?'");
        }
      },
      seconds(20));
  for (const auto& result : results) EXPECT_EQ(message_of(result), "");
}

TEST_P(FailingGroup, a_large_reduction_times_out_too) {
  const std::string message = error_while_rank_1_stays_away(
      [](Group group) { group->all_reduce(ops::ones({1000000}))->wait(); }, milliseconds(500));
  EXPECT_NE(message.find("rank 1 ("), std::string::npos) << message;
  EXPECT_NE(message.find("0.5 s"), std::string::npos) << message;
}

TEST_P(FailingGroup, fails_fast_with_the_first_cause_after_a_failure) {
  const auto results = run_ranks_catching(
      2,
      [](Group group) {
        if (group->rank() == 1) return;
        const auto first = group->all_reduce(ops::ones({10}), ReduceOp::sum, "first");
        EXPECT_THROW(first->wait(), Error);
        const auto start = std::chrono::steady_clock::now();
        const auto second = group->broadcast(ops::ones({10}), 0, "second");
        try {
          second->wait();
          ADD_FAILURE() << "an operation of a broken group succeeded";
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find("during all_reduce 'first'"), std::string::npos) << error.what();
        }
        EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(1));
      },
      seconds(20));
  EXPECT_EQ(message_of(results[0]), "");
}

TEST_P(FailingGroup, operations_that_differ_are_named_on_all_ranks) {
  const auto run = [](Group group) {
    if (group->rank() == 1) {
      group->all_reduce(ops::ones({11}), ReduceOp::sum, "eleven")->wait();
    } else {
      group->all_reduce(ops::ones({10}, DType::f64), ReduceOp::max, "ten")->wait();
    }
  };
  const auto start = std::chrono::steady_clock::now();
  const auto results = run_ranks_catching(3, run, seconds(30));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
  for (const auto& result : results) {
    const std::string message = message_of(result);
    EXPECT_NE(message.find("the ranks do not run the same operations"), std::string::npos) << message;
    EXPECT_NE(message.find("all_reduce(sum) of f32 (11)"), std::string::npos) << message;
    EXPECT_NE(message.find("all_reduce(max) of f64 (10)"), std::string::npos) << message;
    EXPECT_NE(message.find("rank 1 ("), std::string::npos) << message;
  }
}

// Otherwise the loss would be added to the accuracy.
TEST_P(FailingGroup, equal_operations_in_another_order_are_told_apart_by_their_names) {
  const auto results = run_ranks_catching(
      2,
      [](Group group) {
        const bool is_first = group->rank() == 0;
        group->all_reduce(ops::ones({1}), ReduceOp::sum, is_first ? "loss" : "accuracy")->wait();
        group->all_reduce(ops::ones({1}), ReduceOp::sum, is_first ? "accuracy" : "loss")->wait();
      },
      seconds(30));
  for (const auto& result : results) {
    const std::string message = message_of(result);
    EXPECT_NE(message.find("the ranks do not run the same operations"), std::string::npos) << message;
    EXPECT_NE(message.find("'loss'"), std::string::npos) << message;
    EXPECT_NE(message.find("'accuracy'"), std::string::npos) << message;
  }
}

TEST_P(FailingGroup, operations_of_two_threads_need_names) {
  testing::run_ranks(
      2,
      [](Group group) {
        group->all_reduce(ops::ones({1}))->wait();
        std::thread([&] {
          EXPECT_ERROR(group->all_reduce(ops::ones({1}))->wait(), "two threads start operations without a name",
                       "give the operations names");
          group->all_reduce(ops::ones({1}), ReduceOp::sum, "of the second thread")->wait();
        }).join();
        group->all_reduce(ops::ones({1}))->wait();
      },
      seconds(30), GetParam());
}

TEST_P(FailingGroup, a_late_rank_is_found_where_it_is) {
  const std::string message =
      error_while_rank_1_stays_away([](Group group) { group->all_reduce(ops::ones({10}))->wait(); }, milliseconds(2500),
                                    [](Group group) { group->barrier()->wait(); });
  EXPECT_NE(message.find("is in no operation of the group, 1 done, and alive"), std::string::npos) << message;
}

TEST_P(FailingGroup, receive_says_whom_it_waits_for) {
  const std::string message = error_while_rank_1_stays_away(
      [](Group group) { group->receive(ops::ones({10}), 1, "weights")->wait(); }, milliseconds(500));
  EXPECT_NE(message.find("did not reach receive 'weights' from rank 1 ("), std::string::npos) << message;
}

TEST_P(FailingGroup, is_destroyed_at_once_while_an_operation_waits) {
  std::atomic<bool> waiting = true;
  const auto start = std::chrono::steady_clock::now();
  std::shared_ptr<Work> abandoned;
  const auto results = run_ranks_catching(
      2,
      [&](Group group) {
        if (group->rank() == 1) {
          while (waiting) std::this_thread::sleep_for(milliseconds(10));
          return;
        }
        abandoned = group->all_reduce(ops::ones({1000000}));
        std::this_thread::sleep_for(milliseconds(100));
        group.reset();
        waiting = false;
      },
      seconds(60));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
  EXPECT_EQ(message_of(results[0]), "");
  EXPECT_ERROR(abandoned->wait(), "all_reduce", "the process group was destroyed while the operation was running");
}

// The test holds the Work of a message that is never sent, and uses it after the group has been destroyed.
TEST_P(FailingGroup, a_message_outlives_its_group) {
  const auto start = std::chrono::steady_clock::now();
  const auto results = run_ranks_catching(
      2,
      [](Group group) {
        if (group->rank() == 1) return group->barrier()->wait();
        auto asked = group->receive(ops::ones({10}), 1, "weights");
        const auto never_asked = group->receive(ops::ones({10}), 1, "weights");
        EXPECT_FALSE(asked->is_done());
        group->barrier()->wait();
        group.reset();
        for (const auto& work : {asked, never_asked}) {
          EXPECT_TRUE(work->is_done());
          EXPECT_ERROR(work->wait(), "receive 'weights'", "the process group was destroyed");
        }
      },
      seconds(60));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
  EXPECT_EQ(message_of(results[0]), "");
}

TEST_P(FailingGroup, a_thread_asks_for_a_message_while_another_waits) {
  const auto results = run_ranks_catching(
      2,
      [](Group group) {
        if (group->rank() == 1) {
          group->barrier()->wait();  // rank 0 has already posted its receive
          return group->send(ops::ones({10}), 0)->wait();
        }
        const auto work = group->receive(ops::zeros({10}), 1);
        std::thread waiting([&] { work->wait(); });
        std::this_thread::sleep_for(milliseconds(200));
        const auto asked = std::chrono::steady_clock::now();
        EXPECT_FALSE(work->is_done());
        EXPECT_FALSE(work->exception());
        EXPECT_LT(std::chrono::steady_clock::now() - asked, seconds(5));
        group->barrier()->wait();
        waiting.join();
        EXPECT_TRUE(work->is_done());
      },
      seconds(20));
  for (const auto& result : results) EXPECT_EQ(message_of(result), "");
}

TEST_P(FailingGroup, asking_does_not_give_a_message_more_time) {
  std::atomic<bool> over = false;
  const auto results = run_ranks_catching(
      2,
      [&](Group group) {
        if (group->rank() == 1) {
          while (!over) std::this_thread::sleep_for(milliseconds(10));
          return;
        }
        const auto begun = std::chrono::steady_clock::now();
        const auto work = group->receive(ops::zeros({10}), 1, "weights");
        std::this_thread::sleep_for(milliseconds(1500));
        EXPECT_FALSE(work->is_done());
        EXPECT_ERROR(work->wait(), "receive 'weights'", "rank 1");
        EXPECT_LT(std::chrono::steady_clock::now() - begun, milliseconds(3000));
        over = true;
      },
      seconds(2));
  EXPECT_EQ(message_of(results[0]), "");
}

TEST_P(FailingGroup, a_rank_that_breaks_off_its_own_operation_is_seen_to_leave) {
  std::atomic<bool> gone = false;
  const auto results = run_ranks_catching(
      3,
      [&](Group group) {
        group->barrier()->wait();
        if (group->rank() == 2) {  // the other two wait for this rank, and one of them leaves during the wait
          while (!gone) std::this_thread::sleep_for(milliseconds(10));
          return;
        }
        const auto work = group->all_reduce(ops::ones({10}));
        if (group->rank() == 0) {
          std::this_thread::sleep_for(milliseconds(100));
          group.reset();
          gone = true;
          return;
        }
        work->wait();
      },
      seconds(30));
  EXPECT_NE(message_of(results[1]).find(") closed the connection during all_reduce"), std::string::npos)
      << message_of(results[1]);
}

// Rank 1's connection is closed before the message is sent. In shared memory, a message would wait for its receiver.
TEST(HostGroup, names_the_rank_that_a_message_over_gloo_cannot_reach) {
  const auto results = testing::run_ranks_catching(
      2,
      [](Group group) {
        group->barrier()->wait();
        if (group->rank() == 1) throw Error("bye");
        std::this_thread::sleep_for(milliseconds(300));
        for (int i = 0; i < 1000; ++i) group->send(ops::ones({1000}), 1, "state")->wait();
      },
      seconds(20), "gloo");
  EXPECT_NE(message_of(results[0]).find("rank 1 ("), std::string::npos) << message_of(results[0]);
  EXPECT_NE(message_of(results[0]).find("during send 'state' to rank 1"), std::string::npos) << message_of(results[0]);
}

// Rank 1 gives up first, and closes its connections shortly before it says why. All ranks must blame rank 2.
// A thread may have blocked the signal when Gloo writes to a rank that is gone. The signal must not kill the process
// when the thread unblocks it.
TEST(HostGroup, a_sigpipe_that_was_blocked_does_no_harm_later) {
  std::signal(SIGPIPE, SIG_DFL);
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  testing::run_ranks_catching(
      2,
      [&](Group group) {
        if (group->rank() == 1) return;
        pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
        raise(SIGPIPE);
        EXPECT_ANY_THROW(group->all_reduce(ops::ones({1 << 20}))->wait());
        pthread_sigmask(SIG_UNBLOCK, &pipe, nullptr);
      },
      seconds(20), "gloo");
}

TEST(HostGroup, a_rank_that_gave_up_waiting_is_not_to_blame) {
  for (const std::string backend : {"gloo", "shm"}) {
    TcpStoreServer server({});
    std::string said[2];
    std::atomic<int> ended = 0;
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        const auto group = host_group(std::make_shared<TcpStore>(TcpStore::Options{.port = server.port()}),
                                      {.rank = rank,
                                       .size = 3,
                                       .timeout = milliseconds(rank == 1 ? 1000 : 20000),
                                       .backend = value_named<GroupBackend>(backend),
                                       .observers = usual_observers()});
        group->barrier()->wait();
        if (rank == 2) {
          while (ended < 2) std::this_thread::sleep_for(milliseconds(10));
          return;
        }
        try {
          group->all_reduce(ops::ones({10}), ReduceOp::sum, "the second")->wait();
        } catch (const PeerError& error) {
          said[rank] = error.what();
        }
        ++ended;
      });
    }
    for (auto& rank : ranks) rank.join();
    for (const auto& text : said) EXPECT_EQ(text.find("rank 2 ("), 0u) << backend << ": " << text;
  }
}

TEST(HostGroup, ranks_with_different_backends_are_named_at_once) {
  for (const auto& backends : {std::vector<std::string>{"shm", "gloo", "shm"}, {"auto", "nccl", "auto"}}) {
    TcpStoreServer server({});
    std::string said[3];
    std::vector<std::thread> ranks;
    const auto start = std::chrono::steady_clock::now();
    for (int rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        try {
          const auto asked = value_named<GroupBackend>(backends[rank]);
          const bool for_gpus = asked == GroupBackend::nccl;  // as when init() calls it
          host_group(std::make_shared<TcpStore>(TcpStore::Options{.port = server.port()}),
                     {.rank = rank,
                      .size = 3,
                      .timeout = seconds(60),
                      .backend = for_gpus ? GroupBackend::automatic : asked,
                      .for_gpus = for_gpus});
        } catch (const Error& error) {
          said[rank] = error.what();
        }
      });
    }
    for (auto& rank : ranks) rank.join();
    EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(20));
    for (const auto& text : said)
      testing::expect_parts(text, {"the ranks were given different backends: ", "rank 1 (", " has " + backends[1],
                                   "rank 0 (", "rank 2 (", " have " + backends[0], "--backend and --device"});
  }
}

TEST(HostGroup, has_no_nccl) {
  TcpStoreServer server({});
  const auto store = std::make_shared<TcpStore>(TcpStore::Options{.port = server.port()});
  EXPECT_EQ(
      testing::error_of([&] { host_group(store, {.backend = GroupBackend::nccl}); }),
      "nccl is not a backend for a group on the host: init() makes NCCL groups; or choose auto, gloo, shm or mpi");
}

TEST(HostGroup, says_what_to_look_at_where_the_ranks_do_not_reach_each_other) {
  TcpStoreServer server({});
  const TcpStore::Options options{.port = server.port()};
  std::thread rank_1([&] {
    TcpStore store(options);
    collect_members(store, 1, 2, {.rank = 1, .backend = "gloo"}, seconds(20));  // rank 1 then sends nothing more
  });
  testing::expect_parts(testing::error_of([&] {
                          host_group(
                              std::make_shared<TcpStore>(options),
                              {.rank = 0, .size = 2, .timeout = milliseconds(500), .backend = GroupBackend::gloo});
                        }),
                        {"rank 0 (", "at 127.0.0.1 could not connect to all other ranks", "--interface", "firewall"});
  rank_1.join();
}

TEST(HostGroup, says_which_rank_never_joined) {
  TcpStoreServer server({});
  const auto store = std::make_shared<TcpStore>(TcpStore::Options{.port = server.port()});
  try {
    host_group(store, {.rank = 0, .size = 2, .timeout = milliseconds(300)});
    ADD_FAILURE() << "a group of two was made by one";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("waited 0.3 s for rank 1 to join"), std::string::npos) << error.what();
  }
}

TEST(HostGroup, names_the_interfaces_there_are) {
  TcpStoreServer server({});
  const auto store = std::make_shared<TcpStore>(TcpStore::Options{.port = server.port()});
  for (const std::string wrong : {"nonsense0", "10.1.2/16", "203.0.113.0/24"}) {
    try {
      host_group(store, {.rank = 0, .size = 1, .interface = wrong, .backend = GroupBackend::gloo});
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(wrong), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(
      host_group(store, {.rank = 0, .size = 1, .interface = "127.0.0.0/8", .backend = GroupBackend::gloo})->size(), 1);
}

}  // namespace
}  // namespace tandem::distributed
