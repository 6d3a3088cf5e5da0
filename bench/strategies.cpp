// Trains a model for a few steps with each strategy, and measures the cost of a step. bench/strategies and
// bench/strategies_voc run this program.
//
//   tandemrun --nproc-per-node 2 strategies          the strategies with several processes
//   strategies --replicas 2 --batch-size 100         DataParallel
//   strategies --batch-size 100                      one process
//   strategies --model deeplabv3_resnet18 --crop 65  a segmentation network on made-up images
//
// Rank 0 prints one line of JSON for each strategy and round. Every strategy starts from the same weights and gets the
// same batches. The losses of all strategies that average gradients must agree. The batches are gathered and copied to
// the device before the clock starts. On a GPU, a step ends when the device has finished its work, and `exposed` is
// only the time that the host waits.
#include <bench/counting_group.h>
#include <tandem/nn/models/segmentation.h>
#include <tandem/tandem.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

using namespace tandem;
using namespace tandem::distributed;
using tandem::bench::CountingGroup;
using tandem::bench::Traffic;

namespace {

constexpr int warm_up_steps = 3;
constexpr int inner_steps = 10;  // of DiLoCo and local SGD; divides the usual number of measured steps

// Images of noise. Their masks change the class every few pixels, without void. Sample i is the same in every process.
class NoisePictures : public data::SampleDataset {
 public:
  explicit NoisePictures(std::int64_t side) : side_(side) {}
  std::int64_t size() const override { return 1 << 20; }
  data::Sample sample(std::int64_t index) const override {
    const auto pixels = static_cast<std::size_t>(side_ * side_);
    std::vector<float> colours(3 * pixels);
    Generator(static_cast<std::uint64_t>(index)).fill_normal(colours.data(), static_cast<std::int64_t>(colours.size()));
    std::vector<std::int64_t> classes(pixels);
    for (std::size_t i = 0; i < pixels; ++i) classes[i] = (static_cast<std::int64_t>(i / 7) + index) % 21;
    return {Array::from(colours, {3, side_, side_}), Array::from(classes, {side_, side_})};
  }

