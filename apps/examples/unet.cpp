// A small U-Net (Ronneberger, Fischer, Brox, "U-Net: Convolutional Networks for Biomedical Image Segmentation",
// arXiv:1505.04597) that finds bright discs in noisy images.
//
//   unet                       trains on made-up images
//   unet file X.safetensors    prints losses for the weights and batches in a file
//
// The file stores the batches in the arrays `images` and `masks` (steps, N, 1, H, W) u8.
#include <tandem/tandem.h>

#include <iostream>

using namespace tandem;

// Two convolutions of 3 x 3: (N, in, H, W) -> (N, out, H, W)
nn::Sequential double_conv(std::int64_t in, std::int64_t out) {
  return nn::Sequential{nn::Conv2d(in, out, 3, {.padding = 1, .bias = false}),  nn::BatchNorm2d(out), nn::ReLU(),
                        nn::Conv2d(out, out, 3, {.padding = 1, .bias = false}), nn::BatchNorm2d(out), nn::ReLU()};
}

// images (N, 1, H, W) -> for each pixel, the logit of belonging to a disc (N, 1, H, W). H and W are multiples of 4.
struct UNet : nn::Module {
  nn::Sequential& down1 = add("down1", double_conv(1, 8));
  nn::Sequential& down2 = add("down2", double_conv(8, 16));
  nn::Sequential& bottom = add("bottom", double_conv(16, 32));
  nn::ConvTranspose2d& grow2 = add("grow2", nn::ConvTranspose2d(32, 16, 2, {.stride = 2}));
  nn::Sequential& up2 = add("up2", double_conv(32, 16));
  nn::ConvTranspose2d& grow1 = add("grow1", nn::ConvTranspose2d(16, 8, 2, {.stride = 2}));
  nn::Sequential& up1 = add("up1", double_conv(16, 8));
  nn::Conv2d& head = add("head", nn::Conv2d(8, 1, 1));

  Tensor forward(const Tensor& images) override {
    const Tensor fine = down1(images);
    const Tensor coarse = down2(max_pool2d(fine, 2));
    const Tensor lowest = bottom(max_pool2d(coarse, 2));
    const Tensor y = up2(cat({coarse, grow2(lowest)}, 1));
    return head(up1(cat({fine, grow1(y)}, 1)));
  }
};

struct Trainer {
  UNet model;
  optim::SGD optimizer{model.parameters(), {.lr = 0.05, .momentum = 0.9}};

  // images and masks (N, 1, H, W) u8: brightness from 0 to 255; 1 in a disc, 0 elsewhere
  double step(const Array& images, const Array& masks) {
    const Tensor logits = model(Tensor(images.to(DType::f32)) / 255);
    const Tensor loss = binary_cross_entropy_with_logits(logits, masks.to(DType::f32));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss.item();
  }
};

void train_on_file(const std::string& path) {
  Trainer trainer;
  Array images, masks;
  std::vector<NamedArray> weights;
  for (auto& [name, array] : load_arrays(path)) {
    if (name == "images") images = array;
    else if (name == "masks") masks = array;
    else weights.push_back({name, array});
  }
  trainer.model.load_state_dict(weights);
  std::cout.precision(9);
  for (std::int64_t i = 0; i < images.dim(0); ++i)
    std::cout << trainer.step(images.select(0, i), masks.select(0, i)) << '\n';
}

void train_on_made_up_images() {
  Trainer trainer;
  Generator generator(1);
  constexpr std::int64_t n = 8, size = 32;
  double loss = 0;
  for (int step = 1; step <= 100; ++step) {
    const Array images = Array::empty({n, 1, size, size}, DType::u8), masks = zeros({n, 1, size, size}, DType::u8);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto x0 = generator.integer(6, size - 6), y0 = generator.integer(6, size - 6), r = generator.integer(3, 7);
      for (std::int64_t y = 0; y < size; ++y)
        for (std::int64_t x = 0; x < size; ++x) {
          const std::int64_t at = (i * size + y) * size + x;
          const bool is_disc = (x - x0) * (x - x0) + (y - y0) * (y - y0) < r * r;
          masks.data<std::uint8_t>()[at] = is_disc;
          images.data<std::uint8_t>()[at] = static_cast<std::uint8_t>(generator.integer(0, 156) + (is_disc ? 100 : 0));
        }
    }
    loss = trainer.step(images, masks);
    if (step % 20 == 0) std::cout << "step " << step << ": loss " << loss << std::endl;
  }
  TANDEM_CHECK(loss < 0.3, "the network did not learn: its loss is ", loss);
}

int main(int argc, char** argv) {
  return distributed::run_program(argc, argv, {"unet", "[file X.safetensors]", 2}, [&] {
    manual_seed(0);
    const std::string what = argc == 3 ? argv[1] : "";
    if (what == "file") train_on_file(argv[2]);
    else if (argc == 1) train_on_made_up_images();
    else throw distributed::UsageError("expected no arguments, or \"file X.safetensors\"");
  });
}
