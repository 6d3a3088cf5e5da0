// TrainingOptions: the command line that all training programs share. Its run() does the work of every main(): it
// parses the arguments, reports errors and returns the exit code.
#pragma once

#include <tandem/core/base/dtype.h>
#include <tandem/core/device/device.h>
#include <tandem/data/loader.h>
#include <tandem/distributed/ddp/reducer.h>
#include <tandem/distributed/job/init.h>
#include <tandem/distributed/training/options/choices.h>
#include <tandem/distributed/training/options/option_parser.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tandem::distributed {

// A program sets its own defaults, adds its own options, and trains in the body that it passes to run():
//
//   TrainingOptions options("mnist_ddp", "Trains a small network on MNIST.");
//   options.epochs = 5;
//   double lr = 1e-4;
//   options.add("--lr", lr, "learning rate", {.min = 0});
//   return options.run(argc, argv, [&] { ... });
//
// Dashes and underscores are equivalent in the names of options.
class TrainingOptions {
 public:
  // The shared options that the program has: all, or, for a program that does not train, only the options about its
  // devices and processes. The other options keep their defaults.
  enum class Shared { all, processes };
  TrainingOptions(std::string program, std::string description, Shared shared = Shared::all);
  ~TrainingOptions();
  TrainingOptions(const TrainingOptions&) = delete;
  TrainingOptions& operator=(const TrainingOptions&) = delete;

  // Adds a program's own option. `value` contains the default. When run() calls the body, it contains the user's value.
  // It must outlive run(). `help` is one line. A number that is outside of `range` or not finite is a UsageError.
  void add(const std::string& name, std::string& value, const std::string& help);
  // Adds an option with one of `choices`.
  void add(const std::string& name, std::string& value, const std::vector<std::string>& choices,
           const std::string& help);
  void add(const std::string& name, double& value, const std::string& help, OptionRange range = {});
  void add(const std::string& name, std::int64_t& value, const std::string& help, OptionRange range = {});
  // `value` stays empty unless the user sets the option.
  void add(const std::string& name, std::optional<double>& value, const std::string& help, OptionRange range = {});

  // Adds a switch. If the user sets it, `value` changes from true to false, or from false to true.
  void add(const std::string& name, bool& value, const std::string& help);

  // Adds positional arguments. The user must pass at least one. `name` is their placeholder in the help.
  void add_arguments(const std::string& name, std::vector<std::string>& values, const std::string& help);

  // Parses the command line, calls manual_seed(seed), and then calls `body`. Returns the exit code of the program:
  //   0  the body has returned, or the user asked for --help or --version
  //   1  the body threw. The message goes to stderr, prefixed with the rank if there are several, and to the launcher.
  //   128 + the signal, 0 for SIGUSR1: the body threw StoppedBySignal
  //   2  a UsageError. One process of each host prints its message. `body` may throw one, too: on all ranks alike, and
  //      before it communicates with other ranks.
  int run(int argc, const char* const* argv, const std::function<void()>& body);

