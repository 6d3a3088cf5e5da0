// Trains a small network elastically. Its arguments, NAME=VALUE, choose a fault and the rank that has it. Each process
// writes to a file of its own in the folder `log`:
//
//   try STEP RANK SIZE SAMPLE ...   before a step, or its repetition
//   done STEP EPOCH TIME            after it; TIME in seconds
//   end HASH LEAD SECONDS           after the training: a hash of parameters and optimizer state, whether this process
//                                   is the lead, and how long all steps took
#include <tandem/distributed/job/job_store.h>
#include <tandem/tandem.h>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

using namespace tandem;
using namespace tandem::distributed;

std::map<std::string, std::string> arguments = {
    {"log", ""},      {"samples", "48"}, {"batch", "2"}, {"epochs", "2"}, {"timeout", "20"}, {"min", "1"},
    {"backend", ""},  {"pause", "0"},    {"fault", ""},  {"at", ""},      {"step", "3"},     {"rank", "1"},
    {"restart", "0"}, {"norm", "0"},     {"plain", "0"}, {"crowd", "0"},  {"trigger", "-1"}, {"mnist", "0"}};
double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
int number(const char* name) { return std::stoi(arguments.at(name)); }

// Another connection to the keys of Membership.
std::shared_ptr<Store> elastic_store() {
  const auto environment = read_environment();
  return prefix_store("tandem/" + environment.run_id + "/elastic",
                      open_job_store(environment, std::chrono::seconds(10)));
}

struct Fault {
  bool is_here(const std::string& point, std::int64_t step) const {
    const auto environment = read_environment();
    return point == arguments["at"] && step >= number("step") && environment.rank == number("rank") &&
           environment.restart_count == number("restart");
  }
  void happen() {
    if (std::exchange(has_happened, true)) return;
    const auto& kind = arguments["fault"];
    if (kind == "kill") raise(SIGKILL);
    if (kind == "stop") raise(SIGSTOP);
    if (kind == "error") detail::fail("injected");
    if (kind == "end") elastic_store()->set("ended", "");  // as if the others had just ended the training
    if (kind == "end") throw PeerError("injected");
    if (kind != "peer") return;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the others go on
    throw PeerError("injected");
  }
  bool has_happened = false;
} fault;
std::int64_t step_now = 0;

// Has the fault at an operation with which a generation begins: in the second generation or later, or in a newcomer.
struct JoiningFault : OperationObserver {
  JoiningFault() { ++made; }
  std::uint64_t started(const ObservedOperation&, const Operation& operation) noexcept override {
    const bool joins = made > 1 || read_environment().restart_count > 0;
    if (joins && operation.name == "position" && fault.is_here("joining", step_now)) fault.happen();
    if (joins && operation.name == "fc.weight" && fault.is_here("sharing", step_now)) fault.happen();
    return 0;
  }
  static inline int made = 0;
};

struct Net : nn::Module {
  explicit Net(bool normalises) {
    if (normalises) norm = &add("norm", nn::BatchNorm2d(2));
  }
  nn::Conv2d& conv = add("conv", nn::Conv2d(1, 2, 3));
  nn::BatchNorm2d* norm = nullptr;
  nn::Linear& fc = add("fc", nn::Linear(2 * 4 * 4, 3));
  Tensor forward(const Tensor& x) override {
    const Tensor y = conv(x);
    return fc(flatten(relu(norm ? (*norm)(y) : y), 1));
  }
};

Tensor loss_of(nn::Module& net, std::span<const std::int64_t> samples) {
  const auto count = static_cast<std::int64_t>(samples.size());
  const std::int64_t side = number("mnist") ? 28 : 6, pixels = side * side;
  auto images = Array::empty({count, 1, side, side});
  auto labels = Array::empty({count}, DType::i64);
  for (std::int64_t i = 0; i < count; ++i) {
    labels.data<std::int64_t>()[i] = samples[static_cast<std::size_t>(i)] % 3;
    for (std::int64_t k = 0; k < pixels; ++k)
      images.data<float>()[i * pixels + k] =
          static_cast<float>((samples[static_cast<std::size_t>(i)] * 37 + k * k) % 11) / 11;
  }
  return cross_entropy(net(images), labels);
}

std::size_t hash_of(const std::vector<NamedArray>& arrays, std::size_t hash) {
  for (const auto& [name, array] : arrays) {
    const Array plain = array.contiguous();
    hash = hash * 31 + std::hash<std::string_view>()({static_cast<const char*>(plain.raw()), plain.bytes()});
  }
  return hash;
}

