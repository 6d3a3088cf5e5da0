// Trains the MNIST network for a few steps with each strategy, and says what a step costs. bench/strategies runs it.
//
//   tandemrun --nproc-per-node 2 strategies          the strategies of several processes
//   strategies --replicas 2 --batch-size 100         DataParallel
//   strategies --batch-size 100                      one process
//
// Rank 0 prints one line of JSON for each strategy and round. Every strategy starts from the same weights and sees the same
// batches, so the losses must agree; the batches are gathered before the clock starts.
#include <bench/counting_group.h>
#include <tandem/tandem.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace tandem;
using namespace tandem::distributed;
using tandem::bench::CountingGroup;
using tandem::bench::Traffic;

namespace {

constexpr optim::SgdOptions sgd{.lr = 1e-3, .momentum = 0.9};
constexpr int warm_up_steps = 3;

struct Net : nn::Module {
  nn::Sequential& layer1 = add("layer1", nn::Sequential{nn::Conv2d(1, 16, {.kernel_size = 5, .padding = 2}),
                                                        nn::BatchNorm2d(16), nn::ReLU(), nn::MaxPool2d(2)});
  nn::Sequential& layer2 = add("layer2", nn::Sequential{nn::Conv2d(16, 32, {.kernel_size = 5, .padding = 2}),
                                                        nn::BatchNorm2d(32), nn::ReLU(), nn::MaxPool2d(2)});
  nn::Linear& fc = add("fc", nn::Linear(7 * 7 * 32, 10));

