#include <tandem/distributed/process_group.h>

#include <gtest/gtest.h>
#include <support/ranks.h>

#include <atomic>
#include <cmath>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Group;
using testing::message_of;
using testing::run_ranks;
using testing::run_ranks_catching;

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

class ProcessGroupOfSize : public ::testing::TestWithParam<int> {};

TEST_P(ProcessGroupOfSize, reduces_every_dtype_small_and_large) {
  run_ranks(GetParam(), [](Group group) {
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
  run_ranks(GetParam(), [](Group group) {
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
  run_ranks(GetParam(), [](Group group) {
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

TEST_P(ProcessGroupOfSize, takes_arrays_of_any_strides) {
  run_ranks(GetParam(), [](Group group) {
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
  run_ranks(GetParam(), [](Group group) {
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

INSTANTIATE_TEST_SUITE_P(Sizes, ProcessGroupOfSize, ::testing::Values(1, 2, 3, 4));

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

TEST(GlooGroup, names_the_rank_that_went_away) {
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

TEST(GlooGroup, names_the_rank_that_does_not_come_in_time) {
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

TEST(GlooGroup, a_large_reduction_times_out_too) {
  std::atomic<bool> waiting = true;
  const auto results = run_ranks_catching(
      2,
      [&](Group group) {
        if (group->rank() == 1) {
          while (waiting) std::this_thread::sleep_for(milliseconds(10));
          return;
        }
        struct Done {
          std::atomic<bool>& flag;
          ~Done() { flag = false; }
        } done{waiting};
        group->all_reduce(filled<float>(1000000, 1.0f))->wait();
      },
      milliseconds(500));
  EXPECT_NE(message_of(results[0]).find("rank 1 ("), std::string::npos) << message_of(results[0]);
  EXPECT_NE(message_of(results[0]).find("0.5 s"), std::string::npos) << message_of(results[0]);
}

TEST(GlooGroup, fails_fast_with_the_first_cause_after_a_failure) {
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

TEST(GlooGroup, arrays_of_different_sizes_never_meet) {
  const auto results = run_ranks_catching(
      2, [](Group group) { group->all_reduce(filled<float>(10 + group->rank(), 1.0f))->wait(); },
      milliseconds(500));
  EXPECT_NE(message_of(results[0]) + message_of(results[1]), "");
}

TEST(GlooGroup, is_destroyed_at_once_while_an_operation_waits) {
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
  EXPECT_THROW(abandoned->wait(), Error);
}

TEST(GlooGroup, says_which_rank_never_joined) {
  TcpStoreServer server({});
  const auto store = std::make_shared<TcpStore>(TcpStore::Options{.port = server.port()});
  try {
    gloo_group(store, {.rank = 0, .size = 2, .timeout = milliseconds(300)});
    ADD_FAILURE() << "a group of two was made by one";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("waited 0.3 s for rank 1 to join"), std::string::npos)
        << error.what();
  }
}

TEST(GlooGroup, names_the_interfaces_there_are) {
  TcpStoreServer server({});
  const auto store = std::make_shared<TcpStore>(TcpStore::Options{.port = server.port()});
  for (const std::string wrong : {"nonsense0", "10.1.2/16", "203.0.113.0/24"}) {
    try {
      gloo_group(store, {.rank = 0, .size = 1, .interface = wrong});
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(wrong), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(gloo_group(store, {.rank = 0, .size = 1, .interface = "127.0.0.0/8"})->size(), 1);
}

}  // namespace
}  // namespace tandem::distributed