std::size_t hash_of(nn::Module& net, const optim::Optimizer& optimizer) {
  std::vector<NamedArray> parameters;
  for (const auto& [name, tensor] : net.parameters()) parameters.push_back({name, tensor.value()});
  return hash_of(optimizer.state_dict(), hash_of(parameters, 0));
}

// The same training with DistributedDataParallel.
void train_plainly(nn::Module& net, optim::Optimizer& optimizer, std::ofstream& log) {
  const auto group = init();
  DistributedDataParallel ddp(net, group);
  data::DistributedSampler sampler(number("samples"), {.rank = group->rank(), .world = group->size()});
  const double start = seconds();
  for (int epoch = 0; epoch < number("epochs"); ++epoch) {
    sampler.set_epoch(epoch);
    const auto samples = sampler.indices();
    for (std::size_t i = 0; i < samples.size(); i += static_cast<std::size_t>(number("batch"))) {
      optimizer.zero_grad();
      ddp.forward(
             [&] { return loss_of(net, std::span(samples).subspan(i, static_cast<std::size_t>(number("batch")))); })
          .backward();
      optimizer.step();
    }
  }
  log << "end " << hash_of(net, optimizer) << ' ' << (group->rank() == 0) << ' ' << seconds() - start << std::endl;
}

void train(nn::Module& net, optim::Optimizer& optimizer, std::ofstream& log) {
  const auto averaged = net.parameters().front().tensor.on_grad_ready([] {
    after_backward([] {  // after DistributedDataParallel's own
      if (fault.is_here("averaged", step_now)) fault.happen();
    });
  });
  const std::map<std::string, GroupBackend> backends = {
      {"", GroupBackend::automatic}, {"gloo", GroupBackend::gloo}, {"nccl", GroupBackend::nccl}};
  ElasticTraining training(net, optimizer,
                           {.samples = number("samples"),
                            .batch_size = number("batch"),
                            .epochs = number("epochs"),
                            .min_ranks = number("min"),
                            .timeout = std::chrono::seconds(number("timeout")),
                            .backend = backends.at(arguments["backend"])});
  const auto mean_loss = [&](std::span<const std::int64_t> samples) {
    step_now = training.steps();
    log << "try " << step_now << ' ' << training.rank() << ' ' << training.size();
    for (const auto sample : samples) log << ' ' << sample;
    log << std::endl;
    if (fault.is_here("body", step_now)) fault.happen();
    // A first fault of this rank, for faults of the generation that follows: a newcomer needs its death.
    const auto environment = read_environment();
    if (step_now == number("trigger") && environment.rank == number("rank") && environment.restart_count == 0) {
      arguments["trigger"] = "-1";
      if (number("restart") > 0) raise(SIGKILL);
      throw PeerError("triggered");
    }
    // Gives a newcomer time to arrive.
    const int pause = training.size() < number("crowd") ? 200 : number("pause");
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    return loss_of(net, samples);
  };
  const double start = seconds();
  for (;;) {
    step_now = training.steps();
    const auto epoch = training.epoch();
    if (!training.step(mean_loss)) break;
    log << "done " << step_now << ' ' << epoch << ' ' << std::fixed << seconds() << std::endl;
    if (fault.is_here("done", step_now)) fault.happen();
  }
  log << "end " << hash_of(net, optimizer) << ' ' << training.is_lead() << ' ' << seconds() - start << std::endl;
}

int main(int argc, char** argv) {
  return run_program(argc, argv, {"elastic_worker", "[NAME=VALUE ...]", 20}, [&] {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      arguments.at(word.substr(0, word.find('='))) = word.substr(word.find('=') + 1);
    }
    job_observers.add([](const Environment&, Store&) {
      return Observers{[](const ObservedGroup&) { return std::make_unique<JoiningFault>(); }};
    });
    // Has the fault when a generation has its members, which then connect.
    for (const std::string generation : {"1", "2"}) {
      if (!fault.is_here("forming" + generation, number("step"))) continue;
      std::thread([generation, store = elastic_store()] {
        store->wait({"members/" + generation}, std::chrono::seconds(20));
        fault.happen();
      }).detach();
    }
    manual_seed(0);
    const std::unique_ptr<nn::Module> net = number("mnist") ? std::unique_ptr<nn::Module>(new nn::models::MnistNet)
                                                            : std::make_unique<Net>(number("norm") != 0);
    optim::Adam optimizer(net->parameters(), {.lr = 0.01});
    std::ofstream log(arguments["log"] + "/" + std::to_string(read_environment().rank) + "-" +
                      std::to_string(getpid()));
    number("plain") ? train_plainly(*net, optimizer, log) : train(*net, optimizer, log);
  });
}
