#include <tandem/core/io/arrays_file.h>
#include <tandem/distributed/training/options/option_rules.h>

#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace tandem::distributed {
namespace {

// Throws a UsageError if the user has set an option that the strategy does not support.
void check_strategy(StrategyChoice strategy, const std::map<std::string, std::string>& given, DType dtype) {
  static const std::map<StrategyChoice, std::vector<const char*>> lacks = {
      {StrategyChoice::dp, {"--compress", "--unused", "--bucket-cap-mb", "--sync-bn"}},
      {StrategyChoice::ps, {"--compress", "--unused", "--bucket-cap-mb", "--find-lr"}},
      {StrategyChoice::ring, {"--compress"}},
      {StrategyChoice::hierarchical, {"--compress"}},
      {StrategyChoice::localsgd, {"--compress", "--unused", "--bucket-cap-mb", "--sync-bn"}},
      {StrategyChoice::diloco, {"--compress", "--unused", "--bucket-cap-mb", "--sync-bn"}},
      {StrategyChoice::zero1, {"--compress"}},
      {StrategyChoice::zero2, {"--compress", "--unused"}}};
  const auto lacking = lacks.find(strategy);
  if (lacking == lacks.end()) return;
  for (const char* name : lacking->second)
    if (given.contains(name))
      throw UsageError(std::string("--strategy ") + name_of(strategy) + " has no " + name +
                       ": leave out one of the two");
  if (strategy == StrategyChoice::ps && dtype == DType::f16)
    throw UsageError(
        "--strategy ps can't use --dtype f16: ranks would have to agree on its loss scale. Leave out one of the two");
}

// Throws a UsageError if a file that the run writes would replace another one, or a checkpoint.
void check_files(const TrainingOptions& options) {
  namespace fs = std::filesystem;
  const auto real = [](const std::string& path) {
    std::error_code ignored;
    return fs::weakly_canonical(fs::absolute(path, ignored), ignored);
  };
  std::map<fs::path, std::string> names;
  const std::pair<const char*, std::string> files[] = {{"--save", options.save},
                                                       {"--metrics", options.metrics},
                                                       {"--profile", options.profile},
                                                       {"--find-lr", options.find_lr}};
  for (const auto& [name, file] : files) {
    std::error_code ignored;
    if (file.empty() || (fs::exists(file, ignored) && !fs::is_regular_file(file, ignored))) continue;
    const auto [earlier, is_new] = names.emplace(real(file), name);
    if (!is_new)
      throw UsageError(std::string(name) + " " + file + ": this is also the file of " + earlier->second +
                       ": give each a file of its own");
  }
  if (options.save.empty() || options.checkpoint.empty()) return;
  const auto save = real(options.save);
  const auto name = save.filename().string();
  if (save.parent_path() == real(options.checkpoint) && (name.starts_with("checkpoint-") || name == "best.safetensors"))
    throw UsageError("--save " + options.save + ": this name is a checkpoint's: give the model another name");
}

}  // namespace

void check_together(const TrainingOptions& options) {
  const auto& given = options.given();
  for (const char* name : {"--resume", "--save-every", "--save-every-steps", "--keep-last", "--checkpoint-shards"}) {
    if (given.contains(name) && options.checkpoint.empty()) {
      throw UsageError(std::string(name) + ": needs --checkpoint DIR, the folder of the checkpoints");
    }
  }
  const bool is_divided = options.strategy == StrategyChoice::zero1 || options.strategy == StrategyChoice::zero2;
  if (options.checkpoint_shards && !is_divided && !options.trains_alone())
    throw UsageError(std::string("--checkpoint-shards: with --strategy ") + name_of(options.strategy) +
                     ", all processes have the same state, and one of them writes it: leave the option out, or use "
                     "--strategy zero1, zero2, localsgd or diloco");
  if (!options.keep_best.empty() && options.checkpoint.empty() && options.patience == 0)
    throw UsageError("--keep-best: needs --checkpoint DIR, where the best checkpoint is kept, or --patience N");
  for (const char* name : {"--patience", "--top-k"})
    if (given.contains(name) && options.keep_best.empty())
      throw UsageError(std::string(name) + ": needs --keep-best, which says what is better");
  if (!options.save.empty() && !is_arrays_file_name(options.save))
    throw UsageError("--save " + options.save + ": expected a file name that ends in .safetensors or .pth");
  if (!options.find_lr.empty() && std::filesystem::path(options.find_lr).extension() != ".svg")
    throw UsageError("--find-lr " + options.find_lr + ": expected a file name that ends in .svg, the picture's format");
  if (!options.find_lr.empty() && options.max_steps < least_sweep_steps)
    throw UsageError("--find-lr: needs " + std::to_string(least_sweep_steps) + " steps or more, but --max-steps is " +
                     std::to_string(options.max_steps));
  if (!options.find_lr.empty() && options.resume)
    throw UsageError("--find-lr starts from the program's own weights: leave out --resume");
  if (given.contains("--profile-steps") && options.profile.empty())
    throw UsageError("--profile-steps: needs --profile FILE, where the trace is written");
  if (given.contains("--inner-steps") && !options.trains_alone())
    throw UsageError("--inner-steps: needs --strategy localsgd or diloco");
  check_files(options);
  check_strategy(options.strategy, given, options.dtype);
}

}  // namespace tandem::distributed
