// The tests of day 3. Each says what is wrong in words.
#include "naive.h"

#include <algorithm>
#include <set>

using course::expect;
using course::Model;
using course::Ring;
using course::run_ranks;
using course::Sample;

void broadcast_gives_rank_0s() {
  for (const int world : {1, 2, 3, 6})
    for (const std::size_t size : {1000, 1, 200'000}) {
      const auto values = run_ranks(world, [size](const Ring& ring) {
        std::vector<float> mine(size);
        for (std::size_t i = 0; i < size; ++i) mine[i] = 1000 * ring.rank + i % 1000;
        broadcast(ring, mine.data(), size);
        expect(course::bytes_sent != size, "broadcast: sent ", size, " bytes for ", size,
               " floats: send_all counts bytes, and a float has sizeof(float) of them");
        return mine;
      });
      for (int rank = 0; rank < world; ++rank)
        for (std::size_t i = 0; i < size; ++i) {
          const int from = int(values[rank][i]) / 1000;
          expect(from == 0, "broadcast: rank ", rank, " of ", world,
                 from == rank ? " kept its own value" : " has the value of rank ",
                 from == rank ? std::string() : std::to_string(from), " (number ", i, " of ", size, ")",
                 i == size / 4 ? ": does receive_all get the length in bytes?" : "");
          expect(values[rank][i] == i % 1000, "broadcast: number ", i, " of rank ", rank,
                 " is rank 0's number of another position");
        }
    }
}

void shards_are_fair() {
  for (const int size : {1, 7, 12, 100})
    for (const int world : {1, 2, 3, 5}) {
      const std::size_t each = (size + world - 1) / world;
      std::vector<int> times(size);
      for (int rank = 0; rank < world; ++rank) {
        const auto mine = shard(size, rank, world, 3);
        expect(mine.size() == each, "shard: ", size, " samples, ", world, " ranks: rank ", rank, " has ", mine.size(),
               ", expected ", each, ". Ranks with different numbers of steps wait for each other in the last step");
        for (const int sample : mine) {
          expect(sample >= 0 && sample < size, "shard: there is no sample ", sample, " of ", size);
          ++times[sample];
        }
        expect(mine == shard(size, rank, world, 3),
               "shard: the same call gives a different order: a resumed training or "
               "another rank would not see the same epoch");
      }
      int again = 0;
      for (int sample = 0; sample < size; ++sample) {
        expect(times[sample] > 0, "shard: no rank of ", world, " has sample ", sample, " of ", size,
               ". Do all ranks shuffle with the same seed?");
        again += times[sample] - 1;
      }
      expect(again == int(each * world) - size, "shard: ", size, " samples, ", world, " ranks: ", again,
             " samples are repeated, expected ", each * world - size, ". Do all ranks shuffle with the same seed?");
      const auto order = shard(size, 0, 1, 3);  // one rank alone takes every place
      for (int rank = 0; rank < world; ++rank) {
        const auto mine = shard(size, rank, world, 3);
        for (std::size_t i = 0; i < each; ++i) {
          const int place = (rank + i * world) % size;
          expect(mine[i] == order[place], "shard: ", size, " samples, ", world, " ranks: number ", i, " of rank ", rank,
                 " is sample ", mine[i], "; position ", place, " of the order is sample ", order[place],
                 ". Does rank r take positions r, r + W, r + 2W ...? The seed must not depend on the number of ranks");
        }
      }
    }
  expect(shard(100, 0, 2, 0) != shard(100, 0, 2, 1), "shard: epoch 1 has the order of epoch 0");
  auto sorted = shard(100, 0, 2, 0);
  expect(!std::is_sorted(sorted.begin(), sorted.end()), "shard: the samples are not shuffled");
}

// With gradients whose digits say which rank is how often in them.
void gradients_are_means() {
  for (const int world : {1, 2, 4})
    for (const int hidden : {3, 50}) {
      const auto gradients = run_ranks(world, [=](const Ring& ring) {
        Model model(4, hidden, 1);
        for (auto& gradient : model.gradients)
          std::fill(gradient.begin(), gradient.end(), world * course::digit_of(ring.rank));
        average_gradients(ring, model);
        std::vector<float> all;
        for (const auto& gradient : model.gradients) all.insert(all.end(), gradient.begin(), gradient.end());
        return all;
      });
      const Model like(4, hidden, 1);
      for (int rank = 0; rank < world; ++rank) {
        std::size_t i = 0;
        for (std::size_t p = 0; p < like.gradients.size(); ++p)
          for (std::size_t k = 0; k < like.gradients[p].size(); ++k, ++i) {
            const float found = gradients[rank][i];
            if (found == course::all_digits(world)) continue;
            const auto where = "parameter " + std::to_string(p) + ", number " + std::to_string(k);
            expect(world == 1 || found != world * course::digit_of(rank), "average_gradients: rank ", rank,
                   "'s gradient of ", where, " did not change: it was left out");
            expect(world == 1 || found != world * course::all_digits(world), "average_gradients: rank ", rank,
                   " has the sum, ", world, " times the mean (", where,
                   "). The learning rate would have to change with the number of ranks");
            course::expect_each_rank_once(found, rank, world, where);
          }
      }
    }
}

std::vector<Sample> samples(int count, int inputs, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<Sample> all(count);
  for (Sample& sample : all) {
    for (int i = 0; i < inputs; ++i) sample.x.push_back(draw(random));
    sample.y = std::sin(3 * sample.x[0]) + draw(random) / 10;
  }
  return all;
}

std::vector<float> flat(const Model& model) {
  std::vector<float> all;
  for (const auto& parameter : model.parameters) all.insert(all.end(), parameter.begin(), parameter.end());
  return all;
}

void steps_equal_one_process() {
  const int inputs = 5, steps = 20;
  const float rate = 0.3f;
  for (const int world : {1, 2, 3, 4})
    for (const unsigned seed : {11u, 12u}) {
      const int batch = 12;
      const auto data = samples(batch * steps, inputs, seed);
      Model alone(inputs, 8, seed);
      std::vector<float> after_one;
      for (int step = 0; step < steps; ++step) {
        alone.zero_grad();
        alone.backward({data.begin() + step * batch, data.begin() + (step + 1) * batch});
        alone.step(rate);
        if (step == 0) after_one = flat(alone);
      }
      const auto train = [&](int count) {
        return run_ranks(world, [&, count](const Ring& ring) {
          Model model(inputs, 8, seed);
          for (int step = 0; step < count; ++step) {
            std::vector<Sample> mine;
            for (int i = ring.rank; i < batch; i += world) mine.push_back(data[step * batch + i]);
            train_step(ring, model, mine, rate);
          }
          return flat(model);
        });
      };
      const auto apart = [](const std::vector<float>& a, const std::vector<float>& b) {
        float largest = 0;
        for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
        return largest;
      };
      const auto first = train(1), last = train(steps);
      for (int rank = 0; rank < world; ++rank) {
        expect(first[rank] != flat(Model(inputs, 8, seed)), "train_step: the weights of rank ", rank, " do not move");
        expect(apart(first[rank], after_one) < 1e-5f, "train_step: after one step rank ", rank, " of ", world, " is ",
               apart(first[rank], after_one),
               " from one process with the whole batch. Are gradients averaged before the step?");
        expect(apart(last[rank], flat(alone)) < 1e-5f, "train_step: one step is right, but after ", steps, " rank ",
               rank, " of ", world, " is ", apart(last[rank], flat(alone)),
               " from one process. Are the gradients of the step before still in `gradients`?");
        expect(last[rank] == last[0], "train_step: rank ", rank, " has different bits from rank 0");
      }
    }
}

void one_process_has_the_bits_of_the_ring() {
  for (const int world : {1, 2, 3, 4, 6})
    for (const int size : {1, 5, 1001}) {
      std::vector<std::vector<float>> of_rank(world, std::vector<float>(size));
      for (int r = 0; r < world; ++r)
        for (int i = 0; i < size; ++i) of_rank[r][i] = std::sin(1.0f + i * (r + 3.1f));
      const auto ring_means = run_ranks(world, [&](const Ring& ring) {
        Model model(1, 1, 1);
        model.gradients = {of_rank[ring.rank]};
        average_gradients(ring, model);
        return model.gradients[0];
      });
      const auto mean = mean_as_the_ring_adds(of_rank);
      expect(mean.size() == std::size_t(size), "mean_as_the_ring_adds: gives ", mean.size(), " numbers for ", size);
      int other = 0;
      float most = 0;
      for (int i = 0; i < size; ++i) {
        other += mean[i] != ring_means[0][i];
        most = std::max(most, std::abs(mean[i] - ring_means[0][i]));
      }
      expect(most < 1e-5f, "mean_as_the_ring_adds: ", world, " ranks: ", most,
             " from the mean: that is more than rounding");
      expect(other == 0, "mean_as_the_ring_adds: ", world, " ranks, ", size, " numbers: ", other,
             " have different last bits. In which order does the ring add chunk c, and is the sum divided in the same "
             "way?");
    }
}

int main() {
  return course::run({
      {"1 broadcast", "The last rank sends nothing, and rank 0 receives nothing.", broadcast_gives_rank_0s},
      {"2 shard", "Is there a loop that never ends if there are fewer samples than ranks?", shards_are_fair},
      {"3 average_gradients", "Do all ranks take the parameters in the same order?", gradients_are_means},
      {"4 train_step", "Does a rank leave out a step?", steps_equal_one_process},
      {"5 mean_as_the_ring_adds", "", one_process_has_the_bits_of_the_ring},
  });
}
