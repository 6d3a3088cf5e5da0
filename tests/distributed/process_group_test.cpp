#include <tandem/distributed/process_group.h>

#include <gtest/gtest.h>
#include <support/ranks.h>
#include <support/temporary_folder.h>

#include <atomic>
#include <cmath>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Group;
using testing::message_of;

template <class T>
Array filled(std::int64_t n, T value) {
  auto array = Array::empty({n}, dtype_of<T>());
  std::fill_n(static_cast<T*>(array.raw()), n, value);
  return array;
}

template <class T>
void check_reductions(Group group, std::int64_t n) {
  const int size = group->size();
  const auto reduced = [&](ReduceOp op) {
    auto array = filled<T>(n, T(static_cast<float>(group->rank() + 1)));
    group->all_reduce(array, op)->wait();
    const T* values = static_cast<const T*>(array.raw());
    // Different parts of a large array are added in different orders, which a mean's rounding may show.
    const double tolerance = op == ReduceOp::mean ? 0.02 : 0;
    for (std::int64_t i = 1; i < n; ++i) EXPECT_NEAR(values[i], values[0], tolerance) << "at " << i;
    return static_cast<double>(values[0]);
  };
  double factorial = 1;
  for (int i = 2; i <= size; ++i) factorial *= i;
  const double sum = size * (size + 1) / 2.0;
  if constexpr (std::is_same_v<T, bool>) {
    EXPECT_EQ(reduced(ReduceOp::max), 1);
    EXPECT_EQ(reduced(ReduceOp::min), 1);
    return;
  }
  EXPECT_EQ(reduced(ReduceOp::sum), sum);
  EXPECT_EQ(reduced(ReduceOp::min), 1);
  EXPECT_EQ(reduced(ReduceOp::max), size);
  EXPECT_EQ(reduced(ReduceOp::product), factorial);
  if (is_floating(dtype_of<T>())) {
    EXPECT_NEAR(reduced(ReduceOp::mean), sum / size, 0.02);
  } else {
    EXPECT_THROW(reduced(ReduceOp::mean), Error);
  }
}

struct Setting {
  std::string backend;
  int size;
};
void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.backend << " of " << setting.size; }

class ProcessGroupOfSize : public ::testing::TestWithParam<Setting> {
 protected:
  static void run_ranks(const std::function<void(Group)>& body) {
    testing::run_ranks(GetParam().size, body, seconds(60), GetParam().backend);
  }
};

TEST_P(ProcessGroupOfSize, reduces_every_dtype_small_and_large) {
  run_ranks([](Group group) {
    for (const std::int64_t n : {1, 1000, 200000}) {
      check_reductions<float>(group, n);
      check_reductions<double>(group, n);
      check_reductions<bfloat16>(group, n);
      check_reductions<float16>(group, n);
      check_reductions<std::int64_t>(group, n);
      check_reductions<std::int32_t>(group, n);
      check_reductions<std::uint8_t>(group, n);
      check_reductions<bool>(group, n);
    }
  });
}

TEST_P(ProcessGroupOfSize, all_ranks_hold_the_same_bits) {
  run_ranks([](Group group) {
    for (const std::int64_t n : {29034, 100003, 1200000}) {
      auto array = Array::empty({n});
      for (std::int64_t i = 0; i < n; ++i)
        array.data<float>()[i] = std::sin(static_cast<float>(i * (group->rank() + 3)));
      group->all_reduce(array, ReduceOp::mean)->wait();
      const std::string mine(static_cast<const char*>(array.raw()), array.bytes());
      const auto all = group->all_gather_strings(mine, "bits");
      for (const auto& other : all) EXPECT_TRUE(other == mine);
    }
  });
}