 private:
  std::int64_t side_;
};

using Factory = std::function<std::unique_ptr<nn::Module>()>;

// Makes the networks. A segmentation network has no auxiliary classifier, because DataParallel joins only one output.
// It has no dropout, because the random numbers would differ between the strategies.
Factory factory(const std::string& model) {
  if (model == "mnist") return [] { return std::make_unique<nn::models::MnistNet>(); };
  return [model]() -> std::unique_ptr<nn::Module> {
    return std::make_unique<nn::models::SegmentationModel>(
        nn::models::make_segmentation_model(model, {.aux_classifier = false, .dropout = 0}));
  };
}

// How to train a model: its forward pass, and the work after the backward pass.
struct Training {
  std::function<Tensor(const Tensor&)> forward;
  std::function<void()> update;
  bool steps_differ = false;  // only some steps communicate
};

using Group = std::shared_ptr<CountingGroup>;
using Sgd = optim::SGDOptions;

Training train_with_ddp(nn::Module& model, Group group, const Sgd& sgd, BucketSizes sizes,
                        CommunicationHook hook = {}) {
  const auto ddp =
      std::make_shared<DistributedDataParallel>(model, group, DistributedDataParallelOptions{.buckets = sizes});
  ddp->set_communication_hook(std::move(hook));
  const auto optimizer = std::make_shared<optim::SGD>(model.parameters(), sgd);
  return {[ddp](const Tensor& x) { return (*ddp)(x); }, [optimizer] { optimizer->step(); }};
}

Training train_with_servers(nn::Module& model, Group group, const Sgd& sgd, int servers) {
  const auto server = std::make_shared<ParameterServer>(model, group, servers);
  const auto optimizer = server->is_server() ? std::make_shared<optim::SGD>(server->kept(), sgd) : nullptr;
  return {std::ref(model), [server, optimizer] { server->step([&] { optimizer->step(); }); }};
}

Training train_with_shards(nn::Module& model, Group group, const Sgd& sgd, int stage) {
  const auto zero = std::make_shared<ZeroRedundancy>(model, group, ZeroRedundancyOptions{.stage = stage});
  const auto optimizer = std::make_shared<optim::SGD>(model.parameters(), sgd);
  zero->use(*optimizer);
  return {[zero](const Tensor& x) { return zero->ddp()(x); }, [zero, optimizer] { zero->step(); }};
}

Training train_with_diloco(nn::Module& model, Group group, const Sgd& sgd, const Sgd& outer) {
  const auto diloco = std::make_shared<DiLoCo>(model, group, DiLoCoOptions{.inner_steps = inner_steps, .outer = outer});
  const auto optimizer = std::make_shared<optim::SGD>(model.parameters(), sgd);
  const auto update = [diloco, optimizer] {
    optimizer->step();
    diloco->step();
  };
  return {std::ref(model), update, true};
}

// Trains with DataParallel. Each replica has one device: a share of the cores, or a GPU.
Training train_with_replicas(nn::Module& model, const Factory& make_replica, int replicas, Device first,
                             const Sgd& sgd) {
  std::vector<Device> devices(static_cast<std::size_t>(replicas), first);
  for (int i = 0; i < replicas && !first.is_cpu(); ++i) devices[i] = Device::cuda(i);
  const auto parallel = std::make_shared<DataParallel>(model, make_replica, devices);
  const auto optimizer = std::make_shared<optim::SGD>(model.parameters(), sgd);
  return {[parallel](const Tensor& x) { return (*parallel)(x); }, [optimizer] { optimizer->step(); }};
}

// The bytes that the interfaces of this network namespace, except the loopback, have sent and received.
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

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The measurements of one rank for one step.
struct Measurement {
  double milliseconds = 0;  // median, or the mean if the steps differ
  double exposed = 0;       // the communication's part of those milliseconds, median or mean
  double sent = 0, received = 0;
  double wire_sent = 0, wire_received = 0;
  double early_loss = 0;  // of the first measured step, before rounding errors grow
  double loss = 0;        // of the last step
};

Measurement measure(nn::Module& model, Training training, Group group, const std::vector<data::Batch>& batches,
                    DType dtype) {
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
    Tensor loss;
    {
      const Autocast autocast(dtype);
      loss = criterion(training.forward(batches[i].inputs), batches[i].targets);
    }
    model.zero_grad();
    loss.backward();
    training.update();
    synchronize(loss.value().device());
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    const Traffic traffic = group->take();
    if (i < warm_up_steps) continue;
    if (i == warm_up_steps) result.early_loss = loss.item();
    milliseconds.push_back(time.count());
    exposed.push_back(traffic.seconds * 1000);
    result.sent += traffic.sent;
    result.received += traffic.received;
    result.loss = loss.item();
  }
  group->barrier()->wait();
  const double steps = static_cast<double>(milliseconds.size());
  const auto wire_end = wire_bytes();
  result.milliseconds = training.steps_differ ? mean(milliseconds) : median(milliseconds);
  result.exposed = training.steps_differ ? mean(exposed) : median(exposed);
  result.sent /= steps;
  result.received /= steps;
  result.wire_sent = (wire_end.first - wire.first) / steps;
  result.wire_received = (wire_end.second - wire.second) / steps;
  return result;
}

