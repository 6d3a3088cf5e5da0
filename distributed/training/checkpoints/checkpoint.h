// Checkpoints: files with the state of a training job, from which the job can resume as if it had never stopped.
//
// A checkpoint is one safetensors file: DIR/checkpoint-<epoch, 4 digits>-<step, 8 digits>.safetensors. It contains the
// tensors of the model (model/NAME), of the optimizer (optimizer/NAME/momentum), of DistributedDataParallel (ddp/NAME),
// of other objects (kept/OBJECT/NAME) and of single ranks (rank-R/NAME). Its metadata contains the other members of
// TrainingState, as text, and checksums of everything (safetensors.h). load_arrays() (core/io/arrays_file.h) reads the
// model from it.
//
// With --checkpoint-shards, a checkpoint is one such file for each rank, whose name ends in
// "-<8 random hexadecimal digits>-<number, 5 digits>-of-<ranks, 5 digits>.safetensors", and an index,
// DIR/checkpoint-<epoch>-<step>.safetensors.index.json (shard_index.h). The first file also has everything that all
// ranks have in common. The index is written last. It names every file of the checkpoint that has an array.
#pragma once

#include <tandem/core/array/named_array.h>
#include <tandem/distributed/training/checkpoints/rank_arrays.h>
#include <tandem/distributed/training/checkpoints/shard_index.h>

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
  std::vector<NamedArray> kept;    // other objects', "OBJECT/NAME"
  std::vector<NamedArray> ddp;     // DistributedDataParallel's; empty for one process
  RankArrays* to_write = nullptr;  // the arrays of single ranks, for save_checkpoint()
  // The arrays of one rank, from read_checkpoint(), or the arrays of single ranks, "rank-R/NAME", to be written.
  std::vector<NamedArray> of_rank;
  std::string shards;                     // the random digits in the names of the shards; empty: one file
  std::map<std::string, Layout> divided;  // arrays of which each rank has a shard, by their name in the checkpoint
  bool has_own_random_numbers = false;    // whether any rank has a "generator" among its arrays
};

// The beginnings of the names of some arrays in a checkpoint.
inline const std::string optimizer_prefix = "optimizer/", kept_prefix = "kept/";

// Returns the path of the checkpoint of `state` in `folder`: of the file, or of the index.
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, const TrainingState& state);

// Writes the file of a rank. Only rank 0 has arrays that are not of single ranks.
void save_shard(const std::filesystem::path& folder, const TrainingState& state, std::int64_t rank);

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
//
// If state.shards is set, the function writes the index of the shards, which all ranks must have written before. Throws
// an Error if one of them is missing. To remove an older checkpoint, it removes the index, and then calls
// remove_unused_shards().
void save_checkpoint(const std::filesystem::path& folder, const TrainingState& state, std::int64_t keep_last,
                     std::set<std::filesystem::path>* proven = nullptr);

// Removes the shards in `folder` that have no index, because a save was interrupted, and those of earlier saves of the
// step of `newest`. Only the job that has locked the folder may call it.
void remove_unused_shards(const std::filesystem::path& folder, const TrainingState* newest = nullptr);

// Returns the newest checkpoint of that step, or nullopt. The file may be damaged.
std::optional<std::filesystem::path> checkpoint_of(const std::filesystem::path& folder, std::int64_t step);

// Makes DIR/best.safetensors, or for shards DIR/best.safetensors.index.json, a link to the newest checkpoint of that
// step, and removes the other link. The change is atomic: a program that opens the link gets the old or the new
// checkpoint. Returns an empty string, or the reason if the link could not be made, for example on a file system
// without links. A regular file of that name stays. For step -1, the function only removes dangling links.
std::string link_best_checkpoint(const std::filesystem::path& folder, std::int64_t step);

// Returns the newest undamaged checkpoint of `folder`, or nullopt if the folder has no checkpoint or is missing. It
// skips checkpoints that are damaged or have no checksums, and calls `report` with a line for each. Throws an Error if
// all checkpoints are damaged, or if another program wrote the newest undamaged one. Also throws an Error if a
// checkpoint can't be read for a reason other than damage, such as its permissions, or because a later version of this
// program wrote it.
std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& folder, const std::string& program,
                                                     const std::function<void(const std::string&)>& report);

// Reads a checkpoint, including the arrays that only rank `rank` has. `of_others` says whether the arrays of other
// ranks are skipped, or read and checked. Of the arrays that were divided among ranks, it returns the elements of
// `share`, as join() does, and reads only the shards that have some of them. With Unwanted::checked, it reads and
// checks all files, and returns none of these arrays. Throws an Error with the reason if a file is missing, damaged or
// not a checkpoint.
TrainingState read_checkpoint(const std::filesystem::path& path, std::int64_t rank = 0,
                              Unwanted of_others = Unwanted::left, const Share& share = {});

}  // namespace tandem::distributed