TEST_P(ProcessGroupOfSize, broadcasts_reduces_and_gathers) {
  run_ranks([](Group group) {
    const int size = group->size(), rank = group->rank();
    for (int root = 0; root < size; ++root) {
      auto array = filled<float>(1000, static_cast<float>(rank));
      group->broadcast(array, root)->wait();
      EXPECT_EQ(array.data<float>()[999], root);

      auto total = filled<float>(1000, static_cast<float>(rank + 1));
      group->reduce(total, root)->wait();
      EXPECT_EQ(total.data<float>()[999], rank == root ? size * (size + 1) / 2 : rank + 1);
    }
    std::vector<Array> outputs;
    for (int r = 0; r < size; ++r) outputs.push_back(Array::empty({3}, DType::i32));
    group->all_gather(outputs, filled<std::int32_t>(3, rank * 10))->wait();
    for (int r = 0; r < size; ++r) EXPECT_EQ(outputs[r].data<std::int32_t>()[2], r * 10);
    group->barrier()->wait();

    const auto texts = group->all_gather_strings(std::string(rank, 'x'), "texts");
    for (int r = 0; r < size; ++r) EXPECT_EQ(texts[r], std::string(r, 'x'));
  });
}

TEST_P(ProcessGroupOfSize, scatters_gathers_and_exchanges) {
  run_ranks([](Group group) {
    const int size = group->size(), rank = group->rank();
    // 3 elements fit in every message's shortest way, 50,000 in none.
    for (const std::int64_t n : {3, 50000}) {
      const auto numbered = [&](int from, int to) { return filled<std::int32_t>(n, from * 100 + to); };
      const auto number = [&](const Array& a) {
        EXPECT_EQ(a.data<std::int32_t>()[0], a.data<std::int32_t>()[n - 1]);
        return a.data<std::int32_t>()[n - 1];
      };
      const auto empty = [&](int count) {
        std::vector<Array> arrays;
        for (int r = 0; r < count; ++r) arrays.push_back(filled<std::int32_t>(n, -1));
        return arrays;
      };
      std::vector<Array> mine;
      for (int r = 0; r < size; ++r) mine.push_back(numbered(rank, r));

      const auto exchanged = empty(size);
      group->all_to_all(exchanged, mine)->wait();
      for (int r = 0; r < size; ++r) EXPECT_EQ(number(exchanged[r]), r * 100 + rank);

      for (int root = 0; root < size; ++root) {
        const auto gathered = empty(rank == root ? size : 0);
        group->gather(gathered, numbered(rank, 7), root)->wait();
        for (std::size_t r = 0; r < gathered.size(); ++r) EXPECT_EQ(number(gathered[r]), r * 100 + 7);

        const auto part = empty(1)[0];
        group->scatter(part, rank == root ? mine : std::vector<Array>(), root)->wait();
        EXPECT_EQ(number(part), root * 100 + rank);
      }

      const auto sum = empty(1)[0];
      group->reduce_scatter(sum, mine)->wait();
      EXPECT_EQ(number(sum), size * (size - 1) / 2 * 100 + size * rank);
    }
    const std::string text(static_cast<std::size_t>(rank) * 1000, static_cast<char>('a' + rank));
    EXPECT_EQ(group->broadcast_string(text, size - 1),
              std::string((size - 1) * 1000, static_cast<char>('a' + size - 1)));
    // Empty ones among others, again and again: they move nothing, and must not let a rank run ahead.
    for (int i = 0; i < 200; ++i) {
      const std::string odd = i % 3 == 0 ? std::to_string(i * rank) : "";
      EXPECT_EQ(group->all_gather_strings(odd)[0], i % 3 == 0 ? "0" : "");
    }
    const auto texts = group->gather_strings(text, 0);
    ASSERT_EQ(texts.size(), rank == 0 ? static_cast<std::size_t>(size) : 0);
    if (rank == 0) {
      EXPECT_EQ(texts[size - 1].size(), static_cast<std::size_t>(size - 1) * 1000);
    }
  });
}

