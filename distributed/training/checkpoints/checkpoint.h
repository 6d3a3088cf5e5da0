// Checkpoints: files with the state of a training job, from which the job can resume as if it had never stopped.
//
// A checkpoint is one safetensors file: DIR/checkpoint-<epoch, 4 digits>-<step, 8 digits>.safetensors. It contains the
// tensors of the model (model/NAME), of the optimizer (optimizer/NAME/momentum), of DistributedDataParallel (ddp/NAME),
// of other objects (kept/OBJECT/NAME) and of single ranks (rank-R/NAME). Its metadata contains the other members of
// TrainingState, as text, and checksums of everything (safetensors.h). load_arrays() (core/io/arrays_file.h) reads the
// model from it.
#pragma once

#include <tandem/core/array/named_array.h>
#include <tandem/distributed/training/checkpoints/rank_arrays.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tandem::distributed {

// Everything that a job needs to resume.
struct TrainingState {
  std::string program;        // the program that wrote the checkpoint; other programs reject it
  std::int64_t epoch = 0;     // the epoch that is running or comes next, counted from 0
  std::int64_t step = 0;      // optimizer steps of the whole job so far
  std::int64_t position = 0;  // batches of this epoch that are done
  std::int64_t before = 0;    // samples of this epoch, of all ranks, that were done before these batches; see Position
  std::uint64_t seed = 0;
  std::int64_t world_size = 1;
  std::int64_t batch_size = 1;  // of each process
  std::int64_t accumulate = 1;  // batches of an optimizer step
  std::int64_t dataset_size = 0;
  std::string options;                // the options that the user set: "--lr=0.1" and a line break for each
  std::string best_of;                // --keep-best
  std::string best;                   // Ranking::state_text()
  std::set<std::int64_t> kept_steps;  // Ranking::kept_steps(); save_checkpoint() keeps their checkpoints
  std::string generator;              // default_generator().state() when this epoch began
  std::string generator_now;          // default_generator().state() after the last batch, if that was within this epoch
  std::vector<float> losses;          // by rank: the sum of the rank's losses in this epoch
  std::vector<NamedArray> model;
  std::vector<NamedArray> optimizer;
  std::vector<NamedArray> kept;         // other objects', "OBJECT/NAME"
  std::vector<NamedArray> ddp;          // DistributedDataParallel's; empty for one process
  RankArrays* to_write = nullptr;       // the arrays of single ranks, for save_checkpoint()
  std::vector<NamedArray> of_rank;      // the arrays of one rank, from read_checkpoint()
  bool has_own_random_numbers = false;  // whether any rank has a "generator" among its arrays
};

// Returns the path of the checkpoint of `state` in `folder`.
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, const TrainingState& state);

// Returns whether any file in `folder` has the name of a checkpoint. The file may be damaged.
bool has_checkpoints(const std::filesystem::path& folder);

// Writes `state` into `folder`. Then removes older checkpoints, so that `keep_last` undamaged ones remain, including
// the new one. Damaged checkpoints do not count. Checkpoints with higher numbers than the new one stay and do not
// count, because a job that resumed from an older checkpoint has skipped them. The checkpoints of state.kept_steps also
// stay. If a crash or a full disk interrupts writing, the older checkpoints do not change, and there is no partial
// file.
//
// Throws an Error, and writes nothing, if `state` could not be read back, for example if a rank's loss is missing.
//
// `proven` contains the checkpoints of `folder` that are known to be undamaged. The function adds the new checkpoint.
// It reads older checkpoints that are not in `proven` completely, if they may be kept, to check them.
void save_checkpoint(const std::filesystem::path& folder, const TrainingState& state, std::int64_t keep_last,
                     std::set<std::filesystem::path>* proven = nullptr);

// Returns the newest checkpoint of that step, or nullopt. The file may be damaged.
std::optional<std::filesystem::path> checkpoint_of(const std::filesystem::path& folder, std::int64_t step);

// Makes DIR/best.safetensors a link to the newest checkpoint of that step. The change is atomic: a program that opens
// the link gets the old or the new checkpoint. Returns an empty string, or the reason if the link could not be made,
// for example on a file system without links. A regular file of that name stays. For step -1, the function only removes
// a dangling link.
std::string link_best_checkpoint(const std::filesystem::path& folder, std::int64_t step);

// Returns the newest undamaged checkpoint of `folder`, or nullopt if the folder has no checkpoint or is missing. It
// skips checkpoints that are damaged or have no checksums, and calls `report` with a line for each. Throws an Error if
// all checkpoints are damaged, or if another program wrote the newest undamaged one. Also throws an Error if a
// checkpoint can't be read for a reason other than damage, such as its permissions, or because a later version of this
// program wrote it.
std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& folder, const std::string& program,
                                                     const std::function<void(const std::string&)>& report);

// Reads a checkpoint, including the arrays that only rank `rank` has. `of_others` says whether the arrays of other
// ranks are skipped, or read and checked. Throws an Error with the reason if the file is damaged or not a checkpoint.
TrainingState read_checkpoint(const std::filesystem::path& path, std::int64_t rank = 0,
                              Unwanted of_others = Unwanted::left);

}  // namespace tandem::distributed
