#include <tandem/core/base/standard_output.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/core/io/file_system.h>
#include <tandem/core/profile/profile.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/ddp/compress_hook.h>
#include <tandem/distributed/ddp/powersgd.h>
#include <tandem/distributed/job/core_division.h>
#include <tandem/distributed/job/shared_data.h>
#include <tandem/distributed/strategies/ring_all_reduce.h>
#include <tandem/distributed/system/cores.h>
#include <tandem/distributed/system/network_interface.h>
#include <tandem/distributed/training/options/gpu_choice.h>
#include <tandem/distributed/training/options/option_rules.h>
#include <tandem/distributed/training/options/program_end.h>
#include <tandem/distributed/training/options/stop_request.h>
#include <tandem/distributed/training/options/training_options.h>

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <sstream>

namespace tandem::distributed {
namespace {

template <class T>
std::string shown(T value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

}  // namespace

TrainingOptions::TrainingOptions(std::string program, std::string description, Shared shared)
    : program_(std::move(program)), shared_(shared), parser_(std::make_unique<OptionParser>(program_, description)) {}

TrainingOptions::~TrainingOptions() = default;

void TrainingOptions::add(const std::string& name, std::string& value, const std::string& help) {
  parser_->text(program_, name, "TEXT", value, help);
}

void TrainingOptions::add(const std::string& name, std::string& value, const std::vector<std::string>& choices,
                          const std::string& help) {
  parser_->choice(
      program_, name, choices, [&value](const std::string& given) { value = given; }, help + " (" + value + ")");
}

void TrainingOptions::add(const std::string& name, double& value, const std::string& help, OptionRange range) {
  parser_->number(program_, name, value, help + " (" + shown(value) + ")", range);
}

void TrainingOptions::add(const std::string& name, std::int64_t& value, const std::string& help, OptionRange range) {
  parser_->number(program_, name, value, help + " (" + shown(value) + ")", range);
}

void TrainingOptions::add(const std::string& name, std::optional<double>& value, const std::string& help,
                          OptionRange range) {
  parser_->number<double>(
      program_, name, [&value](double given) { value = given; }, help, range);
}

void TrainingOptions::add(const std::string& name, bool& value, const std::string& help) {
  parser_->flag(program_, name, value, help);
}

void TrainingOptions::add_arguments(const std::string& name, std::vector<std::string>& values,
                                    const std::string& help) {
  parser_->arguments(name, values, help);
}

void TrainingOptions::add_shared_options() {
  const std::string group = shared_ == Shared::all ? "Every training program" : "Every program";
  add_process_options(group);
  if (shared_ == Shared::all) add_training_options(group);
  parser_->flag(group, "--quiet", quiet, "print only errors");
}

void TrainingOptions::add_process_options(const std::string& shared) {
  OptionParser& p = *parser_;
  p.choice(shared, "--device", device_choice, "where to compute (auto)");
  p.choice(shared, "--backend", backend, "how the processes communicate (auto)");
  p.option(shared, "--init-method", "URL", "where the processes meet: env://, tcp://HOST:PORT or file://PATH (env://)",
           [this](const std::string& v) {
             try {
               check_init_method(init_method = v);
             } catch (const Error& error) {
               throw UsageError("--init-method " + v + ": " + error.what());
             }
           });
  p.number(shared, "--local-rank", local_rank, "for old launchers; LOCAL_RANK wins", {.min = 0, .max = 1e6});
  p.number(shared, "--timeout", timeout, "longest wait for another process, in seconds (300)",
           {.min = 0.001, .max = 1e7});
  p.option(shared, "--interface", "NAME|CIDR", "network interface (chosen)", [this](const std::string& v) {
    try {
      local_address(interface = v);
    } catch (const Error& error) {
      throw UsageError("--interface " + v + ": " + error.what());
    }
  });
  p.flag(shared, "--open-store", open_store, "let any process join if rank 0 serves the store");
  p.choice(
      shared, "--dtype", {"f32", "bf16", "f16"},
      [this](const std::string& v) { dtype = v == "bf16"  ? DType::bf16
                                             : v == "f16" ? DType::f16
                                                          : DType::f32; },
      "compute type; weights stay f32 (f32)");
  p.number(shared, "--threads", threads, "threads per process (cores / processes here)", {.min = 1, .max = 4096});
}

void TrainingOptions::add_training_options(const std::string& shared) {
  OptionParser& p = *parser_;
  p.number(shared, "--seed", seed, "seed of weights and sample order (0)", {.min = 0});
  p.flag(shared, "--deterministic", deterministic, "same bits from run to run on the same machine, TF32 off");
  p.flag(shared, "--exact-convolutions", exact_convolutions,
         "on the CPU, compute convolutions only as direct sums: smaller errors, two to three times the time");
  p.number(shared, "--workers", workers, "loader threads per process (" + shown(workers) + ")",
           {.min = 0, .max = 4096});
  p.number(shared, "--epochs", epochs, "in all; 0 only evaluates (" + shown(epochs) + ")", {.min = 0, .max = 1e9});
  p.number(shared, "--batch-size", batch_size, "samples per step, for each process (" + shown(batch_size) + ")",
           {.min = 1, .max = 1e9});
  p.number(shared, "--max-steps", max_steps, "stop after this many steps in all (none)", {.min = 1, .max = 1e15});
  p.option(shared, "--max-time", "DURATION", "stop after this time: 90s, 90m, 2h (none)",
           [this](const std::string& v) { max_time = parse_duration("--max-time", v); });
  p.number(shared, "--accumulate", accumulate, "batches per optimizer step, averaged once (1)", {.min = 1, .max = 1e9});
  p.number(shared, "--bucket-cap-mb", bucket_cap_mb, "gradients that are averaged together, in MiB (25)",
           {.min = 1e-6, .max = 1e6});
  p.choice(shared, "--unused", unused, "how to treat parameters without a gradient (error)");
  p.choice(shared, "--compress", compress, "compression of gradients in transit (none)");
  p.choice(shared, "--strategy", strategy, "how processes train together: docs/strategies.md (ddp)");
  p.number(shared, "--inner-steps", inner_steps, "with localsgd and diloco, steps from one average to the next (50)",
           {.min = 1, .max = 1e9});
  p.flag(shared, "--sync-bn", sync_bn, "batch norm with the statistics of all processes' batches");
  p.text(shared, "--checkpoint", "DIR", checkpoint, "folder for checkpoints");
  p.number(shared, "--save-every", save_every, "epochs between checkpoints (1)", {.min = 1, .max = 1e9});
  p.number(shared, "--save-every-steps", save_every_steps, "steps between additional ones (none)",
           {.min = 1, .max = 1e15});
  p.number(shared, "--keep-last", keep_last, "checkpoints to keep (3)", {.min = 1, .max = 1e9});
  p.flag(shared, "--checkpoint-shards", checkpoint_shards,
         "each process writes its part of a checkpoint to its own file");
  p.text(shared, "--keep-best", "min:NAME|max:NAME", keep_best, "also keep the checkpoint with the best value");
  p.number(shared, "--top-k", top_k, "how many of the best checkpoints --keep-best keeps (1)", {.min = 1, .max = 1e6});
  p.number(shared, "--eval-every", eval_every, "epochs between evaluations (1)", {.min = 1, .max = 1e9});
  p.number(shared, "--eval-every-steps", eval_every_steps, "steps between additional ones (none)",
           {.min = 1, .max = 1e15});
  p.number(shared, "--patience", patience, "end after this many evaluations without a better --keep-best (none)",
           {.min = 1, .max = 1e9});
  p.flag(shared, "--resume", resume, "continue from the newest valid checkpoint");
  p.text(shared, "--save", "FILE", save, "file for the final model, .safetensors or .pth");
  p.text(shared, "--metrics", "FILE", metrics, "file for metrics, appended as JSON lines");
  p.text(shared, "--log-dir", "DIR", log_dir, "folder for TensorBoard's event files");
  p.number(shared, "--log-every", log_every,
           "steps between entries in both, and between lines without a terminal (none)", {.min = 1, .max = 1e15});
  p.number(shared, "--overfit-batches", overfit_batches, "train on this many batches again and again (none)",
           {.min = 1, .max = 1e9});
  p.flag(shared, "--fast-dev-run", fast_dev_run, "one batch of everything, to check that it runs; writes no file");
  p.flag(shared, "--no-graph", graph, "on a GPU, run each step call by call, not as one CUDA graph");
  p.text(shared, "--find-lr", "FILE.svg", find_lr, "do not train: try learning rates, and draw the loss");
  p.text(shared, "--profile", "FILE", profile, "Chrome trace of what each thread does, one for each process");
  p.option(shared, "--profile-steps", "A:B", "trace only these steps; the first is 1 (all)",
           [this](const std::string& v) { profile_steps = parse_steps("--profile-steps", v); });
}

void TrainingOptions::apply_threads(const Environment& environment) {
  const auto text_of = [](const char* name) {
    const char* const text = std::getenv(name);
    return std::string(text ? text : "");
  };
  const std::string from_environment = text_of("OMP_NUM_THREADS");
  // tandemrun divides the cores of its host by the number of its own ranks, but the host may have other ranks too.
  const bool is_users = !from_environment.empty() && from_environment != text_of("TANDEM_DEFAULT_THREADS");
  are_threads_given_ = threads > 0 || is_users;
  if (threads == 0 && is_users) threads = omp_get_max_threads();
  if (threads == 0) threads = std::max(1, available_cores() / environment.local_world_size);
  omp_set_num_threads(static_cast<int>(threads));
}

void TrainingOptions::divide_threads(ProcessGroup& group) const {
  const std::string warning = divide_cores(group, are_threads_given_);
  if (!warning.empty() && !quiet) std::cerr << program_ << ": warning: " << warning << std::endl;
  if (group.rank() == 0 && parser_->given("--workers") && workers > available_cores() && !quiet)
    std::cerr << program_ << ": warning: --workers " << workers << ": the number of available cores is "
              << available_cores() << ". More workers help only if they wait for a disk" << std::endl;
}

void TrainingOptions::choose_device(Environment environment) {
  if (device_choice == DeviceChoice::cpu) return;
  environment.local_rank = static_cast<int>(local_rank);
  const bool is_auto = device_choice == DeviceChoice::automatic;
  try {
    device_ = find_gpu(environment, is_auto);
    return;
  } catch (const Error& error) {
    if (!is_auto) throw UsageError(std::string("--device cuda: ") + error.what());
    // In a build without CUDA, the CPU is expected, so print nothing.
    if (build_has_cuda && environment.rank == 0 && !quiet)
      std::cerr << program_ << ": note: computing on the cpu: " << error.what() << std::endl;
  }
}

int TrainingOptions::run(int argc, const char* const* argv, const std::function<void()>& body) {
  return exit_code_of(program_, [&](bool is_rank_0) {
    add_shared_options();
    if (const std::string text = parser_->parse(argc, argv); !text.empty()) {
      if (is_rank_0) std::cout << text;
      flush_standard_output();
      return;
    }
    if (shared_ == Shared::all) check_together(*this);
    if (fast_dev_run) {
      if (is_rank_0 && !quiet)
        std::cerr << program_ << ": note: --fast-dev-run takes one batch, and reads and writes no file of this run"
                  << std::endl;
      epochs = std::min<std::int64_t>(epochs, 1);
      resume = false;
      for (std::string* file : {&checkpoint, &save, &metrics, &log_dir, &profile, &find_lr}) file->clear();
    }
    if (!checkpoint.empty() && epochs > 0) StopRequest::expect();
    check_thread_settings();
    const auto environment = environment_for(init_method);
    if (std::getenv("LOCAL_RANK") || (environment.knows_host && environment.world_size > 1)) {
      local_rank = environment.local_rank;
    }
    if (!environment.note.empty() && !quiet) std::cerr << program_ << ": note: " << environment.note << std::endl;
    apply_threads(environment);
    set_deterministic(deterministic);
    set_exact_convolutions(exact_convolutions);
    if (deterministic) set_tf32(false, false);
    choose_device(environment);
    if (strategy == StrategyChoice::dp && environment.world_size > 1)
      throw UsageError("--strategy dp runs its threads in a single process, but this job has " +
                       std::to_string(environment.world_size) + " processes: start only one, or use --strategy ddp");
    // A Trainer starts the trace of some steps.
    const bool all_steps = profile_steps == StepWindow{};
    const ProfileOfRun traced(all_steps ? profile_of(environment.rank, environment.world_size) : "", environment.rank);
    manual_seed(seed);
    body();
    Profile::stop();
    flush_standard_output();
  });
}

InitOptions TrainingOptions::init_options() const {
  const auto wait = std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(timeout * 1000)));
  return {backend,
          init_method,
          wait,
          interface,
          open_store,
          device(),
          [this](ProcessGroup& group) { divide_threads(group); }};
}

