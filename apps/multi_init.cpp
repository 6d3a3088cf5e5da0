// Starts the processes of a job itself, without a launcher: multi_init [PROCESSES]
#include <tandem/distributed/system/cores.h>
#include <tandem/tandem.h>

#include <charconv>
#include <iostream>
#include <string_view>

using namespace tandem;
using namespace tandem::distributed;

// Eight points on a circle. The class of a point is its half of the circle: above or below the x axis. Each rank has
// different points.
data::Batch points_of(int rank) {
  std::vector<float> points;
  std::vector<std::int64_t> sides;
  for (int i = 0; i < 8; ++i) {
    const double angle = i + 0.1 * rank;
    points.insert(points.end(), {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))});
    sides.push_back(std::sin(angle) > 0);
  }
  return {Array::from(points, {8, 2}), Array::from(sides, {8})};
}

void train(int rank, int epochs, int world_size) {
  const auto group = init();
  std::cout << "Rank " << rank + 1 << "/" << world_size << " process initialized.\n" << std::flush;

  // A real program would download here, on one rank, while the others wait at the barrier.
  if (rank == 0) std::cout << "Rank 1 would download the data now.\n" << std::flush;
  group->barrier("download")->wait();
  std::cout << "Rank " << rank + 1 << "/" << world_size << " training process passed data download barrier.\n"
            << std::flush;

  manual_seed(0);
  nn::Linear model(2, 2);
  DistributedDataParallel ddp(model, group);
  const nn::CrossEntropyLoss criterion;
  optim::SGD optimizer(model.parameters(), {.lr = 1});
  const auto [points, sides] = points_of(rank);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const Tensor loss = criterion(ddp(points), sides);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    const double mean = group->mean(loss.item(), "loss");
    if (rank == 0) std::cout << "Epoch " << epoch + 1 << ": loss " << mean << "\n";
  }
}

int main(int argc, char** argv) {
  const std::string usage = "[PROCESSES] (starts that many processes itself; default: one per core)";
  return run_program(argc, argv, {"multi_init", usage, 1}, [&] {
    int world_size = available_cores();
    if (argc > 1) {
      const std::string_view processes = argv[1];
      const auto [end, error] = std::from_chars(processes.begin(), processes.end(), world_size);
      if (error != std::errc() || end != processes.end() || world_size < 1)
        throw UsageError(std::string(processes) + ": expected a number of processes, at least 1");
    }
    constexpr int epochs = 5;
    spawn(world_size, [&](int rank) { train(rank, epochs, world_size); });
  });
}
