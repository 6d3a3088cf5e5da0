// One training step of mnist_ddp, from MNIST's files to new weights, as one of two processes. scripts/check_spine
// builds this program with gcov, runs two processes of it, and reads which lines of the library the step has executed.
#include <tandem/tandem.h>

#include <iostream>
#include <string>

extern "C" void __gcov_reset();
extern "C" void __gcov_dump();

using namespace tandem;
using namespace tandem::distributed;

// Arguments: MNIST's folder, and a file in which the two ranks meet. RANK and WORLD_SIZE say which rank this is.
int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string folder = argv[1], meeting_place = argv[2];
  try {
    const auto group = init({.backend = GroupBackend::shm, .init_method = "file://" + meeting_place});
    nn::models::MnistNet model;
    DistributedDataParallel ddp(model, group);
    optim::SGD optimizer(model.parameters(), {.lr = 0.02, .momentum = 0.9});
    const nn::CrossEntropyLoss criterion;
    group->barrier()->wait();

    __gcov_reset();
    const data::Mnist images(folder, data::Split::train);
    data::DistributedSampler sampler(images.size(), {.rank = group->rank(), .world = group->size()});
    data::Loader loader(images, sampler, {.batch_size = 100});
    for (auto& [image, label] : loader) {
      optimizer.zero_grad();
      criterion(ddp(image), label).backward();
      optimizer.step();
      __gcov_dump();  // everything later is not counted, not even the end of the process
      break;
    }
    group->barrier()->wait();
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
