// One rank of the benchmarks bench/overlap and bench/scaling, which start this program and send it commands.
//
//   overlap_rank COMMANDS LAYERS WIDTH BATCH BUCKET_BYTES [WAIT_MS SPREAD]
//
// The rank, the size and the address of the store come from torchrun's variables. The program trains LAYERS linear
// layers of WIDTH x WIDTH on batches of random numbers. COMMANDS.<rank> is a pipe with one line "WHAT STEPS" per
// measurement, the same for all ranks. WHAT is one of:
//   compute         steps without communication
//   communication   the all-reduces of a step, and nothing else
//   step            whole steps
//   sharded         steps without DDP, then a reduce-scatter and an all-gather of all gradients, as in ZeRO-1
//   all_reduce/N    an all-reduce of N bytes, and nothing else
//
// With WAIT_MS, each layer also waits for so many milliseconds in forward and for twice as long in backward. Many ranks
// with small layers then fit on few cores. In each step, a rank's waits are multiplied by exp(SPREAD z). z is drawn
// from a normal distribution.
//
// Every rank answers with one line of JSON on its standard output: the milliseconds of each step.
#include <tandem/tandem.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace tandem;
using namespace tandem::distributed;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Returns `x`. Takes `forward` milliseconds, and `backward` milliseconds in the backward pass.
Tensor wait_both_ways(const Tensor& x, double forward, double backward) {
  const auto wait = [](double time) { std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(time)); };
  wait(forward);
  return autograd::record("wait_both_ways", {x}, x.value().clone(),
                          [=](const Array& grad, autograd::Needs) -> autograd::Gradients {
                            wait(backward);
                            return {grad};
                          });
}

struct Net : nn::Module {
  Net(int count, std::int64_t width) {
    for (int i = 0; i < count; ++i) layers.push_back(&add("layer" + std::to_string(i), nn::Linear(width, width)));
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (auto* layer : layers) {
      y = relu((*layer)(y));
      if (wait > 0) y = wait_both_ways(y, wait, 2 * wait);
    }
    return y;
  }
  std::vector<nn::Linear*> layers;
  double wait = 0;  // milliseconds
};

class Rank {
 public:
  Rank(std::shared_ptr<ProcessGroup> group, int layers, std::int64_t width, std::int64_t batch, std::size_t bucket,
       double wait, double spread)
      : group_(std::move(group)),
        wait_(wait),
        spread_(spread),
        random_(static_cast<std::uint32_t>(group_->rank())),
        model_(layers, width),
        ddp_(model_, group_, {.buckets = {.first_bytes = bucket, .bytes = bucket}}),
        optimizer_(model_.parameters(), {.lr = 1e-3}) {
    std::normal_distribution<float> normal;
    std::vector<float> numbers(static_cast<std::size_t>(batch * width));
    for (float& number : numbers) number = normal(random_);
    inputs_ = Tensor(Array::from(numbers, {batch, width}));
    std::vector<std::int64_t> classes(static_cast<std::size_t>(batch));
    for (std::int64_t& c : classes) c = static_cast<std::int64_t>(random_()) % width;
    labels_ = Array::from(classes, {batch});
    // The buckets are rebuilt after the first step, and stay the same from the second step on.
    const auto meter = std::make_shared<CommunicationMeter>();
    ddp_.observe(meter);
    for (int i = 0; i < 2; ++i) train();
    for (const auto& b : meter->report().buckets)
      messages_.push_back(group_->allocate({static_cast<std::int64_t>(b.bytes / sizeof(float))}, DType::f32));
  }

  nlohmann::json measure(const std::string& what, int steps) {
    std::vector<double> whole, backward;
    constexpr int warm_up = 2;
    group_->barrier()->wait();
    for (int i = 0; i < warm_up + steps; ++i) {
      const auto begin = Clock::now();
      double part = 0;
      if (what == "compute") {
        const auto alone = ddp_.no_sync();
        part = train();
      } else if (what == "step") {
        part = train();
      } else if (what == "communication") {
        communicate();
      } else if (what == "sharded") {
        const auto alone = ddp_.no_sync();
        part = train([this] { exchange_shards(); });
      } else if (what.starts_with("all_reduce/")) {
        group_->all_reduce(message_of(std::stol(what.substr(11))))->wait();
      } else {
        detail::fail("there is no measurement of '", what, "'");
      }
      if (i < warm_up) continue;
      whole.push_back(milliseconds_since(begin));
      backward.push_back(part);
    }
    std::vector<std::int64_t> bytes;
    for (const auto& message : messages_) bytes.push_back(message.bytes());
    return {{"step", whole}, {"backward", backward}, {"bucket_bytes", bytes}};
  }

 private:
  // Trains one step. Calls `exchange` before the optimizer. Returns the milliseconds of the backward pass.
  double train(const std::function<void()>& exchange = [] {}) {
    model_.wait = wait_ * std::exp(spread_ * std::normal_distribution<double>()(random_));
    const Tensor loss = criterion_(ddp_(inputs_), labels_);
    optimizer_.zero_grad();
    const auto begin = Clock::now();
    loss.backward();
    const double backward = milliseconds_since(begin);
    exchange();
    optimizer_.step();
    return backward;
  }

  // Averages this rank's part of all gradients, and gathers all parts.
  void exchange_shards() {
    std::int64_t bytes = 0;
    for (const auto& message : messages_) bytes += static_cast<std::int64_t>(message.bytes());
    const Array mine = message_of(bytes / group_->size());
    const std::vector<Array> all(static_cast<std::size_t>(group_->size()), mine);
    group_->reduce_scatter(mine.clone(), all, ReduceOp::mean)->wait();
    std::vector<Array> gathered;
    for (int r = 0; r < group_->size(); ++r) gathered.push_back(mine.clone());
    group_->all_gather(gathered, mine)->wait();
  }

  Array message_of(std::int64_t bytes) {
    return group_->allocate({bytes / static_cast<std::int64_t>(sizeof(float))}, DType::f32);
  }

  void communicate() {
    std::vector<std::shared_ptr<Work>> works;
    for (const auto& message : messages_) works.push_back(group_->all_reduce(message, ReduceOp::mean));
    for (const auto& work : works) work->wait();
  }

  const std::shared_ptr<ProcessGroup> group_;
  const double wait_;    // of a layer in forward, in milliseconds
  const double spread_;  // of the waits of a step
  std::mt19937 random_;
  Net model_;
  DistributedDataParallel ddp_;
  optim::SGD optimizer_;
  const nn::CrossEntropyLoss criterion_{};
  Tensor inputs_;
  Array labels_;
  std::vector<Array> messages_;  // arrays with the sizes of the buckets
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6 && argc != 8) {
    std::cerr << "usage: overlap_rank COMMANDS LAYERS WIDTH BATCH BUCKET_BYTES [WAIT_MS SPREAD]\n";
    return 2;
  }
  try {
    const auto group = init({.backend = GroupBackend::gloo, .interface = "eth0"});
    const double wait = argc == 8 ? std::stod(argv[6]) : 0, spread = argc == 8 ? std::stod(argv[7]) : 0;
    Rank rank(group, std::stoi(argv[2]), std::stol(argv[3]), std::stol(argv[4]), std::stoul(argv[5]), wait, spread);
    std::ifstream pipe(argv[1] + ("." + std::to_string(group->rank())));
    std::string what;
    for (int steps = 0; pipe >> what >> steps;) std::cout << rank.measure(what, steps).dump() << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "overlap_rank: " << error.what() << '\n';
    return 1;
  }
}
