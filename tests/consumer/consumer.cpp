// Learns to add two numbers, with what a user includes.
#include <tandem/tandem.h>

#include <iostream>

int main() {
  tandem::manual_seed(1);
  tandem::nn::Linear model(2, 1);
  tandem::optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  double last = 0;
  for (int step = 0; step < 200; ++step) {
    const float a = static_cast<float>(step % 7) / 7, b = static_cast<float>(step % 5) / 5;
    const tandem::Tensor x = tandem::Array::from(std::vector<float>{a, b}, {1, 2});
    const tandem::Tensor error = model(x) - (a + b);
    const tandem::Tensor loss = tandem::sum(error * error);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item();
  }
  std::cout << "loss " << last << '\n';
  return last < 1e-3 ? 0 : 1;
}
