// A small residual network (He et al., "Deep Residual Learning for Image Recognition", arXiv:1512.03385, section 4.2)
// on images of CIFAR-10's shape.
//
//   resnet                       trains on made-up images, which need no download
//   resnet cifar10 FOLDER        trains ten epochs on CIFAR-10, which is downloaded into FOLDER if it is missing
//   resnet file X.safetensors    prints losses for the weights and batches in a file
//
// The file stores the batches in the arrays `images` (steps, N, 3, 32, 32) u8 and `labels` (steps, N).
#include <tandem/core/io/safetensors.h>
#include <tandem/tandem.h>

#include <iostream>

using namespace tandem;

// x plus two convolutions of x: (N, C, H, W) -> (N, C, H, W), or -> (N, 2 C, H / 2, W / 2) if the channels grow.
struct Block : nn::Module {
  nn::Conv2d& conv1;
  nn::BatchNorm2d& bn1;
  nn::Conv2d& conv2;
  nn::BatchNorm2d& bn2;
  nn::Sequential* shortcut = nullptr;

  Block(std::int64_t in, std::int64_t out)
      : conv1(add("conv1", nn::Conv2d(in, out, 3, {.stride = in == out ? 1 : 2, .padding = 1, .bias = false}))),
        bn1(add("bn1", nn::BatchNorm2d(out))),
        conv2(add("conv2", nn::Conv2d(out, out, 3, {.padding = 1, .bias = false}))),
        bn2(add("bn2", nn::BatchNorm2d(out))) {
    if (in == out) return;
    shortcut =
        &add("shortcut", nn::Sequential{nn::Conv2d(in, out, 1, {.stride = 2, .bias = false}), nn::BatchNorm2d(out)});
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = bn2(conv2(relu(bn1(conv1(x)))));
    return relu(y + (shortcut ? (*shortcut)(x) : x));
  }
};

struct ResNet : nn::Module {
  nn::Conv2d& conv = add("conv", nn::Conv2d(3, 8, 3, {.padding = 1, .bias = false}));
  nn::BatchNorm2d& bn = add("bn", nn::BatchNorm2d(8));
  nn::Sequential& blocks = add("blocks", nn::Sequential{Block(8, 8), Block(8, 16), Block(16, 32)});
  nn::Linear& fc = add("fc", nn::Linear(32, 10));

  Tensor forward(const Tensor& x) override { return fc(mean(blocks(relu(bn(conv(x)))), {2, 3})); }
};

struct Trainer {
  ResNet model;
  optim::SGD optimizer{model.parameters(), {.lr = 0.005, .momentum = 0.9, .weight_decay = 5e-4}};

  double step(const Tensor& images, const Array& labels) {
    const Tensor loss = cross_entropy(model(images), labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss.item();
  }
};

void train_on_cifar10(const std::string& folder) {
  data::download_cifar(folder, data::Cifar::Version::cifar10,
                       {.report = [](const std::string& line) { std::cout << line << '\n'; }});
  const data::Cifar images(folder, data::Cifar::Version::cifar10, data::Split::train);
  data::Transformed augmented(images, {data::random_crop(32, 32, 4), data::random_horizontal_flip(), data::to_float()});
  data::RandomSampler sampler(images.size());
  data::Loader loader(augmented, sampler, {.batch_size = 128, .workers = 2});
  Trainer trainer;
  for (int epoch = 0; epoch < 10; ++epoch) {
    double total = 0;
    for (auto& [batch, labels] : loader) total += trainer.step(batch, labels);
    std::cout << "epoch " << epoch + 1 << ": loss " << total / static_cast<double>(loader.size()) << std::endl;
  }
}

void train_on_file(const std::string& path) {
  Trainer trainer;
  Array images, labels;
  std::vector<NamedArray> weights;
  for (auto& [name, array] : read_safetensors(path).arrays) {
    if (name == "images") images = array;
    else if (name == "labels") labels = array;
    else weights.push_back({name, array});
  }
  trainer.model.load_state_dict(weights);
  std::cout.precision(9);
  for (std::int64_t i = 0; i < images.dim(0); ++i)
    std::cout << trainer.step(Tensor(images.select(0, i).to(DType::f32)) / 255, labels.select(0, i)) << '\n';
}

// Trains on ten classes of noisy images. Each class has its own colour and direction of stripes.
void train_on_made_up_images() {
  Trainer trainer;
  Generator generator(1);
  double loss = 0;
  for (int step = 1; step <= 60; ++step) {
    constexpr std::int64_t n = 16;
    const Array images = Array::empty({n, 3, 32, 32}), labels = Array::empty({n}, DType::i64);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t label = labels.data<std::int64_t>()[i] = generator.next_u32() % 10;
      float* pixel = images.data<float>() + i * 3 * 32 * 32;
      for (std::int64_t c = 0; c < 3; ++c)
        for (std::int64_t y = 0; y < 32; ++y)
          for (std::int64_t x = 0; x < 32; ++x) {
            const bool stripe = (label < 5 ? x : y) / 4 % 2 == 0 && (label % 5 + 1) >> c & 1;
            *pixel++ = (stripe ? 1.0f : 0.0f) + generator.uniform(-0.3f, 0.3f);
          }
    }
    loss = trainer.step(images, labels);
    if (step % 10 == 0) std::cout << "step " << step << ": loss " << loss << std::endl;
  }
  TANDEM_CHECK(loss < 0.5, "the network did not learn: its loss is ", loss);
}

int main(int argc, char** argv) {
  return distributed::run_program(argc, argv, {"resnet", "[cifar10 FOLDER | file X.safetensors]", 2}, [&] {
    manual_seed(0);
    const std::string what = argc == 3 ? argv[1] : "";
    if (what == "cifar10") train_on_cifar10(argv[2]);
    else if (what == "file") train_on_file(argv[2]);
    else if (argc == 1) train_on_made_up_images();
    else throw distributed::UsageError("expected no arguments, \"cifar10 FOLDER\" or \"file X.safetensors\"");
  });
}