  // The values of the shared options: the user's values or the defaults.
  DeviceChoice device_choice = DeviceChoice::automatic;
  GroupBackend backend = GroupBackend::automatic;
  std::string init_method = "env://";
  std::int64_t local_rank = 0;  // the launcher's LOCAL_RANK wins
  double timeout = 300;         // seconds: the longest wait for a peer
  std::string interface;
  bool open_store = false;
  std::uint64_t seed = 0;
  bool deterministic = false;
  bool exact_convolutions = false;
  DType dtype = DType::f32;  // for Autocast
  // The number of OpenMP threads in this process. If it is 0, run() chooses the number and stores it here. init() with
  // init_options() divides the cores again when it knows which ranks share them.
  std::int64_t threads = 0;
  std::int64_t workers = 0;
  std::int64_t epochs = 1;  // of the whole job, including those before it was resumed; 0: evaluate only
  std::int64_t batch_size = 1;
  std::int64_t max_steps = std::numeric_limits<std::int64_t>::max();
  std::optional<std::chrono::duration<double>> max_time;  // of this start of the job
  std::int64_t accumulate = 1;                            // batches of an optimizer step
  double bucket_cap_mb = 25;                              // MiB; PyTorch's default
  Unused unused = Unused::error;
  Compression compress = Compression::none;
  StrategyChoice strategy = StrategyChoice::ddp;
  std::int64_t inner_steps = 50;  // of each process, from one average of the weights to the next: localsgd and diloco
  bool sync_bn = false;           // a Trainer converts the batch norms
  std::string checkpoint;         // a folder; empty: none
  std::int64_t save_every = 1;
  std::int64_t save_every_steps = 0;  // 0: only at the end of epochs
  std::int64_t keep_last = 3;
  bool checkpoint_shards = false;     // each rank writes its own part of a checkpoint
  std::string keep_best;              // "max:test_accuracy" or "min:NAME"; empty: none
  std::int64_t top_k = 1;             // how many of the best checkpoints to keep
  std::int64_t eval_every = 1;        // epochs
  std::int64_t eval_every_steps = 0;  // 0: only after epochs
  std::int64_t patience = 0;          // evaluations without a better value; 0: no limit
  bool resume = false;
  std::string save;                  // a file, .safetensors or .pth; empty: none
  std::string metrics;               // a file; empty: none
  std::string log_dir;               // a folder for event files; empty: none
  std::int64_t log_every = 0;        // steps; 0: only the metrics of epochs are written
  std::int64_t overfit_batches = 0;  // the same batches in each epoch; 0: all
  bool fast_dev_run = false;         // one batch of everything, and no file
  bool graph = true;                 // --no-graph
  std::string find_lr;               // a file for an image; empty: the program trains
  std::string profile;  // a file; empty: none. With several ranks, "trace.json" means trace.rankN.json for rank N
  StepWindow profile_steps;
  bool quiet = false;

  // The word for samples in printed lines, such as "images" in "120 images/s". The program sets it.
  std::string samples_name = "samples";

  const std::string& program() const { return program_; }
  // Returns the device on which to compute. On a host with several GPUs, LOCAL_RANK selects one. Valid in the body of
  // run().
  Device device() const { return device_; }
  // Returns the device for a GraphedStep: device(), or the CPU if nothing should be recorded. That is the case with
  // --no-graph; with --accumulate, because the steps differ; with f16, because each step reads whether its gradients
  // overflowed; and with any --strategy other than ddp, because the host waits for its messages.
  Device graph_device() const {
    return graph && accumulate == 1 && dtype != DType::f16 && strategy == StrategyChoice::ddp ? device_ : Device{};
  }
  // Returns whether the strategy averages weights after many steps instead of gradients in each step.
  bool trains_alone() const { return strategy == StrategyChoice::localsgd || strategy == StrategyChoice::diloco; }
  InitOptions init_options() const;
  BucketSizes bucket_sizes() const;
  // Returns the hook of --compress or --strategy ring, else null. That of --strategy hierarchical needs the group.
  CommunicationHook communication_hook() const;
  // Returns the options for a loader of the training samples: this process's shard in random order, in batches of
  // --batch-size.
  data::LoaderOptions loader_options(const ProcessGroup& group) const;
  // Returns the file of --profile for a rank; see `profile`. Throws as check_entries() does.
  std::string profile_of(int rank, int size) const;

  // Returns the options that the user has set, for given_options.h.
  const std::map<std::string, std::string>& given() const;

 private:
  std::string program_;
  Shared shared_;
  std::unique_ptr<OptionParser> parser_;
  Device device_;
  bool are_threads_given_ = false;  // whether --threads or OMP_NUM_THREADS is set

  void add_shared_options();
  void add_process_options(const std::string& group);
  void add_training_options(const std::string& group);
  void apply_threads(const Environment& environment);
  void divide_threads(ProcessGroup& group) const;
  void choose_device(Environment environment);
};

}  // namespace tandem::distributed