TEST_P(ProcessGroupOfSize, sends_messages_in_order_beside_collectives) {
  run_ranks([](Group group) {
    const int size = group->size(), rank = group->rank();
    if (size == 1) {
      EXPECT_THROW(group->send(filled<float>(1, 1.0f), 0), Error);
      return;
    }
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    std::vector<Array> received;
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < 5; ++i) {
      // Receives first on some ranks and sends first on others; a large message among small ones.
      const std::int64_t n = i == 3 ? 400000 : 10;
      received.push_back(filled<float>(n, -1.0f));
      auto message = filled<float>(n, static_cast<float>(rank * 10 + i));
      if (rank % 2 == 0) works.push_back(group->receive(received.back(), previous, "weights"));
      works.push_back(group->send(message, next, "weights"));
      message.fill(-2);  // what was sent is sent
      if (rank % 2 == 1) works.push_back(group->receive(received.back(), previous, "weights"));
    }
    auto total = filled<float>(10, 1.0f);
    group->all_reduce(total)->wait();
    EXPECT_EQ(total.data<float>()[0], size);
    for (auto work = works.rbegin(); work != works.rend(); ++work) (*work)->wait();
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(received[i].data<float>()[received[i].numel() - 1], previous * 10 + i);
    }
    for (const auto& work : works) EXPECT_TRUE(work->is_done() && !work->exception());
  });
}

TEST_P(ProcessGroupOfSize, an_operation_runs_without_anybody_waiting_for_it) {
  run_ranks([](Group group) {
    auto array = filled<float>(100, 1.0f);
    const auto work = group->all_reduce(array);
    const auto until = std::chrono::steady_clock::now() + seconds(20);
    while (!work->is_done() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    EXPECT_TRUE(work->is_done());
    EXPECT_EQ(array.data<float>()[0], group->size());
  });
}

TEST_P(ProcessGroupOfSize, subgroups_talk_among_themselves) {
  run_ranks([](Group group) {
    const int size = group->size(), rank = group->rank();
    std::vector<int> even, odd;
    for (int r = size - 1; r >= 0; --r) (r % 2 == 0 ? even : odd).push_back(r);
    const auto of_even = group->subgroup(even), of_odd = group->subgroup(odd);
    const auto& mine = rank % 2 == 0 ? of_even : of_odd;
    const auto& ranks = rank % 2 == 0 ? even : odd;
    EXPECT_EQ((rank % 2 == 0 ? of_odd : of_even), nullptr);
    ASSERT_NE(mine, nullptr);
    EXPECT_EQ(ranks[mine->rank()], rank);
    auto array = filled<float>(1000, static_cast<float>(rank));
    mine->all_reduce(array)->wait();
    float sum = 0;
    for (const int r : ranks) sum += static_cast<float>(r);
    EXPECT_EQ(array.data<float>()[999], sum);
    group->barrier()->wait();
    EXPECT_THROW(group->subgroup({size}), Error);
    EXPECT_THROW(group->subgroup({0, 0}), Error);
  });
}

TEST_P(ProcessGroupOfSize, reduces_arrays_in_its_own_memory) {
  run_ranks([](Group group) {
    std::vector<Array> kept;
    for (const std::int64_t n : {5, 100003, 3000001}) {
      auto array = group->allocate({n}, DType::f32);
      EXPECT_EQ(array.data<float>()[n - 1], 0);
      array.fill(group->rank() + 1);
      group->all_reduce(array)->wait();
      const float sum = static_cast<float>(group->size() * (group->size() + 1) / 2);
      for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(array.data<float>()[i], sum) << i;
      group->broadcast(array, 0)->wait();
      kept.push_back(array);
    }
    group->barrier()->wait();
    group.reset();
    EXPECT_GT(kept[2].data<float>()[3000000], 0);
  });
}

TEST_P(ProcessGroupOfSize, takes_arrays_of_any_strides) {
  run_ranks([](Group group) {
    auto matrix = Array::empty({4, 6});
    matrix.fill(-1);
    auto column = matrix.select(1, 2);
    column.fill(group->rank() + 1);
    group->all_reduce(column)->wait();
    const int size = group->size();
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(matrix.data<float>()[i * 6 + 2], size * (size + 1) / 2);
      EXPECT_EQ(matrix.data<float>()[i * 6 + 3], -1);
    }
    column.fill(group->rank());
    group->broadcast(column, size - 1)->wait();
    EXPECT_EQ(matrix.data<float>()[2], size - 1);
  });
}

