// A generative adversarial network (Goodfellow et al., arXiv:1406.2661). A generator learns to turn noise into points
// on a circle, because a discriminator learns to distinguish its points from real ones. Two optimizers take turns.
//
//   gan                       trains on points of a circle
//   gan file X.safetensors    prints both losses for the weights and batches in a file
//
// The file stores the batches in the arrays `real` (steps, N, 2) and `noise` (steps, N, 8).
#include <tandem/tandem.h>

#include <cmath>
#include <iostream>

using namespace tandem;

nn::Sequential mlp(std::int64_t in, std::int64_t out) {
  return nn::Sequential{nn::Linear(in, 64), nn::LeakyReLU(0.2), nn::Linear(64, 64), nn::LeakyReLU(0.2),
                        nn::Linear(64, out)};
}

struct Gan : nn::Module {
  nn::Sequential& generator = add("generator", mlp(8, 2));          // noise (N, 8) -> points (N, 2)
  nn::Sequential& discriminator = add("discriminator", mlp(2, 1));  // points (N, 2) -> logits of being real (N, 1)

  Tensor forward(const Tensor& noise) override { return generator(noise); }
};

struct Trainer {
  Gan gan;
  optim::Adam generator{gan.generator.parameters(), {.lr = 1e-3, .betas = {0.5, 0.999}}};
  optim::Adam discriminator{gan.discriminator.parameters(), {.lr = 1e-3, .betas = {0.5, 0.999}}};

  struct Losses {
    double discriminator, generator;
  };
  Losses step(const Tensor& real, const Tensor& noise) {
    const Tensor is_real = ones({real.dim(0), 1}), is_fake = zeros({real.dim(0), 1});
    const Tensor fake = gan(noise);
    // The discriminator learns from the points alone: detach() stops its gradients before the generator.
    const Tensor truth = binary_cross_entropy_with_logits(gan.discriminator(real), is_real) +
                         binary_cross_entropy_with_logits(gan.discriminator(fake.detach()), is_fake);
    discriminator.zero_grad();
    truth.backward();
    discriminator.step();
    // The generator learns to make the discriminator answer "real". The discriminator's gradients from this step are
    // discarded.
    const Tensor success = binary_cross_entropy_with_logits(gan.discriminator(fake), is_real);
    generator.zero_grad();
    success.backward();
    generator.step();
    return {truth.item(), success.item()};
  }
};

void train_on_file(const std::string& path) {
  Trainer trainer;
  Array real, noise;
  std::vector<NamedArray> weights;
  for (auto& [name, array] : load_arrays(path)) {
    if (name == "real") real = array;
    else if (name == "noise") noise = array;
    else weights.push_back({name, array});
  }
  trainer.gan.load_state_dict(weights);
  std::cout.precision(9);
  for (std::int64_t i = 0; i < real.dim(0); ++i) {
    const auto losses = trainer.step(real.select(0, i), noise.select(0, i));
    std::cout << losses.discriminator << '\n' << losses.generator << '\n';
  }
}

void train_on_a_circle() {
  Trainer trainer;
  constexpr std::int64_t n = 128;
  for (int step = 1; step <= 2000; ++step) {
    const Tensor angle = rand({n, 1}) * (2 * M_PI);
    const auto losses = trainer.step(cat({cos(angle), sin(angle)}, 1), randn({n, 8}));
    if (step % 500 == 0)
      std::cout << "step " << step << ": discriminator " << losses.discriminator << ", generator " << losses.generator
                << std::endl;
  }
  const NoGrad no_grad;
  const Tensor points = trainer.gan(randn({1000, 8}));
  const double distance = mean(abs(norm(points, 2, {1}) - 1)).item(), centre = norm(mean(points, {0})).item();
  std::cout << "made points are " << distance << " from the circle, and their mean " << centre << " from its centre\n";
  TANDEM_CHECK(distance < 0.15 && centre < 0.3, "the generator did not learn the circle");
}

int main(int argc, char** argv) {
  return distributed::run_program(argc, argv, {"gan", "[file X.safetensors]", 2}, [&] {
    manual_seed(0);
    const std::string what = argc == 3 ? argv[1] : "";
    if (what == "file") train_on_file(argv[2]);
    else if (argc == 1) train_on_a_circle();
    else throw distributed::UsageError("expected no arguments, or \"file X.safetensors\"");
  });
}
