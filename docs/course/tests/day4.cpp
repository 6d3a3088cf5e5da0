// The tests of day 4. Each says in words what is wrong.
#include <numeric>
#include <set>

#include "buckets.h"
#include "rebuild.h"

using course::expect;
using Buckets = std::vector<std::vector<int>>;

std::string shown(const std::vector<int>& list) {
  std::string text;
  for (const int i : list) text += (text.empty() ? "" : " ") + std::to_string(i);
  return "{" + text + "}";
}

std::string shown(const Buckets& buckets) {
  std::string text;
  for (const auto& bucket : buckets) text += shown(bucket);
  return text;
}

std::vector<int> backwards(int count) {
  std::vector<int> order(count);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

std::vector<int> shuffled(int count, std::mt19937& random) {
  auto order = backwards(count);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

// conv1 weight and bias, batch norm's, conv2, batch norm's, fc: the network of mnist_ddp, in bytes
const std::vector<std::size_t> mnist{1600, 64, 64, 64, 51200, 128, 128, 128, 62720, 40};

void buckets_close_in_time() {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const int count = 1 + random() % 12;
    std::vector<std::size_t> bytes(count);
    for (auto& size : bytes) size = 4 * (1 + random() % 50);
    const auto order = round % 2 ? backwards(count) : shuffled(count, random);
    const std::size_t first = 4 * (1 + random() % 60), cap = 4 * (1 + random() % 100);
    const auto buckets = assign_buckets(bytes, order, first, cap);
    const auto call = "bytes " + shown(std::vector<int>(bytes.begin(), bytes.end())) + ", order " + shown(order) +
                      ", first " + std::to_string(first) + ", cap " + std::to_string(cap) + " gave " + shown(buckets) +
                      ": ";
    std::vector<int> all;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      std::size_t held = 0;
      expect(!buckets[b].empty(), call, "bucket ", b, " is empty");
      for (std::size_t i = 0; i < buckets[b].size(); ++i) {
        expect(i == 0 || held < (b == 0 ? first : cap), call, "bucket ", b, " held ", held, " bytes before parameter ",
               buckets[b][i], " and should have been closed");
        held += bytes.at(buckets[b][i]);
        all.push_back(buckets[b][i]);
      }
      expect(b + 1 == buckets.size() || held >= (b == 0 ? first : cap), call, "bucket ", b, " was closed with ", held,
             " bytes, too early");
    }
    expect(all.size() == order.size(), call, "there are ", order.size(), " parameters, but the buckets hold ",
           all.size());
    expect(all == order, call, "the parameters are not in the order in which their gradients become final");
  }
  const auto one = assign_buckets(mnist, backwards(10), 1 << 20, 25 << 20);
  expect(one.size() == 1, "mnist_ddp's network at 1 and 25 MiB: ", one.size(), " buckets, expected 1");
  const auto three = assign_buckets(mnist, backwards(10), 10485, 10485);
  expect(three == Buckets{{9, 8}, {7, 6, 5, 4}, {3, 2, 1, 0}}, "mnist_ddp's network at 0.01 MiB: ", shown(three),
         ", expected {9 8}{7 6 5 4}{3 2 1 0}");
}

