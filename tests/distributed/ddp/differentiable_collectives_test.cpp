#include <tandem/autograd/functions.h>
#include <tandem/autograd/functions/distance.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/ddp/differentiable_collectives.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <support/ranks.h>
#include <support/small_training.h>
#include <support/temporary_folder.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <thread>

namespace tandem::distributed {
namespace {

using testing::expect_close;
using testing::expect_parts;
using testing::expect_same;
using testing::Group;
using testing::message_of;
using testing::noise_array;
using testing::run_ranks;
using testing::run_ranks_catching;
using testing::Samples;
using Sizes = std::vector<std::int64_t>;  // the rows of each rank

std::int64_t rows_of(const Sizes& sizes) { return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}); }

std::int64_t first_row(const Sizes& sizes, int rank) {
  return std::accumulate(sizes.begin(), sizes.begin() + rank, std::int64_t{0});
}

Array part_of(const Array& array, const Sizes& sizes, int rank) {
  const auto begin = first_row(sizes, rank);
  return array.slice(0, begin, begin + sizes[static_cast<std::size_t>(rank)]);
}

Array noise(const Shape& shape, std::int64_t seed) { return noise_array(shape, 10000 * seed); }

// Runs body(group, sizes) for even and uneven divisions of rows, over shared memory and over TCP.
void for_all_divisions(const std::function<void(Group, const Sizes&)>& body) {
  for (const char* backend : {"shm", "gloo"})
    for (const Sizes& sizes : {Sizes{5}, Sizes{3, 3}, Sizes{0, 6}, Sizes{2, 2, 2}, Sizes{4, 0, 1}, Sizes{1, 2, 0, 3},
                               Sizes{2, 2, 2, 2}, Sizes{0, 0}}) {
      SCOPED_TRACE(std::string(backend) + ", " + std::to_string(sizes.size()) + " ranks");
      run_ranks(
          static_cast<int>(sizes.size()), [&](Group group) { body(group, sizes); }, std::chrono::seconds(60), backend);
    }
}

// Each rank has different weights for the rows of all ranks.
TEST(DifferentiableCollectives, all_gather_has_the_gradient_of_one_process_with_all_rows) {
  for_all_divisions([](Group group, const Sizes& sizes) {
    const Shape shape = {rows_of(sizes), 3, 2};
    const Tensor whole(noise(shape, 100), true);
    Tensor total = sum(whole) * 0;
    for (int r = 0; r < group->size(); ++r) total = total + sum(whole * whole * noise(shape, r));
    total.backward();

    const Tensor mine(part_of(whole.value(), sizes, group->rank()).clone(), true);
    const Tensor all = all_gather(mine, group);
    expect_same(whole.value(), all.value(), "rows");
    sum(all * all * noise(shape, group->rank())).backward();
    expect_close(part_of(whole.grad(), sizes, group->rank()), mine.grad(), 1e-5, "gradient");
  });
}

TEST(DifferentiableCollectives, reduce_scatter_has_the_gradient_of_one_process_with_all_inputs) {
  for_all_divisions([](Group group, const Sizes& sizes) {
    const Shape shape = {rows_of(sizes), 3};
    const Array weights = noise(shape, 99);
    Array sums = ops::zeros(shape);
    for (int r = 0; r < group->size(); ++r) ops::add_(sums, noise(shape, r));
    const Tensor whole(sums, true);
    sum(whole * whole * weights).backward();

    const Array numbers = noise(shape, group->rank());
    const Tensor input(group->rank() % 2 == 0 ? numbers.clone() : testing::strided(numbers), true);
    const Tensor mine = reduce_scatter(input, sizes[static_cast<std::size_t>(group->rank())], group);
    expect_close(part_of(sums, sizes, group->rank()), mine.value(), 1e-5, "rows of the sum");
    expect_same(numbers, input.value(), "input");
    sum(mine * mine * part_of(weights, sizes, group->rank())).backward();
    expect_close(whole.grad(), input.grad(), 1e-5, "gradient");
  });
}

