// Tests the results of a process group's operations, on groups of every size and backend.
#include <tandem/core/profile/profile.h>
#include <tandem/distributed/groups/local_group.h>
#include <tandem/distributed/groups/process_group.h>

#include <gtest/gtest.h>
#include <support/ranks.h>
#include <support/temporary_folder.h>
#include <support/trace.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

namespace tandem::distributed {
namespace {

using std::chrono::seconds;
using testing::Group;

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
    // Different parts of a large array are added in different orders, which may be visible in the rounding of a mean.
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

// A NaN on any rank becomes the result.
template <class T>
void check_nan(Group group, ReduceOp op) {
  const T nan(std::numeric_limits<float>::quiet_NaN());
  const int size = group->size(), rank = group->rank();
  // There is one element for each rank, at which that rank has a NaN, and one element without NaN.
  auto array = filled<T>(size + 1, T(static_cast<float>(rank + 1)));
  static_cast<T*>(array.raw())[rank] = nan;
  group->all_reduce(array, op)->wait();
  for (int i = 0; i < size; ++i) EXPECT_TRUE(std::isnan(static_cast<float>(static_cast<T*>(array.raw())[i]))) << i;
  EXPECT_EQ(static_cast<float>(static_cast<T*>(array.raw())[size]), op == ReduceOp::max ? size : 1);
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

TEST_P(ProcessGroupOfSize, minimum_and_maximum_keep_a_nan_of_any_rank) {
  run_ranks([](Group group) {
    for (const auto op : {ReduceOp::min, ReduceOp::max}) {
      check_nan<float>(group, op);
      check_nan<double>(group, op);
      check_nan<bfloat16>(group, op);
      check_nan<float16>(group, op);
    }
  });
}

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

TEST_P(ProcessGroupOfSize, makes_one_number_of_all_ranks_numbers) {
  run_ranks([](Group group) {
    const int rank = group->rank(), size = group->size();
    EXPECT_EQ(group->sum(rank + 0.5, "figures"), size * size / 2.0);
    EXPECT_EQ(group->mean(rank + 0.5), size / 2.0);
    EXPECT_EQ(group->max(-rank - 1.5), -1.5);
    // All digits of f64 are transferred. f32 would lose the last ones.
    EXPECT_EQ(group->max(rank == 0 ? 1 + 1e-15 : 0), 1 + 1e-15);
    // All ranks have the same bits, whatever the order of the sum.
    const double third = group->sum((rank + 1) / 3.0);
    EXPECT_EQ(group->max(third), third);
    EXPECT_EQ(-group->max(-third), third);
  });
}

TEST_P(ProcessGroupOfSize, scatters_gathers_and_exchanges) {
  run_ranks([](Group group) {
    const int size = group->size(), rank = group->rank();
    // 3 elements are few enough for the shortest path of every message, and 50,000 are too many for it.
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
    // Some of the strings are empty. They move no bytes, but must not let a rank run ahead.
    for (int i = 0; i < 200; ++i) {
      const std::string odd = i % 3 == 0 ? std::to_string(i * rank) : "";
      EXPECT_EQ(group->all_gather_strings(odd)[0], i % 3 == 0 ? "0" : "");
    }
    const auto texts = group->all_gather_strings(text);
    ASSERT_EQ(texts.size(), static_cast<std::size_t>(size));
    EXPECT_EQ(texts[size - 1].size(), static_cast<std::size_t>(size - 1) * 1000);
  });
}

TEST_P(ProcessGroupOfSize, sends_messages_in_order_beside_collectives) {
  run_ranks([](Group group) {
    const int size = group->size(), rank = group->rank();
    if (size == 1) {
      EXPECT_THROW((void)group->send(filled<float>(1, 1.0f), 0), Error);
      return;
    }
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    std::vector<Array> received;
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < 5; ++i) {
      // Some ranks receive first, and others send first. One of the messages is large.
      const std::int64_t n = i == 3 ? 400000 : 10;
      received.push_back(filled<float>(n, -1.0f));
      auto message = filled<float>(n, static_cast<float>(rank * 10 + i));
      if (rank % 2 == 0) works.push_back(group->receive(received.back(), previous, "weights"));
      works.push_back(group->send(message, next, "weights"));
      message.fill(-2);  // changes nothing that is already sent
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

TEST_P(ProcessGroupOfSize, two_threads_may_send_and_receive_at_once) {
  run_ranks([](Group group) {
    const int size = group->size(), rank = group->rank();
    if (size == 1) return;
    constexpr int messages = 400;  // of each thread
    const auto exchange = [&] {
      const auto message = filled<float>(64, static_cast<float>(rank));
      for (int i = 0; i < messages; ++i) {
        auto received = filled<float>(64, -1.0f);
        const auto sent = group->send(message, (rank + 1) % size, "from a thread");
        group->receive(received, (rank + size - 1) % size, "from a thread")->wait();
        sent->wait();
        ASSERT_EQ(received.data<float>()[63], (rank + size - 1) % size);
      }
    };
    std::thread other(exchange);
    exchange();
    other.join();
  });
}

TEST(ProcessGroup, a_trace_names_the_message_that_is_waited_for) {
  const testing::TemporaryFolder folder;
  const auto path = (folder / "trace.json").string();
  Profile::start(path);
  const auto errors = testing::run_ranks_catching(2, [](Group group) {
    auto message = filled<float>(10, 1.0f);
    if (group->rank() == 0) group->send(message, 1, "gradients")->wait();
    else group->receive(message, 0, "gradients")->wait();
  });
  Profile::stop();
  for (const auto& error : errors) EXPECT_FALSE(error);
  std::vector<std::string> named;
  for (const auto& range : testing::read_trace(path).ranges)
    if (range.at("name") == "wait for ranks" && range.contains("args")) named.push_back(range.at("args").at("name"));
  std::sort(named.begin(), named.end());
  EXPECT_EQ(named, (std::vector<std::string>{"receive 'gradients'", "send 'gradients'"}));
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
                                           Setting{"gloo", 4}, Setting{"shm", 1}, Setting{"shm", 2}, Setting{"shm", 3},
                                           Setting{"shm", 4}),
                         [](const auto& info) { return info.param.backend + std::to_string(info.param.size); });

std::vector<Setting> mpi_settings() {
  return testing::mpi_size() > 0 ? std::vector<Setting>{{"mpi", testing::mpi_size()}} : std::vector<Setting>{};
}
INSTANTIATE_TEST_SUITE_P(UnderMpirun, ProcessGroupOfSize, ::testing::ValuesIn(mpi_settings()));

TEST(LocalGroup, changes_nothing_and_checks_its_arguments) {
  const auto group = local_group();
  auto array = filled<float>(3, 2.0f);
  group->all_reduce(array, ReduceOp::mean)->wait();
  group->broadcast(array, 0)->wait();
  group->reduce(array, 0)->wait();
  EXPECT_EQ(array.data<float>()[0], 2);
  EXPECT_EQ(group->sum(3.5), 3.5);
  EXPECT_EQ(group->mean(3.5), 3.5);
  EXPECT_EQ(group->max(-3.5), -3.5);
  EXPECT_EQ(group->all_gather_strings("me", "names"), std::vector<std::string>{"me"});
  EXPECT_THROW((void)group->broadcast(array, 1), Error);
  EXPECT_THROW((void)group->all_reduce(filled<std::int32_t>(1, 1), ReduceOp::mean), Error);
  EXPECT_THROW((void)group->all_gather({}, array), Error);
}

}  // namespace
}  // namespace tandem::distributed
