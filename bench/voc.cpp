// Tandem's side of the benchmark bench/voc: training steps of a segmentation model on one batch, in one process.
//
//   voc_step MODEL BATCH CROP DTYPE STEPS DEVICE
//
// Prints one line of JSON: the seconds and the loss of each step, and on the CPU the largest resident set of the
// process. From the same seeds torch_voc.py makes the same weights and the same pictures. Dropout is 0, so that the
// losses can be compared.
#include <tandem/tandem.h>

#include <sys/resource.h>

#include <chrono>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using namespace tandem;
using Clock = std::chrono::steady_clock;

nlohmann::json measure(const std::string& name, std::int64_t batch, std::int64_t crop, DType dtype, int steps,
                       Device device) {
  manual_seed(0);
  auto model = nn::models::make_segmentation_model(name, {.dropout = 0});
  model.to(device);
  optim::SGD optimizer(model.parameters(), {.lr = 1e-4, .momentum = 0.9, .weight_decay = 1e-4});
  manual_seed(1);
  const Tensor images(randn({batch, 3, crop, crop}).channels_last().to(device));
  std::vector<std::int64_t> labels(static_cast<std::size_t>(batch * crop * crop));
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = i / 7 % 22 == 21 ? 255 : static_cast<std::int64_t>(i / 7 % 22);
  const Array masks = Array::from(labels, {batch, crop, crop}).to(device);
  const CrossEntropyOptions criterion{.ignore_index = 255};

  nlohmann::json seconds = nlohmann::json::array(), losses = nlohmann::json::array();
  for (int step = 0; step < steps; ++step) {
    const auto begin = Clock::now();
    optimizer.zero_grad();
    Tensor loss;
    {
      const Autocast autocast(dtype);
      const auto found = model.segment(images);
      loss = cross_entropy(found.out, masks, criterion) + 0.5 * cross_entropy(found.aux, masks, criterion);
    }
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item());
    synchronize(device);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
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
  if (argc != 7) throw Error("voc_step MODEL BATCH CROP DTYPE STEPS DEVICE");
  std::cout << measure(argv[1], std::stoll(argv[2]), std::stoll(argv[3]),
                       std::string(argv[4]) == "bf16" ? DType::bf16 : DType::f32, std::stoi(argv[5]),
                       std::string(argv[6]) == "cuda" ? Device::cuda(0) : Device{})
            << std::endl;
  return 0;
} catch (const std::exception& error) {
  std::cerr << "voc_step: " << error.what() << '\n';
  return 1;
}