TEST(DifferentiableCollectives, all_reduce_has_the_gradient_of_one_process_with_all_inputs) {
  for_all_divisions([](Group group, const Sizes&) {
    const Shape shape = {3, 2};
    Array sums = ops::zeros(shape);
    for (int r = 0; r < group->size(); ++r) ops::add_(sums, noise(shape, r));
    const Tensor whole(sums, true);
    Tensor total = sum(whole) * 0;
    for (int r = 0; r < group->size(); ++r) total = total + sum(whole * whole * noise(shape, 50 + r));
    total.backward();

    const Tensor mine(noise(shape, group->rank()), true);
    const Tensor all = all_reduce(mine, group);
    expect_close(sums, all.value(), 1e-5, "sum");
    sum(all * all * noise(shape, 50 + group->rank())).backward();
    expect_close(whole.grad(), mine.grad(), 1e-5, "gradient");
  });
}

TEST(DifferentiableCollectives, gather_arrays_of_any_dtype) {
  run_ranks(3, [](Group group) {
    for (const DType dtype : {DType::i64, DType::u8, DType::boolean, DType::bf16, DType::f64}) {
      const Array all = testing::counting({6, 2}).to(dtype);
      const Tensor found = all_gather(part_of(all, {3, 1, 2}, group->rank()), group);
      expect_same(all, found.value(), name_of(dtype));
      EXPECT_FALSE(found.requires_grad());
    }
  });
}

// ---- Which ranks take part in backward

TEST(DifferentiableCollectives, a_rank_whose_input_needs_no_gradient_takes_part_in_backward) {
  run_ranks(3, [](Group group) {
    const bool needs = group->rank() == 1;
    const Tensor mine(noise({2, 2}, group->rank()), needs);
    const Tensor all = all_gather(mine, group);
    EXPECT_TRUE(all.requires_grad());
    sum(all * static_cast<double>(group->rank() + 1)).backward();
    if (needs) expect_same(ops::full({2, 2}, 6), mine.grad(), "gradient");
    EXPECT_FALSE(!needs && mine.requires_grad());
  });
}

TEST(DifferentiableCollectives, record_nothing_under_NoGrad) {
  run_ranks(2, [](Group group) {
    const NoGrad no_grad;
    const Tensor mine(ops::ones({group->rank() + 1, 2}), true);
    EXPECT_FALSE(all_gather(mine, group).requires_grad());
    EXPECT_FALSE(reduce_scatter(Tensor(ops::ones({3}), true), group->rank() + 1, group).requires_grad());
    EXPECT_FALSE(all_reduce(Tensor(ops::ones({3}), true), group).requires_grad());
  });
}

TEST(DifferentiableCollectives, refuse_NoGrad_on_some_ranks) {
  run_ranks(3, [](Group group) {
    const Tensor mine(ops::ones({1}), group->rank() == 0);
    std::optional<NoGrad> no_grad;
    if (group->rank() == 2) no_grad.emplace();
    expect_parts(testing::error_of([&] { all_gather(mine, group, "keys"); }),
                 {"all_gather of keys: the input of rank 0 needs a gradient, but rank 2 is under NoGrad"});
    EXPECT_EQ(group->sum(1), 3);  // the group is still usable
  });
}

TEST(DifferentiableCollectives, run_backward_again_through_a_retained_graph) {
  run_ranks(2, [](Group group) {
    const Tensor mine(ops::ones({group->rank() + 1, 2}), true);
    const Tensor loss = sum(all_gather(mine, group));
    loss.backward({.retain_graph = true});
    loss.backward();
    expect_same(ops::full(mine.shape(), 4), mine.grad(), "gradient");
  });
}

// Both gathers have the same name and shape. If the reductions were mixed, both ranks would have wrong gradients.
TEST(DifferentiableCollectives, refuse_to_mix_the_gradients_of_two_calls) {
  for (const char* backend : {"shm", "gloo"}) {
    const auto results = run_ranks_catching(
        2,
        [](Group group) {
          const Tensor a(ops::ones({2, 2}), true), b(ops::ones({2, 2}), true);
          const Tensor first = all_gather(a, group, "rows"), second = all_gather(b, group, "rows");
          sum(group->rank() == 0 ? first : second).backward();
        },
        std::chrono::seconds(20), backend);
    for (const auto& result : results) expect_parts(message_of(result), {"gradient of all_gather of rows, call "});
  }
}

