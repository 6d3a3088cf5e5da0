// Tandem's side of the benchmark bench/networks: training steps of a network on one batch, in one process.
//
//   network_step MODEL BATCH SIZE DTYPE STEPS DEVICE [PROFILE]
//
// MODEL is the name of a segmentation model or of a network below. Its images have SIZE x SIZE pixels. Prints one line
// of JSON: the seconds and the loss of each step, and on the CPU the largest resident set of the process. The last step
// is the range "last step" for NVIDIA's tools, and PROFILE is a file for its trace. With the same seeds,
// torch_networks.py makes the same weights and images. Dropout is 0, which makes the losses comparable.
#include <tandem/nn/models/segmentation.h>
#include <tandem/tandem.h>

#include <sys/resource.h>

#include <chrono>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using namespace tandem;
using Clock = std::chrono::steady_clock;

nn::Conv2d conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride = 1) {
  return {in, out, 3, {.stride = stride, .padding = 1, .bias = false}};
}

// The ResNet-20 of He et al., arXiv:1512.03385, section 4.2: images (N, 3, 32, 32) -> logits (N, 10).
struct Block : nn::Module {
  nn::Conv2d& conv1;
  nn::BatchNorm2d& bn1;
  nn::Conv2d& conv2;
  nn::BatchNorm2d& bn2;
  nn::Sequential* shortcut = nullptr;

  Block(std::int64_t in, std::int64_t out)
      : conv1(add("conv1", conv3x3(in, out, in == out ? 1 : 2))),
        bn1(add("bn1", nn::BatchNorm2d(out))),
        conv2(add("conv2", conv3x3(out, out))),
        bn2(add("bn2", nn::BatchNorm2d(out))) {
    if (in == out) return;
    shortcut =
        &add("shortcut", nn::Sequential{nn::Conv2d(in, out, 1, {.stride = 2, .bias = false}), nn::BatchNorm2d(out)});
  }
  Tensor forward(const Tensor& x) override {
    const Tensor hidden = nn::batch_norm_relu(bn1, conv1(x));
    return nn::batch_norm_add_relu(bn2, conv2(hidden), shortcut ? (*shortcut)(x) : x);
  }
};

struct CifarResNet20 : nn::Module {
  nn::Conv2d& conv = add("conv", conv3x3(3, 16));
  nn::BatchNorm2d& bn = add("bn", nn::BatchNorm2d(16));
  nn::Sequential& blocks =
      add("blocks", nn::Sequential{Block(16, 16), Block(16, 16), Block(16, 16), Block(16, 32), Block(32, 32),
                                   Block(32, 32), Block(32, 64), Block(64, 64), Block(64, 64)});
  nn::Linear& fc = add("fc", nn::Linear(64, 10));

  Tensor forward(const Tensor& x) override { return fc(mean(blocks(nn::batch_norm_relu(bn, conv(x))), {2, 3})); }
};

// Plain convolutions with 64 to 256 channels, as in VGG: images (N, 3, 32, 32) -> logits (N, 10).
struct Vgg : nn::Sequential {
  Vgg() {
    std::int64_t channels = 3;
    for (const std::int64_t width : {64, 64, 0, 128, 128, 0, 256, 256, 0}) {
      if (width == 0) {
        push_back(nn::MaxPool2d(2));
        continue;
      }
      push_back(nn::Conv2d(channels, width, 3, {.padding = 1}));
      push_back(nn::ReLU());
      channels = width;
    }
    push_back(nn::Flatten());
    push_back(nn::Linear(256 * 4 * 4, 10));
  }
};

// Images (N, 3, H, W) -> logits of 10 classes for each pixel (N, 10, H, W). H and W are multiples of 4.
struct UNet : nn::Module {
  static nn::Sequential two(std::int64_t in, std::int64_t out) {
    return nn::Sequential{conv3x3(in, out),  nn::BatchNorm2d(out), nn::ReLU(),
                          conv3x3(out, out), nn::BatchNorm2d(out), nn::ReLU()};
  }
  nn::Sequential& down1 = add("down1", two(3, 16));
  nn::Sequential& down2 = add("down2", two(16, 32));
  nn::Sequential& bottom = add("bottom", two(32, 64));
  nn::ConvTranspose2d& grow2 = add("grow2", nn::ConvTranspose2d(64, 32, 2, {.stride = 2}));
  nn::Sequential& up2 = add("up2", two(64, 32));
  nn::ConvTranspose2d& grow1 = add("grow1", nn::ConvTranspose2d(32, 16, 2, {.stride = 2}));
  nn::Sequential& up1 = add("up1", two(32, 16));
  nn::Conv2d& head = add("head", nn::Conv2d(16, 10, 1));