TEST_P(ProcessGroupOfSize, runs_many_operations_in_the_order_of_their_start) {
  run_ranks([](Group group) {
    std::vector<Array> arrays;
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < 200; ++i) {
      arrays.push_back(filled<float>(1 + i * 50, static_cast<float>(i)));
      works.push_back(group->all_reduce(arrays.back()));
    }
    works.back()->wait();
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(works[i]->is_done());
      works[i]->wait();
      EXPECT_EQ(arrays[i].data<float>()[0], i * group->size());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, ProcessGroupOfSize,
                         ::testing::Values(Setting{"gloo", 1}, Setting{"gloo", 2}, Setting{"gloo", 3},
                                           Setting{"gloo", 4}, Setting{"shm", 1}, Setting{"shm", 2},
                                           Setting{"shm", 3}, Setting{"shm", 4}),
                         [](const auto& info) {
                           return info.param.backend + std::to_string(info.param.size);
                         });

std::vector<Setting> mpi_settings() {
  return testing::mpi_size() > 0 ? std::vector<Setting>{{"mpi", testing::mpi_size()}}
                                 : std::vector<Setting>{};
}
INSTANTIATE_TEST_SUITE_P(UnderMpirun, ProcessGroupOfSize, ::testing::ValuesIn(mpi_settings()));

TEST(LocalGroup, changes_nothing_and_checks_its_arguments) {
  const auto group = local_group();
  auto array = filled<float>(3, 2.0f);
  group->all_reduce(array, ReduceOp::mean)->wait();
  group->broadcast(array, 0)->wait();
  group->reduce(array, 0)->wait();
  EXPECT_EQ(array.data<float>()[0], 2);
  EXPECT_EQ(group->all_gather_strings("me", "names"), std::vector<std::string>{"me"});
  EXPECT_THROW(group->broadcast(array, 1), Error);
  EXPECT_THROW(group->all_reduce(filled<std::int32_t>(1, 1), ReduceOp::mean), Error);
  EXPECT_THROW(group->all_gather({}, array), Error);
}

class FailingGroup : public ::testing::TestWithParam<std::string> {
 protected:
  static std::vector<std::exception_ptr> run_ranks_catching(int size, const std::function<void(Group)>& body,
                                                            milliseconds timeout) {
    return testing::run_ranks_catching(size, body, timeout, GetParam());
  }

  // What rank 0 of two ends with when rank 1 does nothing after `on_both`.
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

TEST_P(FailingGroup, names_the_rank_that_went_away) {
  const auto results = run_ranks_catching(
      3,
      [](Group group) {
        group->barrier()->wait();
        if (group->rank() == 1) throw Error("bye");
        group->all_reduce(filled<float>(10, 1.0f), ReduceOp::sum, "gradient bucket 0")->wait();
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
          group->all_reduce(filled<float>(10, 1.0f))->wait();
        } catch (...) {
          --waiting;
          throw;
        }
        --waiting;
      },
      milliseconds(800));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
  // Whoever gives up first leaves; the other then learns from the store why.
  for (const int r : {0, 1}) {
    EXPECT_EQ(message_of(results[r]).find("rank 2 ("), 0) << message_of(results[r]);
    EXPECT_NE(message_of(results[r]).find("did not come within 0.8 s to all_reduce"), std::string::npos);
  }
}

TEST_P(FailingGroup, a_large_reduction_times_out_too) {
  const std::string message = error_while_rank_1_stays_away(
      [](Group group) { group->all_reduce(filled<float>(1000000, 1.0f))->wait(); }, milliseconds(500));
  EXPECT_NE(message.find("rank 1 ("), std::string::npos) << message;
  EXPECT_NE(message.find("0.5 s"), std::string::npos) << message;
}

TEST_P(FailingGroup, fails_fast_with_the_first_cause_after_a_failure) {
  const auto results = run_ranks_catching(
      2,
      [](Group group) {
        if (group->rank() == 1) return;
        const auto first = group->all_reduce(filled<float>(10, 1.0f), ReduceOp::sum, "first");
        EXPECT_THROW(first->wait(), Error);
        const auto start = std::chrono::steady_clock::now();
        const auto second = group->broadcast(filled<float>(10, 1.0f), 0, "second");
        try {
          second->wait();
          ADD_FAILURE() << "an operation of a broken group succeeded";
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find("during all_reduce 'first'"), std::string::npos)
              << error.what();
        }
        EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(1));
      },
      seconds(20));
  EXPECT_EQ(message_of(results[0]), "");
}

