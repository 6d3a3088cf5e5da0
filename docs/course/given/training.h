// A training whose state is more than the weights: momentum, random numbers, the order of the samples, the step.
#pragma once
#include <algorithm>
#include <numeric>
#include <random>
#include <sstream>

#include "check.h"
#include "model.h"

namespace course {

struct Training {
  Model model{3, 6, 1};
  std::vector<std::vector<float>> momentum;  // one array for each parameter
  std::mt19937 random{7};                    // shuffles each epoch, and disturbs each sample
  std::vector<int> order;                    // the samples of this epoch
  int position = 0;                          // the next position in `order`
  int step = 0;                              // the learning rate falls with it

  Training() {
    for (const auto& parameter : model.parameters) momentum.emplace_back(parameter.size());
  }

  void train(int steps) {
    for (; steps > 0; --steps, ++step) {
      if (position == int(order.size())) {
        order.resize(12);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
        position = 0;
      }
      std::vector<Sample> batch;
      for (int i = 0; i < 4; ++i, ++position) {
        const float n = order[position], noise = std::uniform_real_distribution<float>(0, 0.1f)(random);
        batch.push_back({{std::sin(n) + noise, std::cos(n), n / 12}, std::sin(2 * n)});
      }
      model.zero_grad();
      model.backward(batch);
      const float rate = 0.2f / (1 + 0.1f * step);
      for (std::size_t p = 0; p < momentum.size(); ++p)
        for (std::size_t i = 0; i < momentum[p].size(); ++i)
          model.parameters[p][i] -= rate * (momentum[p][i] = 0.9f * momentum[p][i] + model.gradients[p][i]);
    }
  }
};

}  // namespace course
