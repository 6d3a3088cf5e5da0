// TrainingOptions: the command line that all training programs share, and what their main() does besides training.
#pragma once

#include <tandem/core/base/dtype.h>
#include <tandem/core/device/device.h>
#include <tandem/distributed/ddp/reducer.h>
#include <tandem/distributed/job/init.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tandem::distributed {

// A wrong argument: run() says so and gives the exit code 2. The body may throw it, too, on all ranks alike and before
// it meets the others.
struct UsageError : Error {
  using Error::Error;
};

struct OptionRange {
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
};

// A program sets its own defaults, adds its own options, and trains in the body it gives to run():
//
//   TrainingOptions options("mnist_ddp", "Trains a small network on MNIST.");
//   options.epochs = 5;
//   double lr = 1e-4;
//   options.add("--lr", lr, "learning rate", {.min = 0});
//   return options.run(argc, argv, [&] { ... });
//
// In option names dashes and underscores are the same.
class TrainingOptions {
 public:
  // Which of the shared options the program has: all, or, where nothing is trained, those of what it computes with and
  // whom it meets. The others keep their defaults.
  enum class Shared { all, processes };
  TrainingOptions(std::string program, std::string description, Shared shared = Shared::all);
  ~TrainingOptions();
  TrainingOptions(const TrainingOptions&) = delete;
  TrainingOptions& operator=(const TrainingOptions&) = delete;

  // An option of the program's own. `value` holds the default, and what was given once run() calls the body. `help` is
  // one line. Numbers outside of `range`, and all that are not finite, are usage errors.
  void add(const std::string& name, std::string& value, const std::string& help);
  // One of `choices`.
  void add(const std::string& name, std::string& value, const std::vector<std::string>& choices,
           const std::string& help);
  void add(const std::string& name, double& value, const std::string& help, OptionRange range = {});
  void add(const std::string& name, std::int64_t& value, const std::string& help, OptionRange range = {});
  // Empty unless it is given.
  void add(const std::string& name, std::optional<double>& value, const std::string& help, OptionRange range = {});

  // A switch: given, it turns `value` around.
  void add(const std::string& name, bool& value, const std::string& help);

  // What is given without an option before it: one or more. `name` stands for it in the help.
  void add_arguments(const std::string& name, std::vector<std::string>& values, const std::string& help);

  // Understands the command line, then calls `body`. Returns the program's exit code: 0 when the body returns or help
  // was asked for, 1 when the body throws (the message goes to stderr, behind the rank where there are several, and to
  // the launcher), 2 for a usage error (the flag, what was given and what is allowed; said by one process of each
  // host).
  int run(int argc, const char* const* argv, const std::function<void()>& body);

  // What was given, or the default.
  std::string device_name = "auto";
  std::string backend = "auto";
  std::string init_method = "env://";
  std::int64_t local_rank = 0;  // the launcher's LOCAL_RANK wins
  double timeout = 300;         // seconds: the longest wait for a peer
  std::string interface;
  std::uint64_t seed = 0;
  bool deterministic = false;
  DType dtype = DType::f32;  // for Autocast
  std::int64_t threads = 0;  // of OpenMP, in this process; run() sets them and fills in the number
  std::int64_t workers = 0;
  std::int64_t epochs = 1;  // in all, also when resuming; 0: evaluate only
  std::int64_t batch_size = 1;
  std::int64_t max_steps = std::numeric_limits<std::int64_t>::max();
  std::int64_t accumulate = 1;  // batches an optimizer step
  double bucket_cap_mb = 25;
  Unused unused = Unused::error;
  std::string compress = "none";
  bool sync_bn = false;    // for convert_sync_batch_norm
  std::string checkpoint;  // a folder; empty: none
  std::int64_t save_every = 1;
  std::int64_t save_every_steps = 0;  // 0: only at the end of epochs
  std::int64_t keep_last = 3;
  bool resume = false;
  std::string save;            // a file, .safetensors or .pth; empty: none
  std::string metrics;         // a file; empty: none
  std::string log_dir;         // a folder for event files; empty: none
  std::int64_t log_every = 0;  // steps; 0: figures of epochs only
  bool graph = true;           // --no-graph
  std::string profile;         // a file; empty: none. Of several ranks, rank N writes trace.rankN.json for trace.json
  bool quiet = false;

  const std::string& program() const { return program_; }
  // Where to compute: --device, and on a host with several GPUs the one that LOCAL_RANK says. Known in run()'s body.
  Device device() const { return device_; }
  // For GraphedStep: device(), or the CPU, which records nothing: with --no-graph, with --accumulate, where steps
  // differ, and with f16, where each step reads whether its gradients overflowed.
  Device graph_device() const { return graph && accumulate == 1 && dtype != DType::f16 ? device_ : Device{}; }
  InitOptions init_options() const;
  BucketSizes bucket_sizes() const;
  CommunicationHook communication_hook() const;  // --compress; null: none

 private:
  class Parser;

  std::string program_;
  Shared shared_;
  std::unique_ptr<Parser> parser_;
  Device device_;

  void add_shared_options();
  void add_process_options(const std::string& group);
  void add_training_options(const std::string& group);
  void check_together() const;
  void apply_threads(const Environment& environment);
  void choose_device(Environment environment);
};

}  // namespace tandem::distributed
