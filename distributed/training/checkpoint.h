// Checkpoints: a training job on disk, from which it can go on as if nothing had happened.
//
// One safetensors file each: DIR/checkpoint-<epoch, 4 digits>-<step, 8 digits>.safetensors. Tensors: model/NAME and
// what the optimizer keeps (optimizer/NAME/momentum); metadata: the rest of TrainingState, as text.
#pragma once

#include <tandem/core/array/named_array.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tandem::distributed {

// All that a job needs to go on.
struct TrainingState {
  std::string program;        // that wrote it: another one's is refused
  std::int64_t epoch = 0;     // the one that is running, or to be begun; from 0
  std::int64_t step = 0;      // optimizer steps so far
  std::int64_t position = 0;  // of these, in this epoch; 0: at its start
  std::uint64_t seed = 0;
  std::int64_t world_size = 1;
  std::int64_t batch_size = 1;
  std::int64_t accumulate = 0;  // batches a step; 0: an older checkpoint, which doesn't tell
  std::int64_t samples = 0;     // of each process in an epoch
  std::string generator;        // default_generator().state() when this epoch began
  std::string generator_now;    // and after the last step, where that was within the epoch
  std::vector<float> losses;    // the sum of this epoch's losses so far, by rank
  std::vector<NamedArray> model;
  std::vector<NamedArray> optimizer;
};

// Whether these are the arrays of a checkpoint's file.
bool is_checkpoint(const std::vector<NamedArray>& arrays);

// Whether any file in `folder` has a checkpoint's name, damaged or not.
bool has_checkpoints(const std::filesystem::path& folder);

// Writes `state` into `folder`, and then removes the oldest checkpoints beyond `keep_last`. A crash or a full disk at
// any moment leaves the older ones as they were, and no partial file.
void save_checkpoint(const std::filesystem::path& folder, const TrainingState& state, std::int64_t keep_last);

// The newest checkpoint of `folder` that can be read; nullopt when there is none at all (an empty or missing folder).
// Damaged ones are left out, and `warn` is told. Error when all are damaged, or the newest valid one is of another
// program.
std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& folder, const std::string& program,
                                                     const std::function<void(const std::string&)>& warn);

// Error, with the reason, for a file that is no checkpoint or a damaged one.
TrainingState read_checkpoint(const std::filesystem::path& path);

}  // namespace tandem::distributed