TEST(DifferentiableCollectives, name_the_rank_that_runs_no_backward) {
  std::atomic<bool> is_over = false;
  const auto results = run_ranks_catching(
      2,
      [&](Group group) {
        const Tensor mine(ops::ones({group->rank() + 1, 2}), true);
        const Tensor all = all_gather(mine, group, "keys");
        if (group->rank() == 0) {
          const auto error = testing::error_of([&] { sum(all).backward(); });
          expect_parts(error, {"gradient of all_gather of keys, call ", "rank 1"});
          is_over = true;
        }
        while (!is_over) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      },
      std::chrono::seconds(4));
  EXPECT_EQ(message_of(results[0]), "");
}

// ---- Inputs that do not fit together

TEST(DifferentiableCollectives, name_the_ranks_whose_shapes_differ) {
  run_ranks(3, [](Group group) {
    const bool differs = group->rank() == 2;
    const auto error_of_gather = [&](const Array& usual, const Array& other) {
      return testing::error_of([&] { all_gather(differs ? other : usual, group, "keys"); });
    };
    expect_parts(
        error_of_gather(ops::ones({4, 3}), ops::ones({2, 5})),
        {"all_gather of keys: rank 0 has f32 (4, 3), but rank 2 has f32 (2, 5)", "dimensions after the first"});
    expect_parts(error_of_gather(ops::ones({4, 3}), ops::ones({4})), {"rank 0 has f32 (4, 3), but rank 2 has f32 (4)"});
    expect_parts(error_of_gather(ops::ones({4}), ops::ones({})), {"rank 0 has f32 (4), but rank 2 has f32 ()"});
    expect_parts(error_of_gather(ops::ones({}), ops::ones({})), {"all_gather of keys: a scalar has no rows"});
    expect_parts(error_of_gather(ops::ones({4}), ops::ones({4}, DType::i64)), {"but rank 2 has i64 (4)"});
    expect_parts(testing::error_of([&] {
                   all_reduce(ops::ones({differs ? 2 : 3, 4}), group);
                 }),
                 {"all_reduce: rank 0 has f32 (3, 4), but rank 2 has f32 (2, 4)", "the same shape"});
    expect_parts(testing::error_of([&] {
                   reduce_scatter(ops::ones({differs ? 2 : 3, 4}), 1, group);
                 }),
                 {"reduce_scatter: rank 0 has f32 (3, 4), but rank 2 has f32 (2, 4)"});
    expect_parts(testing::error_of([&] {
                   reduce_scatter(ops::ones({7, 4}), group->rank() + 1, group);
                 }),
                 {"reduce_scatter: the ranks ask for 1 + 2 + 3 rows of an array of shape (7, 4)"});
    expect_parts(testing::error_of([&] {
                   reduce_scatter(ops::ones({7, 4}), differs ? -1 : 4, group);
                 }),
                 {"the ranks ask for 4 + 4 + -1 rows"});
    EXPECT_EQ(group->sum(1), 3);  // the group is still usable
  });
}

TEST(DifferentiableCollectives, need_a_group) {
  expect_parts(testing::error_of([] { all_gather(ops::ones({1}), nullptr); }),
               {"all_gather: the process group is null"});
}

// ---- With DistributedDataParallel

// The InfoNCE loss of queries[i] with the key first + i among all keys (van den Oord, Li, Vinyals, "Representation
// Learning with Contrastive Predictive Coding", arXiv:1807.03748), divided by the number of keys.
Tensor info_nce(const Tensor& queries, const Tensor& keys, std::int64_t first) {
  const Tensor logits = linear(queries, keys) * 5;
  const Array labels = ops::arange(first, first + queries.dim(0), 1, DType::i64);
  return cross_entropy(logits, labels, {.reduction = LossReduction::sum}) / static_cast<double>(keys.dim(0));
}