void buckets_start_in_order() {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    const int count = 1 + random() % 10;
    Buckets buckets(1);
    for (const int parameter : backwards(count)) {
      if (!buckets.back().empty() && random() % 2) buckets.emplace_back();
      buckets.back().push_back(parameter);
    }
    std::vector<int> started;
    std::set<int> final_ones;
    std::string so_far;
    Reducer reducer(buckets, [&](int b) {
      expect(b >= 0 && b < int(buckets.size()), "there is no bucket ", b, so_far);
      expect(std::count(started.begin(), started.end(), b) == 0, "bucket ", b, " was started twice in one pass",
             so_far);
      for (const int parameter : buckets[b])
        expect(final_ones.count(parameter) > 0, "bucket ", b, " was started although the gradient of parameter ",
               parameter, " is not final", so_far);
      expect(b == int(started.size()), "bucket ", b, " was started before bucket ", started.size(),
             ": on another rank, gradients may be final in a different order, and a different bucket would travel then",
             so_far);
      started.push_back(b);
    });
    for (int pass = 0; pass < 3; ++pass) {
      started.clear();
      final_ones.clear();
      reducer.begin_pass();
      std::vector<int> ready;
      for (const int parameter : pass == 0 ? backwards(count) : shuffled(count, random)) {
        final_ones.insert(parameter);
        ready.push_back(parameter);
        so_far =
            " (buckets " + shown(buckets) + ", pass " + std::to_string(pass) + ", final so far: " + shown(ready) + ")";
        reducer.gradient_ready(parameter);
        std::size_t may = 0;
        while (may < buckets.size() &&
               std::all_of(buckets[may].begin(), buckets[may].end(), [&](int p) { return final_ones.count(p) > 0; }))
          ++may;
        expect(started.size() == may, "bucket ", started.size(), " is full and it is its turn, but it was not started",
               pass > 0 && started.empty() && ready.size() == 1 ? ". Does begin_pass forget the pass before?" : "",
               so_far);
      }
    }
  }
}

void early_bytes() {
  const auto order = backwards(10);
  const auto at = [&](std::size_t cap) {
    return bytes_started_early(mnist, assign_buckets(mnist, order, cap, cap), order);
  };
  expect(at(25 << 20) == 0, "mnist_ddp's network in one bucket: ", at(25 << 20),
         " bytes start early, expected 0: the bucket is "
         "full when the last gradient is final, and nothing is left to compute");
  expect(at(10485) == 114344, "mnist_ddp's network at 0.01 MiB: ", at(10485),
         " bytes start early, expected 114344: all except "
         "those of the last bucket");
  const std::size_t late = bytes_started_early({4, 8, 16}, {{2}, {1}, {0}}, {0, 1, 2});
  expect(late == 0, "three buckets whose gradients arrive in the opposite order: ", late,
         " bytes start early, expected 0: buckets 1 "
         "and 2 are full, but wait for bucket 0");
  const std::size_t rest = bytes_started_early({4, 8, 16}, {{2}, {0}, {1}}, {2, 0, 1});
  expect(rest == 20, "buckets {2}{0}{1} of 16, 4 and 8 bytes, final in this order: ", rest,
         " bytes start early, expected 20");
}

void all_ranks_take_rank_0s_order() {
  for (const int world : {1, 2, 3, 5})
    for (const int count : {1, 6, 40}) {
      std::mt19937 random(world * 100 + count);
      std::vector<std::vector<int>> orders;
      for (int rank = 0; rank < world; ++rank) orders.push_back(shuffled(count, random));
      const auto agreed = course::run_ranks(world, [&](const course::Ring& ring) {
        const auto order = agree_on_order(ring, orders[ring.rank]);
        return std::vector<float>(order.begin(), order.end());
      });
      for (int rank = 0; rank < world; ++rank) {
        const std::vector<int> found(agreed[rank].begin(), agreed[rank].end());
        expect(rank == 0 || world == 1 || count == 1 || found != orders[rank], "agree_on_order: rank ", rank,
               " keeps its own order: its buckets would hold different gradients from those of rank 0");
        expect(found == orders[0], "agree_on_order: rank ", rank, " has ", shown(found), ", rank 0 had ",
               shown(orders[0]));
      }
    }
}

int main() {
  return course::run({
      {"1 assign_buckets", "", buckets_close_in_time},
      {"2 Reducer", "Is there a loop that waits for a bucket? The hook must return at once.", buckets_start_in_order},
      {"3 bytes_started_early", "", early_bytes},
      {"4 agree_on_order", "Do all ranks call broadcast with the same size?", all_ranks_take_rank_0s_order},
  });
}
