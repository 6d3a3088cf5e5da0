// An LSTM learns to remember: it reads a sequence of numbers, two of which are marked, and outputs the sum of these two
// (the adding problem of Hochreiter and Schmidhuber, "Long short-term memory", Neural Computation 9, 1997).
#include <tandem/tandem.h>

#include <iostream>

using namespace tandem;

constexpr std::int64_t length = 20;

struct Adder : nn::Module {
  nn::LSTM& lstm = add("lstm", nn::LSTM(2, 64, {.batch_first = true}));
  nn::Linear& head = add("head", nn::Linear(64, 1));

  // sequences (N, L, 2) -> one number per sequence (N)
  Tensor forward(const Tensor& x) override { return squeeze(head(select(lstm(x).output, 1, -1)), 1); }
};

// Draws sequences (n, length, 2). Each step has a number from 0 to 1, and 1 if it is marked, else 0. Also returns the
// sums (n).
std::pair<Tensor, Tensor> draw(std::int64_t n) {
  const Tensor numbers = rand({n, length});
  const Array places = multinomial(ones({n, length}), 2);
  const Tensor marks = scatter(zeros({n, length}), 1, places, ones({n, 2}));
  return {stack({numbers, marks}, 2), sum(numbers * marks, 1)};
}

int main(int argc, char** argv) {
  return distributed::run_program(argc, argv, {"lstm", "(trains an LSTM)"}, [] {
    manual_seed(0);
    Adder model;
    std::cout << model << '\n';
    optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
    double mean_loss = 1;
    for (int step = 1; step <= 1000 && mean_loss > 0.01; ++step) {
      const auto [x, y] = draw(64);
      optimizer.zero_grad();
      const Tensor loss = mse_loss(model(x), y);
      loss.backward();
      optim::clip_grad_norm_(model.parameters(), 1.0);
      optimizer.step();
      mean_loss = 0.95 * mean_loss + 0.05 * loss.item();
      if (step % 50 == 0) std::cout << "step " << step << ": loss " << mean_loss << std::endl;
    }
    // A model that always outputs 1 has a loss of 1/6.
    TANDEM_CHECK(mean_loss < 0.05, "the model did not learn: its loss is ", mean_loss);
  });
}