TEST(DifferentiableCollectives, a_contrastive_loss_with_ddp_has_the_gradients_of_one_process) {
  const auto numbers_of = [](const nn::Module& model) {
    std::vector<Array> gradients;
    for (const auto& parameter : model.parameters()) gradients.push_back(parameter.tensor.grad().clone());
    return gradients;
  };
  const auto views = [](std::int64_t begin, std::int64_t count) {
    return std::pair(Samples(begin, count).images, Samples(1000 + begin, count).images);
  };
  for (const Sizes& sizes : {Sizes{4, 4}, Sizes{5, 3}, Sizes{3, 4, 1}, Sizes{2, 2, 2}, Sizes{1, 2, 0, 4}}) {
    SCOPED_TRACE(std::to_string(sizes.size()) + " ranks");
    const std::int64_t batch = rows_of(sizes);
    std::vector<std::vector<Array>> expected;
    manual_seed(5);
    auto alone = testing::plain_network();
    for (int step = 0; step < 3; ++step) {
      const auto [one, other] = views(step * batch, batch);
      const Tensor a = normalize(alone(one)), b = normalize(alone(other));
      alone.zero_grad();
      (info_nce(a, b, 0) + info_nce(b, a, 0)).backward();
      expected.push_back(numbers_of(alone));
    }
    run_ranks(static_cast<int>(sizes.size()), [&](Group group) {
      const int rank = group->rank();
      manual_seed(5);
      auto model = testing::plain_network();
      DistributedDataParallel ddp(model, group, {.buckets = {.first_bytes = 64, .bytes = 512}});
      const std::int64_t first = first_row(sizes, rank);
      for (int step = 0; step < 3; ++step) {
        const auto [one, other] = views(step * batch + first, sizes[static_cast<std::size_t>(rank)]);
        const Tensor a = normalize(ddp(one)), b = normalize(ddp(other));
        const Tensor loss =
            info_nce(a, all_gather(b, group, "keys"), first) + info_nce(b, all_gather(a, group, "queries"), first);
        model.zero_grad();
        (loss * group->size()).backward();
        const auto found = numbers_of(model);
        for (std::size_t i = 0; i < found.size(); ++i)
          expect_close(expected[static_cast<std::size_t>(step)][i], found[i], 2e-5, "gradient " + std::to_string(i));
      }
    });
  }
}

// On rank 0, the bucket of `sometimes` is full before the gradient of the gathered rows. Rank 1 does not use that layer
// and learns so only when another gradient is final.
void train_different_graphs(Group group, bool has_own_group) {
  manual_seed(1);
  testing::Branches model;
  DistributedDataParallel ddp(model, group, {.buckets = {.first_bytes = 4, .bytes = 4}, .unused = Unused::zero});
  const Group of_gather = has_own_group ? group->subgroup({0, 1}) : group;
  const Array x = noise({3, 2}, group->rank());
  const Tensor all = all_gather(model.always(x), of_gather, "rows");
  sum(group->rank() == 0 ? all + sum(model.sometimes(x)) : all).backward();
  const Array both = ops::zip(functors::Add{}, ops::reduce({reductions::Sum{}}, noise({3, 2}, 0), 0),
                              ops::reduce({reductions::Sum{}}, noise({3, 2}, 1), 0));
  expect_close(both.reshape({1, 2}), model.always.weight.grad(), 1e-5, "gradient");
}

TEST(DifferentiableCollectives, ranks_with_different_graphs_need_a_subgroup_beside_ddp) {
  run_ranks(2, [](Group group) { train_different_graphs(group, true); });
  const auto results = run_ranks_catching(
      2, [](Group group) { train_different_graphs(group, false); }, std::chrono::seconds(20));
  for (const auto& result : results)
    expect_parts(message_of(result), {"gradient of all_gather of rows", "gradient bucket 0"});
}

}  // namespace
}  // namespace tandem::distributed
