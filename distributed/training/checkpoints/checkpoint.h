// Checkpoints: files with the state of a training job, from which the job can go on as if it had never stopped.
//
// A checkpoint is one safetensors file: DIR/checkpoint-<epoch, 4 digits>-<step, 8 digits>.safetensors. Its tensors are
// the model's (model/NAME), those that the optimizer keeps (optimizer/NAME/momentum), those of
// DistributedDataParallel (ddp/NAME), those of other objects (kept/OBJECT/NAME) and what each rank alone has
// (rank-R/NAME). Its metadata are the other members of TrainingState, as text, and checksums of all that
// (safetensors.h). load_arrays() (core/io/arrays_file.h) reads the model out of it.
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

// Everything that a job needs to go on.
struct TrainingState {
  std::string program;        // the program that wrote the checkpoint; other programs refuse it
  std::int64_t epoch = 0;     // the epoch that is running or comes next, counted from 0
  std::int64_t step = 0;      // optimizer steps of the whole job so far
  std::int64_t position = 0;  // batches of this epoch that are done
  std::int64_t before = 0;    // samples of this epoch, of all ranks, that were done before these batches; see Position
  std::uint64_t seed = 0;
  std::int64_t world_size = 1;
  std::int64_t batch_size = 1;  // of each process
  std::int64_t accumulate = 1;  // batches of an optimizer step
  std::int64_t dataset_size = 0;
  std::string options;                // what the user gave: "--lr=0.1" and a line break for each
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
  RankArrays* to_write = nullptr;       // what each rank alone has, for save_checkpoint()
  std::vector<NamedArray> of_rank;      // what one rank alone has, from read_checkpoint()
  bool has_own_random_numbers = false;  // whether any rank has a "generator" there
};

// Whether any file in `folder` has the name of a checkpoint. The file may be damaged.
bool has_checkpoints(const std::filesystem::path& folder);

// Writes `state` into `folder`. Then removes older checkpoints, so that `keep_last` whole ones are left, of which this
// one is the newest. Damaged ones do not count. Checkpoints with higher numbers than this one's stay and do not count,
// because a job that went on from an older one has left them out. Those of state.kept_steps stay, too. A crash or a
// full disk while it writes leaves the older checkpoints as they were, and no partial file.
//
// Error, and nothing written, when `state` could not be read again, for example without a loss for each rank.
//
// `proven` holds the checkpoints of `folder` that are known to be whole, and gets the one that is written. Older ones
// that are not in it and may be kept are read to find out, as a whole.
void save_checkpoint(const std::filesystem::path& folder, const TrainingState& state, std::int64_t keep_last,
                     std::set<std::filesystem::path>* proven = nullptr);

// The newest checkpoint of that step; nullopt: there is none. The file may be damaged.
std::optional<std::filesystem::path> checkpoint_of(const std::filesystem::path& folder, std::int64_t step);

// Makes DIR/best.safetensors a link to the newest checkpoint of that step, in one move: who opens it gets the old one
// or the new one. Returns why the link could not be made: empty, or the reason in a few words, as on a file system
// without links. A file of that name that is no link stays. Step -1 is no step; then only a link that leads to nothing
// is removed.
std::string link_best_checkpoint(const std::filesystem::path& folder, std::int64_t step);

// The newest checkpoint of `folder` that proves whole; nullopt when the folder has no checkpoint or is missing. Damaged
// checkpoints, and those without checksums, are left out. `report` gets a line for each of them. Error when all are
// damaged, or when the newest whole one was written by another program. Error, too, when one can't be read for another
// reason than damage, such as its permissions, or a later version of this program.
std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& folder, const std::string& program,
                                                     const std::function<void(const std::string&)>& report);

// With what rank `rank` alone has; what other ranks have is left unread, or read and checked. Error, with the reason,
// when the file is no checkpoint or a damaged one.
TrainingState read_checkpoint(const std::filesystem::path& path, std::int64_t rank = 0,
                              Unwanted of_others = Unwanted::left);

}  // namespace tandem::distributed