  Tensor forward(const Tensor& x) override {
    const Tensor fine = down1(x);
    const Tensor coarse = down2(max_pool2d(fine, 2));
    const Tensor lowest = bottom(max_pool2d(coarse, 2));
    return head(up1(cat({fine, grow1(up2(cat({coarse, grow2(lowest)}, 1)))}, 1)));
  }
};

// A model, and its loss on images (N, 3, H, W).
struct Network {
  std::unique_ptr<nn::Module> model;
  std::function<Tensor(const Tensor&)> loss;
};

// Labels 0, 0, 0, 0, 0, 0, 0, 1, ... of `classes` classes. `with_void` adds the label 255.
Array made_up_labels(const Shape& shape, std::int64_t classes, bool with_void, Device device) {
  std::vector<std::int64_t> labels(static_cast<std::size_t>(shape.product()));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<std::int64_t>(i / 7) % (classes + (with_void ? 1 : 0));
    labels[i] = label == classes ? 255 : label;
  }
  return Array::from(labels, shape).to(device);
}

Network make_network(const std::string& name, std::int64_t batch, std::int64_t size, Device device) {
  const auto with_one_output = [&](auto made, std::int64_t classes, const Shape& labels) {
    auto model = std::make_unique<decltype(made)>(std::move(made));
    const auto loss = [&model = *model, labels = made_up_labels(labels, classes, false, device)](const Tensor& images) {
      return cross_entropy(model(images), labels);
    };
    return Network{std::move(model), loss};
  };
  if (name == "cifar_resnet20") return with_one_output(CifarResNet20(), 10, {batch});
  if (name == "resnet18") return with_one_output(nn::models::ResNet({.depth = 18}), 1000, {batch});
  if (name == "vgg") return with_one_output(Vgg(), 10, {batch});
  if (name == "unet") return with_one_output(UNet(), 10, {batch, size, size});
  auto model =
      std::make_unique<nn::models::SegmentationModel>(nn::models::make_segmentation_model(name, {.dropout = 0}));
  const auto loss = [&model = *model,
                     masks = made_up_labels({batch, size, size}, 21, true, device)](const Tensor& images) {
    const CrossEntropyLossOptions criterion{.ignore_index = 255};
    const auto found = model.segment(images);
    return cross_entropy(found.out, masks, criterion) + 0.5 * cross_entropy(found.aux, masks, criterion);
  };
  return {std::move(model), loss};
}

nlohmann::json measure(const std::string& name, std::int64_t batch, std::int64_t size, DType dtype, int steps,
                       Device device, const std::string& profile) {
  manual_seed(0);
  const Network network = make_network(name, batch, size, device);
  network.model->to(device);
  optim::SGD optimizer(network.model->parameters(), {.lr = 1e-4, .momentum = 0.9, .weight_decay = 1e-4});
  manual_seed(1);
  const Tensor images(randn({batch, 3, size, size}).channels_last().to(device));

  nlohmann::json seconds = nlohmann::json::array(), losses = nlohmann::json::array();
  for (int step = 0; step < steps; ++step) {
    const bool is_last = step == steps - 1;
    if (is_last && !profile.empty()) Profile::start(profile);
    const Scope scope(Scope::Kind::phase, is_last ? "last step" : "step");
    const auto begin = Clock::now();
    optimizer.zero_grad();
    Tensor loss;
    {
      const Autocast autocast(dtype);
      loss = network.loss(images);
    }
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item());
    synchronize(device);
    if (step == 0) reset_peak_memory(device);  // the first step also tries algorithms
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  Profile::stop();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const MemoryStats stats = memory_stats(device);
  return {{"seconds", seconds},
          {"losses", losses},
          {"peak_mb", device.is_cpu() ? static_cast<double>(usage.ru_maxrss) / 1024
                                      : static_cast<double>(stats.peak_bytes_in_use) / (1 << 20)},
          {"peak_arrays_mb", static_cast<double>(stats.peak_bytes_in_use) / (1 << 20)}};
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 7 && argc != 8) throw Error("expected the arguments MODEL BATCH SIZE DTYPE STEPS DEVICE [PROFILE]");
  std::cout << measure(argv[1], std::stoll(argv[2]), std::stoll(argv[3]),
                       std::string(argv[4]) == "bf16" ? DType::bf16 : DType::f32, std::stoi(argv[5]),
                       std::string(argv[6]) == "cuda" ? Device::cuda(0) : Device{}, argc == 8 ? argv[7] : "")
            << std::endl;
  return 0;
} catch (const std::exception& error) {
  std::cerr << "network_step: " << error.what() << '\n';
  return 1;
}
