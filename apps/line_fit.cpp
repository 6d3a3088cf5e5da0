// Fits a line to points, on one process or several: tandemrun --nproc-per-node 4 line_fit
#include <tandem/tandem.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace tandem;
using namespace tandem::distributed;

void write_points(const std::string& path) {
  std::ofstream file(path);
  for (int i = 0; i < 64; ++i) file << i / 64.0 << ' ' << 3 * (i / 64.0) - 1 << '\n';
  TANDEM_CHECK(file.flush(), "could not write ", path, ": its folder must exist and be writable");
}

// The points of one rank: those whose index modulo `world` is `rank`. Returns x and y, each (N, 1).
std::pair<Array, Array> read_points(const std::string& path, int rank, int world) {
  std::vector<float> xs, ys;
  std::ifstream file(path);
  std::string line;
  for (int i = 0; std::getline(file, line); ++i) {
    std::istringstream numbers(line);
    float x = 0, y = 0;
    TANDEM_CHECK(numbers >> x >> y, path, ", line ", i + 1, ": expected two numbers, x and y, got '", line, "'");
    if (i % world != rank) continue;
    xs.push_back(x);
    ys.push_back(y);
  }
  TANDEM_CHECK(!xs.empty(), path, " has no points for rank ", rank);
  const auto n = static_cast<std::int64_t>(xs.size());
  return {Array::from(xs, {n, 1}), Array::from(ys, {n, 1})};
}

int main(int argc, char** argv) {
  TrainingOptions options("line_fit", "Fits a line to points, on one process or several.");
  options.epochs = 400;
  std::string path = "points.txt";
  double lr = 0.5;
  options.add("--points", path, "file with x and y in each line; created if missing");
  options.add("--lr", lr, "learning rate", {.min = 0});

  return options.run(argc, argv, [&] {
    const auto group = init(options.init_options());
    const int rank = group->rank(), world = group->size();

    // Rank 0 goes first, so the other ranks find the file.
    run_first(*group, [&] {
      if (!std::filesystem::exists(path)) write_points(path);
    });
    // If this fails on one rank, it fails on all ranks, with that rank's reason.
    const auto points = run_together(*group, [&] { return read_points(path, rank, world); });

    manual_seed(options.seed);
    nn::Linear line(1, 1);
    DistributedDataParallel ddp(line, group);
    optim::SGD optimizer(line.parameters(), {.lr = lr});
    Tensor loss;
    for (int epoch = 0; epoch < options.epochs; ++epoch) {
      loss = mse_loss(ddp(points.first), points.second);
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
    }

    // Every second rank joins a subgroup. All ranks call subgroup(). A rank outside the subgroup gets null.
    std::vector<int> even;
    for (int r = 0; r < world; r += 2) even.push_back(r);
    if (const auto some = group->subgroup(even)) {
      const double worst = some->max(loss.item(), "worst loss");
      if (rank == 0) std::cout << "worst loss of " << some->size() << " ranks: " << worst << "\n";
    }
    if (rank == 0) std::cout << "y = " << line.weight.value().item() << " x + " << line.bias.value().item() << "\n";
  });
}