TEST_P(FailingGroup, operations_that_differ_are_named_on_all_ranks) {
  const auto run = [](Group group) {
    if (group->rank() == 1) {
      group->all_reduce(filled<float>(11, 1.0f), ReduceOp::sum, "eleven")->wait();
    } else {
      group->all_reduce(filled<double>(10, 1.0), ReduceOp::max, "ten")->wait();
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

TEST_P(FailingGroup, a_late_rank_is_found_where_it_is) {
  const std::string message =
      error_while_rank_1_stays_away([](Group group) { group->all_reduce(filled<float>(10, 1.0f))->wait(); },
                                    milliseconds(2500), [](Group group) { group->barrier()->wait(); });
  EXPECT_NE(message.find("is in no operation of the group, 1 done, and alive"), std::string::npos) << message;
}

TEST_P(FailingGroup, receive_says_whom_it_waits_for) {
  const std::string message = error_while_rank_1_stays_away(
      [](Group group) { group->receive(filled<float>(10, 1.0f), 1, "weights")->wait(); }, milliseconds(500));
  EXPECT_NE(message.find("did not come within 0.5 s to receive 'weights' from rank 1 ("), std::string::npos)
      << message;
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
        abandoned = group->all_reduce(filled<float>(1000000, 1.0f));
        std::this_thread::sleep_for(milliseconds(100));
        group.reset();
        waiting = false;
      },
      seconds(60));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
  EXPECT_EQ(message_of(results[0]), "");
  EXPECT_ERROR(abandoned->wait(), "all_reduce",
               "the process group was destroyed while the operation was running");
}

// A message that nobody will send: somebody still holds its work, and asks, when the group is gone.
TEST_P(FailingGroup, a_message_outlives_its_group) {
  const auto start = std::chrono::steady_clock::now();
  const auto results = run_ranks_catching(
      2,
      [](Group group) {
        if (group->rank() == 1) return group->barrier()->wait();
        auto asked = group->receive(filled<float>(10, 1.0f), 1, "weights");
        const auto never_asked = group->receive(filled<float>(10, 1.0f), 1, "weights");
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

TEST_P(FailingGroup, a_rank_that_breaks_off_its_own_operation_is_seen_to_leave) {
  std::atomic<bool> gone = false;
  const auto results = run_ranks_catching(
      3,
      [&](Group group) {
        group->barrier()->wait();
        if (group->rank() == 2) {  // the other two wait for it, and one of them is in the middle of waiting
          while (!gone) std::this_thread::sleep_for(milliseconds(10));
          return;
        }
        const auto work = group->all_reduce(filled<float>(10, 1.0f));
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

TEST(HostGroup, says_which_rank_never_joined) {
  TcpStoreServer server({});
  const auto store = std::make_shared<TcpStore>(TcpStore::Options{.port = server.port()});
  try {
    host_group(store, {.rank = 0, .size = 2, .timeout = milliseconds(300)});
    ADD_FAILURE() << "a group of two was made by one";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("waited 0.3 s for rank 1 to join"), std::string::npos)
        << error.what();
  }
}

TEST(HostGroup, names_the_interfaces_there_are) {
  TcpStoreServer server({});
  const auto store = std::make_shared<TcpStore>(TcpStore::Options{.port = server.port()});
  for (const std::string wrong : {"nonsense0", "10.1.2/16", "203.0.113.0/24"}) {
    try {
      host_group(store, {.rank = 0, .size = 1, .interface = wrong, .backend = "gloo"});
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(wrong), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(host_group(store, {.rank = 0, .size = 1, .interface = "127.0.0.0/8", .backend = "gloo"})->size(),
            1);
}

}  // namespace
}  // namespace tandem::distributed