// Prints a line on rank 0. Each figure is a list with the values of all ranks, in rank order.
void print(const std::string& strategy, std::int64_t round, const Measurement& m, CountingGroup& group) {
  const nlohmann::json mine = {{"milliseconds", m.milliseconds},
                               {"exposed", m.exposed},
                               {"sent", m.sent},
                               {"received", m.received},
                               {"wire_sent", m.wire_sent},
                               {"wire_received", m.wire_received},
                               {"early_loss", m.early_loss},
                               {"loss", m.loss}};
  const auto ranks = group.all_gather_strings(mine.dump());
  if (group.rank() != 0) return;
  nlohmann::json line = {{"strategy", strategy}, {"round", round}, {"backend", group.backend()}};
  for (const auto& [key, value] : mine.items()) {
    for (const auto& text : ranks) line[key].push_back(nlohmann::json::parse(text)[key]);
  }
  std::cout << line.dump() << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  TrainingOptions options("strategies", "Trains for a few steps with each strategy, and prints the cost of a step.");
  options.batch_size = 50;
  std::string data, model_name = "mnist", only;
  std::int64_t steps = 30, rounds = 1, replicas = 0, crop = 65;
  options.add("--data", data, "folder of the MNIST files (TANDEM_DATA, else a download, else a sample)");
  options.add("--model", model_name, "mnist, deeplabv3_resnetN or fcn_resnetN (mnist)");
  options.add("--crop", crop, "side of the pictures that are segmented", {.min = 1, .max = 1 << 14});
  options.add("--only", only, "one strategy, by the name in the output (all)");
  options.add("--steps", steps, "steps to measure, of each strategy", {.min = 1, .max = 100000});
  options.add("--rounds", rounds, "how often, in turn", {.min = 1, .max = 100000});
  options.add("--replicas", replicas, "DataParallel over so many shares of the cores, or GPUs, in one process",
              {.min = 0, .max = 1000});

  return options.run(argc, argv, [&] {
    const auto group = std::make_shared<CountingGroup>(init(options.init_options()));
    const int rank = group->rank(), world = group->size();
    TANDEM_CHECK(replicas == 0 || world == 1, "--replicas ", replicas,
                 ": DataParallel needs one process, but there are ", world);
    std::unique_ptr<data::Dataset> images;
    if (model_name == "mnist")
      images = std::make_unique<data::Mnist>(data::find_mnist({.data = data}).folder, data::Split::train);
    else images = std::make_unique<NoisePictures>(crop);
    std::vector<data::Batch> batches;
    for (std::int64_t step = 0; step < warm_up_steps + steps; ++step) {
      std::vector<std::int64_t> indices;
      for (std::int64_t i = 0; i < options.batch_size; ++i)
        indices.push_back(((step * world + rank) * options.batch_size + i) % images->size());
      const auto [inputs, targets] = images->get(indices);
      batches.push_back({inputs.to(options.device()), targets.to(options.device())});
    }
    const Factory make_model = factory(model_name);
    // The learning rate is high. If gradients are not averaged, the losses show it after a few steps.
    const Sgd sgd{.lr = model_name == "mnist" ? 1e-3 : 1e-2, .momentum = 0.9};

    std::vector<std::pair<std::string, std::function<Training(nn::Module&)>>> strategies;
    const auto add = [&](const std::string& name, std::function<Training(nn::Module&)> make) {
      strategies.emplace_back(name, std::move(make));
    };
    if (replicas > 0) {
      add("data_parallel", [&](nn::Module& model) {
        return train_with_replicas(model, make_model, static_cast<int>(replicas), options.device(), sgd);
      });
    } else if (world == 1) {
      add("one_process", [&](nn::Module& model) { return train_with_ddp(model, group, sgd, {}); });
    } else {
      add("ddp", [&](nn::Module& model) { return train_with_ddp(model, group, sgd, {}); });
      // With buckets of the usual size, all gradients of this small network share one bucket, which is full only at the
      // end of backward.
      add("ddp_small_buckets", [&](nn::Module& model) {
        return train_with_ddp(model, group, sgd, {.first_bytes = 16 << 10, .bytes = 16 << 10});
      });
      add("ring", [&](nn::Module& model) { return train_with_ddp(model, group, sgd, {}, ring_hook()); });
      for (const int stage : {1, 2}) {
        add("zero_" + std::to_string(stage),
            [&, stage](nn::Module& model) { return train_with_shards(model, group, sgd, stage); });
      }
      add("local_sgd", [&](nn::Module& model) { return train_with_diloco(model, group, sgd, local_sgd); });
      add("diloco", [&](nn::Module& model) { return train_with_diloco(model, group, sgd, DiLoCoOptions().outer); });
      add("hierarchical",
          [&](nn::Module& model) { return train_with_ddp(model, group, sgd, {}, hierarchical_hook(group)); });
      for (int servers = 1; servers <= world; servers *= 2) {
        add("parameter_server_" + std::to_string(servers),
            [&, servers](nn::Module& model) { return train_with_servers(model, group, sgd, servers); });
      }
    }
    if (!only.empty()) {
      std::erase_if(strategies, [&](const auto& strategy) { return strategy.first != only; });
      TANDEM_CHECK(!strategies.empty(), "--only ", only, ": not a strategy of ", world, " processes and ", replicas,
                   " replicas");
    }
    for (std::int64_t round = 0; round < rounds; ++round) {
      // Each round starts with a different strategy, because the first moments of a run may be slow.
      for (std::size_t i = 0; i < strategies.size(); ++i) {
        const auto& [name, make] = strategies[(i + static_cast<std::size_t>(round)) % strategies.size()];
        manual_seed(options.seed);
        const auto model = make_model();
        model->to(options.device());
        auto measurement = measure(*model, make(*model), group, batches, options.dtype);
        // DataParallel copies within memory: the state to each replica except the first, and the gradients back.
        for (std::int64_t i = 1; i < replicas; ++i) {
          for (const auto& entry : model->state_dict()) measurement.sent += static_cast<double>(entry.array.bytes());
          for (const auto& entry : model->parameters())
            measurement.received += static_cast<double>(entry.tensor.value().bytes());
        }
        print(name, round, measurement, *group);
      }
    }
  });
}
