#pragma once
#include <algorithm>
#include <numeric>

#include "model.h"
#include "ring.h"

inline void broadcast(const course::Ring& ring, float* values, std::size_t size) {
  if (ring.rank > 0) receive_all(ring.previous, values, size * sizeof(float));
  if (ring.rank < ring.world - 1) send_all(ring.next, values, size * sizeof(float));
}

inline std::vector<int> shard(int size, int rank, int world, unsigned epoch) {
  std::vector<int> order(size), mine;
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(epoch);
  std::shuffle(order.begin(), order.end(), random);
  const int each = (size + world - 1) / world;
  for (int i = 0; i < each; ++i) mine.push_back(order[(rank + i * world) % size]);
  return mine;
}

inline void average_gradients(const course::Ring& ring, course::Model& model) {
  for (auto& gradient : model.gradients) {
    ring_all_reduce(ring, gradient.data(), gradient.size());
    for (float& value : gradient) value /= ring.world;
  }
}

inline void train_step(const course::Ring& ring, course::Model& model, const std::vector<course::Sample>& batch,
                       float rate) {
  model.zero_grad();
  model.backward(batch);
  average_gradients(ring, model);
  model.step(rate);
}

inline std::vector<float> mean_as_the_ring_adds(const std::vector<std::vector<float>>& of_rank) {
  const int world = of_rank.size();
  const std::size_t size = of_rank[0].size();
  std::vector<float> mean(size);
  for (int c = 0; c < world; ++c) {
    const auto [begin, end] = chunk(size, c, world);
    for (std::size_t i = begin; i < end; ++i) {
      mean[i] = of_rank[c][i];
      for (int k = 1; k < world; ++k) mean[i] += of_rank[(c + k) % world][i];
      mean[i] /= world;
    }
  }
  return mean;
}
