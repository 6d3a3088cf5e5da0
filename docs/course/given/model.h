// A small network for the tasks, with its gradients computed by hand (day 1 does it by autograd).
#pragma once
#include <cmath>
#include <random>
#include <vector>

namespace course {

struct Sample {
  std::vector<float> x;
  float y;
};

// y = w2 . tanh(W1 x + b1) + b2 and the mean of (y - target)^2 / 2 over a batch.
struct Model {
  int inputs, hidden;
  std::vector<std::vector<float>> parameters, gradients;  // W1 (hidden * inputs), b1 (hidden), w2 (hidden), b2 (1)

  Model(int inputs, int hidden, unsigned seed) : inputs(inputs), hidden(hidden) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> draw(-0.5f, 0.5f);
    for (const int size : {hidden * inputs, hidden, hidden, 1}) {
      parameters.emplace_back(size);
      for (float& value : parameters.back()) value = draw(random);
      gradients.emplace_back(size, 0.0f);
    }
  }

  void zero_grad() {
    for (auto& gradient : gradients) std::fill(gradient.begin(), gradient.end(), 0.0f);
  }

  // Adds the gradient of the mean loss over `batch` to `gradients`.
  void backward(const std::vector<Sample>& batch) {
    const auto &w1 = parameters[0], &b1 = parameters[1], &w2 = parameters[2], &b2 = parameters[3];
    std::vector<float> h(hidden);
    for (const Sample& sample : batch) {
      float y = b2[0];
      for (int j = 0; j < hidden; ++j) {
        float sum = b1[j];
        for (int i = 0; i < inputs; ++i) sum += w1[j * inputs + i] * sample.x[i];
        h[j] = std::tanh(sum);
        y += w2[j] * h[j];
      }
      const float dy = (y - sample.y) / batch.size();
      gradients[3][0] += dy;
      for (int j = 0; j < hidden; ++j) {
        gradients[2][j] += dy * h[j];
        const float dh = dy * w2[j] * (1 - h[j] * h[j]);
        gradients[1][j] += dh;
        for (int i = 0; i < inputs; ++i) gradients[0][j * inputs + i] += dh * sample.x[i];
      }
    }
  }

  // Moves the parameters against their gradients (SGD).
  void step(float rate) {
    for (std::size_t p = 0; p < parameters.size(); ++p)
      for (std::size_t i = 0; i < parameters[p].size(); ++i) parameters[p][i] -= rate * gradients[p][i];
  }
};

}  // namespace course
