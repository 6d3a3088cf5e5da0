// REINFORCE (Williams, "Simple statistical gradient-following algorithms for connectionist reinforcement learning",
// 1992): a policy learns to balance a pole on a cart (Barto, Sutton, Anderson, 1983; the constants are those of
// Gymnasium's CartPole-v1). An episode ends when the pole or the cart is too far off, or after 500 steps.
#include <tandem/tandem.h>

#include <array>
#include <cmath>
#include <iostream>

using namespace tandem;

struct CartPole {
  float x = 0, v = 0, angle = 0, spin = 0;

  explicit CartPole(Generator& generator) {
    for (float* value : {&x, &v, &angle, &spin}) *value = generator.uniform(-0.05f, 0.05f);
  }
  // Pushes the cart to the left (0) or to the right (1) for 0.02 s. Returns whether the episode continues.
  bool push(std::int64_t action) {
    const float force = action == 1 ? 10.0f : -10.0f, sine = std::sin(angle), cosine = std::cos(angle);
    // 1.1: the mass of cart and pole; 0.05: the pole's mass times half its length
    const float pull = (force + 0.05f * spin * spin * sine) / 1.1f;
    const float turn = (9.8f * sine - cosine * pull) / (0.5f * (4.0f / 3 - 0.1f * cosine * cosine / 1.1f));
    const float thrust = pull - 0.05f * turn * cosine / 1.1f;
    x += 0.02f * v, v += 0.02f * thrust, angle += 0.02f * spin, spin += 0.02f * turn;
    return std::abs(x) < 2.4f && std::abs(angle) < 0.2095f;
  }
};

struct Policy : nn::Module {
  nn::Linear& hidden = add("hidden", nn::Linear(4, 64));
  nn::Linear& output = add("output", nn::Linear(64, 2));

  // states (N, 4) -> logits of the two actions (N, 2)
  Tensor forward(const Tensor& states) override { return output(tanh(hidden(states))); }
};

struct Episodes {
  std::vector<float> states;          // four per step
  std::vector<std::int64_t> actions;  // one per step
  std::vector<float> returns;         // the discounted reward from each step on
};

// Plays an episode and appends it to `all`.
void play(Policy& policy, Generator& generator, Episodes& all) {
  const NoGrad no_grad;
  CartPole pole(generator);
  std::int64_t length = 0;
  for (bool goes_on = true; goes_on && length < 500; ++length) {
    const std::vector<float> state = {pole.x, pole.v, pole.angle, pole.spin};
    const Tensor chances = softmax(policy(Array::from(state, {1, 4})), 1);
    const auto action = static_cast<std::int64_t>(multinomial(chances, 1, false, generator).item());
    all.states.insert(all.states.end(), state.begin(), state.end());
    all.actions.push_back(action);
    goes_on = pole.push(action);
  }
  // The reward is 1 for each step, and the discount 0.99.
  for (std::int64_t left = length; left > 0; --left)
    all.returns.push_back(static_cast<float>((1 - std::pow(0.99, left)) / 0.01));
}

int main(int argc, char** argv) {
  return distributed::run_program(argc, argv, {"reinforce", "(learns to balance a pole)"}, [] {
    manual_seed(0);
    Generator generator(0);
    Policy policy;
    optim::Adam optimizer(policy.parameters(), {.lr = 0.01});
    double mean_length = 0;
    constexpr int episodes = 10;
    for (int update = 1; update <= 60; ++update) {
      Episodes all;
      for (int i = 0; i < episodes; ++i) play(policy, generator, all);
      const auto n = static_cast<std::int64_t>(all.actions.size());
      const Tensor returns = Array::from(all.returns, {n});
      const Tensor advantage = (returns - mean(returns)) / (stddev(returns) + 1e-6);
      const Tensor chances = log_softmax(policy(Array::from(all.states, {n, 4})), 1);
      const Tensor loss = -mean(squeeze(gather(chances, 1, Array::from(all.actions, {n, 1})), 1) * advantage);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      mean_length = static_cast<double>(n) / episodes;
      if (update % 10 == 0) std::cout << "update " << update << ": " << mean_length << " steps" << std::endl;
    }
    TANDEM_CHECK(mean_length > 150, "the policy did not learn: the pole falls after ", mean_length, " steps");
  });
}
