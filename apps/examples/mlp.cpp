// A network that separates two spirals, with a custom data set, model and training loop.
#include <tandem/tandem.h>

#include <cmath>
#include <iostream>

using namespace tandem;

// Points (x, y) on two arms that wind around each other. The class of a point is the index of its arm.
class Spirals : public data::SampleDataset {
 public:
  std::int64_t size() const override { return 400; }
  data::Sample sample(std::int64_t index) const override {
    const std::int64_t arm = index % 2;
    const double t = 0.25 + static_cast<double>(index) / static_cast<double>(size());
    const double angle = 3 * M_PI * t + M_PI * static_cast<double>(arm);
    const auto coordinate = [](double v) { return static_cast<float>(v); };
    return {Array::from(std::vector<float>{coordinate(t * std::cos(angle)), coordinate(t * std::sin(angle))}, {2}),
            Array::from(std::vector<std::int64_t>{arm}, {})};
  }
};

struct Mlp : nn::Module {
  nn::Linear& input = add("input", nn::Linear(2, 64));
  nn::Linear& hidden = add("hidden", nn::Linear(64, 64));
  nn::Linear& output = add("output", nn::Linear(64, 2));

  Tensor forward(const Tensor& points) override { return output(tanh(hidden(tanh(input(points))))); }
};

double accuracy(Mlp& model, const data::Dataset& dataset) {
  const NoGrad no_grad;
  data::SequentialSampler sampler(dataset.size());
  data::Loader loader(dataset, sampler, {.batch_size = 100});
  double correct = 0;
  for (auto& [points, arms] : loader) correct += sum(argmax(model(points), 1) == arms).item();
  return correct / static_cast<double>(dataset.size());
}

int main(int argc, char** argv) {
  return distributed::run_program(argc, argv, {"mlp", "(trains on spirals of points)"}, [] {
    manual_seed(0);
    const Spirals spirals;
    const auto parts = data::random_split(spirals, std::vector<double>{0.8, 0.2});
    data::RandomSampler sampler(parts[0].size());
    data::Loader loader(parts[0], sampler, {.batch_size = 32});

    Mlp model;
    optim::Adam optimizer(model.parameters(), {.lr = 0.01});
    for (int epoch = 1; epoch <= 100; ++epoch) {
      double total = 0;
      for (auto& [points, arms] : loader) {
        const Tensor loss = cross_entropy(model(points), arms);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        total += loss.item();
      }
      if (epoch % 20 == 0)
        std::cout << "epoch " << epoch << ": loss " << total / static_cast<double>(loader.size()) << ", held out "
                  << 100 * accuracy(model, parts[1]) << " % right\n";
    }
    TANDEM_CHECK(accuracy(model, parts[1]) > 0.9, "the model did not learn");
  });
}