  Tensor forward(const Tensor& x) override { return fc(flatten(layer2(layer1(x)), 1)); }
};

// A model in training: forward, and what follows backward.
struct Training {
  std::function<Tensor(const Tensor&)> forward;
  std::function<void()> update;
};

using Group = std::shared_ptr<CountingGroup>;

Training train_with_ddp(Net& model, Group group, BucketSizes sizes) {
  const auto ddp = std::make_shared<DistributedDataParallel>(model, group, sizes);
  const auto optimizer = std::make_shared<optim::SGD>(model.parameters(), sgd);
  return {[ddp](const Tensor& x) { return (*ddp)(x); }, [optimizer] { optimizer->step(); }};
}

Training train_with_ring(Net& model, Group group) {
  const auto ring = std::make_shared<RingDataParallel>(model, group);
  const auto optimizer = std::make_shared<optim::SGD>(model.parameters(), sgd);
  return {std::ref(model), [ring, optimizer] {
            ring->average_gradients();
            optimizer->step();
          }};
}

Training train_with_servers(Net& model, Group group, int servers) {
  const auto make_optimizer = [](auto parameters) {
    return std::make_unique<optim::SGD>(std::move(parameters), sgd);
  };
  const auto server = std::make_shared<ParameterServer>(model, group, servers, make_optimizer);
  return {std::ref(model), [server] { server->step(); }};
}

Training train_with_replicas(Net& model, int replicas) {
  const auto make_replica = [] { return std::make_unique<Net>(); };
  const auto parallel = std::make_shared<DataParallel>(model, make_replica, replicas);
  const auto optimizer = std::make_shared<optim::SGD>(model.parameters(), sgd);
  return {[parallel](const Tensor& x) { return (*parallel)(x); }, [optimizer] { optimizer->step(); }};
}

// Bytes that all network interfaces but the loopback have sent and received in this network namespace.
std::pair<double, double> wire_bytes() {
  std::ifstream file("/proc/net/dev");
  double sent = 0, received = 0;
  for (std::string line; std::getline(file, line);) {
    std::replace(line.begin(), line.end(), ':', ' ');
    std::istringstream text(line);
    std::string name;
    double columns[9] = {};
    text >> name;
    for (double& column : columns) text >> column;
    if (!text || name == "lo") continue;
    received += columns[0];
    sent += columns[8];
  }
  return {sent, received};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// What one rank measured, per step.
struct Measurement {
  double milliseconds = 0;  // median
  double exposed = 0;       // milliseconds of it in communication, median
  double sent = 0, received = 0;
  double wire_sent = 0, wire_received = 0;
  double loss = 0;  // of the last step
};

Measurement measure(Net& model, Training training, Group group, const std::vector<data::Batch>& batches) {
  const nn::CrossEntropyLoss criterion;
  Measurement result;
  std::vector<double> milliseconds, exposed;
  std::pair<double, double> wire;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (i == warm_up_steps) {
      group->barrier()->wait();
      wire = wire_bytes();
    }
    group->take();
    const auto begin = std::chrono::steady_clock::now();
    const Tensor loss = criterion(training.forward(batches[i].inputs), batches[i].targets);
    model.zero_grad();
    loss.backward();
    training.update();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    const Traffic traffic = group->take();
    if (i < warm_up_steps) continue;
    milliseconds.push_back(time.count());
    exposed.push_back(traffic.seconds * 1000);
    result.sent += traffic.sent;
    result.received += traffic.received;
    result.loss = loss.item();
  }
  group->barrier()->wait();
  const double steps = static_cast<double>(milliseconds.size());
  const auto wire_end = wire_bytes();
  result.milliseconds = median(milliseconds);
  result.exposed = median(exposed);
  result.sent /= steps;
  result.received /= steps;
  result.wire_sent = (wire_end.first - wire.first) / steps;
  result.wire_received = (wire_end.second - wire.second) / steps;
  return result;
}

// On rank 0: each figure of all ranks, in their order.
void print(const std::string& strategy, std::int64_t round, const Measurement& m, CountingGroup& group) {
  const nlohmann::json mine = {{"milliseconds", m.milliseconds},
                               {"exposed", m.exposed},
                               {"sent", m.sent},
                               {"received", m.received},
                               {"wire_sent", m.wire_sent},
                               {"wire_received", m.wire_received},
                               {"loss", m.loss}};
  const auto ranks = group.gather_strings(mine.dump(), 0);
  if (group.rank() != 0) return;
  nlohmann::json line = {{"strategy", strategy}, {"round", round}, {"backend", group.backend()}};
  for (const auto& [key, value] : mine.items()) {
    for (const auto& text : ranks) line[key].push_back(nlohmann::json::parse(text)[key]);
  }
  std::cout << line.dump() << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  TrainingOptions options("strategies",
                          "Trains for a few steps with each strategy, and says what a step costs.");
  options.batch_size = 50;
  std::string data;
  std::int64_t steps = 30, rounds = 1, replicas = 0;
  options.add("--data", data, "folder of the MNIST files (TANDEM_DATA, else a download, else a sample)");
  options.add("--steps", steps, "steps to measure, of each strategy", {.min = 1, .max = 100000});
  options.add("--rounds", rounds, "how often, in turn", {.min = 1, .max = 100000});
  options.add("--replicas", replicas, "DataParallel over so many threads, in one process",
              {.min = 0, .max = 1000});

  return options.run(argc, argv, [&] {
    const auto group = std::make_shared<CountingGroup>(init(options.init_options()));
    const int rank = group->rank(), world = group->size();
    TANDEM_CHECK(replicas == 0 || world == 1, "--replicas ", replicas,
                 ": DataParallel is for one process, there are ", world);
    const data::Mnist images(data::find_mnist({.data = data}).folder, data::Split::train);
    std::vector<data::Batch> batches;
    for (std::int64_t step = 0; step < warm_up_steps + steps; ++step) {
      std::vector<std::int64_t> indices;
      for (std::int64_t i = 0; i < options.batch_size; ++i)
        indices.push_back(((step * world + rank) * options.batch_size + i) % images.size());
      batches.push_back(images.get(indices));
    }

    std::vector<std::pair<std::string, std::function<Training(Net&)>>> strategies;
    const auto add = [&](const std::string& name, std::function<Training(Net&)> make) {
      strategies.emplace_back(name, std::move(make));
    };
    if (replicas > 0) {
      add("data_parallel",
          [&](Net& model) { return train_with_replicas(model, static_cast<int>(replicas)); });
    } else if (world == 1) {
      add("one_process", [&](Net& model) { return train_with_ddp(model, group, {}); });
    } else {
      add("ddp", [&](Net& model) { return train_with_ddp(model, group, {}); });
      // With the usual sizes all gradients of this small network share a bucket, which is full when backward ends.
      add("ddp_small_buckets", [&](Net& model) {
        return train_with_ddp(model, group, {.first_bytes = 16 << 10, .bytes = 16 << 10});
      });
      add("ring", [&](Net& model) { return train_with_ring(model, group); });
      for (int servers = 1; servers <= world; servers *= 2) {
        add("parameter_server_" + std::to_string(servers),
            [&, servers](Net& model) { return train_with_servers(model, group, servers); });
      }
    }
    for (std::int64_t round = 0; round < rounds; ++round) {
      // Each round begins with another one: what a machine does in its first moments should favour none.
      for (std::size_t i = 0; i < strategies.size(); ++i) {
        const auto& [name, make] = strategies[(i + static_cast<std::size_t>(round)) % strategies.size()];
        manual_seed(options.seed);
        Net model;
        auto measurement = measure(model, make(model), group, batches);
        // Copies from memory to memory: the state to each replica but the first, and the gradients back.
        for (std::int64_t i = 1; i < replicas; ++i) {
          for (const auto& entry : model.state_dict())
            measurement.sent += static_cast<double>(entry.array.bytes());
          for (const auto& entry : model.parameters())
            measurement.received += static_cast<double>(entry.tensor.value().bytes());
        }
        print(name, round, measurement, *group);
      }
    }
  });
}