BucketSizes TrainingOptions::bucket_sizes() const {
  const auto cap = std::max<std::size_t>(1, static_cast<std::size_t>(bucket_cap_mb * (1 << 20)));
  return {std::min(BucketSizes().first_bytes, cap), cap};
}

std::string TrainingOptions::profile_of(int rank, int size) const {
  std::filesystem::path path = profile;
  if (path.empty()) return "";
  if (size > 1) path.replace_extension(".rank" + std::to_string(rank) + path.extension().string());
  check_entries(path);
  return path.string();
}

CommunicationHook TrainingOptions::communication_hook() const {
  if (strategy == StrategyChoice::ring) return ring_hook();
  switch (compress) {
    case Compression::none: break;
    case Compression::bf16: return compress_hook(DType::bf16);
    case Compression::f16: return compress_hook(DType::f16);
    case Compression::powersgd: return powersgd_hook({.seed = seed});
  }
  return nullptr;
}

data::LoaderOptions TrainingOptions::loader_options(const ProcessGroup& group) const {
  return {.batch_size = batch_size,
          .workers = static_cast<int>(workers),
          .max_batches = fast_dev_run ? 1 : overfit_batches,
          .shard = shard_of(group),
          .shuffle = true,
          .seed = seed};
}

const std::map<std::string, std::string>& TrainingOptions::given() const { return parser_->given(); }

}  // namespace tandem::distributed
