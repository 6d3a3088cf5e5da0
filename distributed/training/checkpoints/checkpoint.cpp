#include <tandem/core/base/number_in.h>
#include <tandem/core/io/file_system.h>
#include <tandem/core/io/input_file.h>
#include <tandem/core/io/safetensors.h>
#include <tandem/distributed/training/checkpoints/checkpoint.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;

constexpr const char* format_version = "1";
const std::string model_prefix = "model/";
const std::string ddp_prefix = "ddp/";
const std::string index_ending = ".index.json";
constexpr const char* without_checksums = " has no checksums, so damage to its numbers would go unnoticed";

bool is_index(const fs::path& path) { return path.string().ends_with(index_ending); }

std::string name_of(const TrainingState& state) {
  return fmt::format("checkpoint-{:04}-{:08}", state.epoch, state.step);
}

// Returns the name of a rank's shard of a checkpoint.
std::string shard_name(const TrainingState& state, std::int64_t rank) {
  return fmt::format("{}-{}-{:05}-of-{:05}.safetensors", name_of(state), state.shards, rank + 1, state.world_size);
}

// Returns the (epoch, step) in the name of a checkpoint, or nullopt for other names.
std::optional<std::pair<std::int64_t, std::int64_t>> parse_name(std::string name) {
  long long epoch = 0, step = 0;
  int length = 0;
  if (is_index(name)) name.resize(name.size() - index_ending.size());
  if (std::sscanf(name.c_str(), "checkpoint-%lld-%lld.safetensors%n", &epoch, &step, &length) != 2) return {};
  if (length != static_cast<int>(name.size())) return {};
  return std::pair<std::int64_t, std::int64_t>(epoch, step);
}

// Returns the paths of the checkpoints in `folder`, the newest first.
std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  std::vector<std::pair<std::pair<std::int64_t, std::int64_t>, fs::path>> found;
  std::error_code error;
  const auto kind = fs::status(folder, error).type();
  if (kind == fs::file_type::not_found) return {};
  TANDEM_CHECK(kind == fs::file_type::none || kind == fs::file_type::directory, "the checkpoint folder ",
               folder.string(), " is not a folder");
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (const auto key = parse_name(entry->path().filename().string())) found.emplace_back(*key, entry->path());
  }
  TANDEM_CHECK(!error, "can't read the checkpoint folder ", folder.string(), ": ", error.message());
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> paths;
  for (auto& [key, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::map<std::string, std::string> metadata_of(const TrainingState& state) {
  std::ostringstream losses;
  losses << std::hexfloat;  // keeps every bit in a short text
  for (const float loss : state.losses) losses << loss << ' ';
  std::ostringstream kept_steps;
  for (const std::int64_t step : state.kept_steps) kept_steps << step << ' ';
  std::map<std::string, std::string> metadata{{"format", format_version},
                                              {"program", state.program},
                                              {"epoch", std::to_string(state.epoch)},
                                              {"step", std::to_string(state.step)},
                                              {"position", std::to_string(state.position)},
                                              {"seed", std::to_string(state.seed)},
                                              {"world_size", std::to_string(state.world_size)},
                                              {"batch_size", std::to_string(state.batch_size)},
                                              {"accumulate", std::to_string(state.accumulate)},
                                              {"before", std::to_string(state.before)},
                                              {"dataset_size", std::to_string(state.dataset_size)},
                                              {"options", state.options},
                                              {"best_of", state.best_of},
                                              {"best", state.best},
                                              {"kept_steps", kept_steps.str()},
                                              {"generator", state.generator},
                                              {"generator_now", state.generator_now},
                                              {"losses", losses.str()}};
  if (!state.shards.empty()) metadata["shards"] = state.shards;
  return metadata;
}

std::string text_in(const std::map<std::string, std::string>& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  TANDEM_CHECK(found != metadata.end(), "it has no \"", key, "\" in its metadata");
  return found->second;
}

template <class T>
T count_in(const std::map<std::string, std::string>& metadata, const std::string& key) {
  const auto text = text_in(metadata, key);
  const auto value = number_in<T>(text, 0);
  TANDEM_CHECK(value, "its \"", key, "\" is \"", text, "\", not a number");
  return *value;
}

void read_metadata(const std::map<std::string, std::string>& metadata, TrainingState& state) {
  const auto version = text_in(metadata, "format");
  if (version != format_version)
    throw UnreadableFile("its format is " + version + ", but this program reads " + format_version);
  state.program = text_in(metadata, "program");
  state.epoch = count_in<std::int64_t>(metadata, "epoch");
  state.step = count_in<std::int64_t>(metadata, "step");
  state.position = count_in<std::int64_t>(metadata, "position");
  state.seed = count_in<std::uint64_t>(metadata, "seed");
  state.world_size = count_in<std::int64_t>(metadata, "world_size");
  state.batch_size = count_in<std::int64_t>(metadata, "batch_size");
  state.accumulate = count_in<std::int64_t>(metadata, "accumulate");
  state.before = count_in<std::int64_t>(metadata, "before");
  state.dataset_size = count_in<std::int64_t>(metadata, "dataset_size");
  state.options = text_in(metadata, "options");
  state.best_of = text_in(metadata, "best_of");
  state.best = text_in(metadata, "best");
  std::istringstream steps(text_in(metadata, "kept_steps"));
  for (std::int64_t step = 0; steps >> step;) state.kept_steps.insert(step);
  TANDEM_CHECK(steps.eof(), "its \"kept_steps\" is \"", steps.str(), "\", not numbers");
  state.generator = text_in(metadata, "generator");
  state.generator_now = text_in(metadata, "generator_now");
  std::istringstream losses(text_in(metadata, "losses"));
  for (std::string loss; losses >> loss;) state.losses.push_back(std::strtof(loss.c_str(), nullptr));
  TANDEM_CHECK(static_cast<std::int64_t>(state.losses.size()) == state.world_size, "it holds the losses of ",
               state.losses.size(), " ranks, but its world_size is ", state.world_size);
}

std::vector<NamedArray> arrays_of(const TrainingState& state) {
  std::vector<NamedArray> arrays;
  for (const auto& [name, array] : state.model) arrays.push_back({model_prefix + name, array});
  for (const auto& [name, array] : state.optimizer) arrays.push_back({optimizer_prefix + name, array});
  for (const auto& [name, array] : state.ddp) arrays.push_back({ddp_prefix + name, array});
  for (const auto& [name, array] : state.kept) arrays.push_back({kept_prefix + name, array});
  arrays.insert(arrays.end(), state.of_rank.begin(), state.of_rank.end());
  return arrays;
}

// Writes the index of the shards that the ranks have written.
void write_index(const fs::path& folder, const TrainingState& state) {
  ShardIndex index{metadata_of(state), state.divided, {}};
  for (std::int64_t rank = 0; rank < state.world_size; ++rank) {
    const std::string file = shard_name(state, rank);
    TANDEM_CHECK(is_there(folder / file), "cannot write ", checkpoint_path(folder, state).string(),
                 ": rank 0 does not see ", file, ". If rank ", rank,
                 " has written it, --checkpoint does not name a folder that all ranks share");
    read_safetensors(folder / file, [&](const std::string& name) {
      index.file_of[name] = file;
      return false;
    });
  }
  index.write(checkpoint_path(folder, state));
}

// Reads the wanted arrays from the files of a checkpoint with an index.
std::vector<NamedArray> read_shards(const fs::path& folder, const ShardIndex& index,
                                    const std::function<bool(const std::string&)>& wanted, Unwanted unwanted) {
  std::map<std::string, std::set<std::string>> names_in;
  for (const auto& [name, file] : index.file_of) names_in[file].insert(name);
  std::vector<NamedArray> arrays;
  for (const auto& [file, names] : names_in) {
    const bool is_needed = std::ranges::count_if(names, wanted) > 0;  // asks for all names, as for a whole checkpoint
    if (!is_needed && unwanted == Unwanted::left) continue;
    std::error_code ignored;
    TANDEM_CHECK(fs::exists(fs::symlink_status(folder / file, ignored)), "its file ", file, " is missing");
    std::set<std::string> found;
    auto read = read_safetensors(
        folder / file, [&](const std::string& name) { return found.insert(name).second && wanted(name); }, unwanted);
    TANDEM_CHECK(found == names, "its file ", file, " has other tensors than its index says");
    TANDEM_CHECK(read.has_checksums, "its file ", file, without_checksums);
    TANDEM_CHECK(text_in(read.metadata, "shards") == text_in(index.metadata, "shards"), "its file ", file,
                 " belongs to another checkpoint");
    std::ranges::move(read.arrays, std::back_inserter(arrays));
  }
  return arrays;
}

// Replaces the shards of divided arrays by what this rank needs of the array.
void join_shards(std::vector<NamedArray>& arrays, const TrainingState& state, const Share& share) {
  std::map<std::string, std::map<std::int64_t, Array>> shards;
  std::erase_if(arrays, [&](const NamedArray& entry) {
    const auto of = parse_rank_name(entry.name);
    const bool is_shard = of && state.divided.contains(of->second);
    if (is_shard) shards[of->second][of->first] = entry.array;
    return is_shard;
  });
  for (const auto& [name, layout] : state.divided) {
    try {
      arrays.push_back({name, join(shards[name], layout, state.world_size, share)});
    } catch (const Error& error) {
      detail::fail("its array ", name, " can't be joined: ", error.what());
    }
    shards.erase(name);
  }
}

// Returns whether the job that writes into the folder has just removed the checkpoint.
bool is_gone(const fs::path& path) {
  std::error_code ignored;
  return !fs::exists(fs::symlink_status(path, ignored));
}

bool is_whole(const fs::path& path) {
  try {
    read_checkpoint(path, 0, Unwanted::checked);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

fs::path checkpoint_path(const fs::path& folder, const TrainingState& state) {
  return folder / (name_of(state) + ".safetensors" + (state.shards.empty() ? "" : index_ending));
}

void save_shard(const fs::path& folder, const TrainingState& state, std::int64_t rank) {
  const std::map<std::string, std::string> only_name{{"shards", state.shards}};
  write_safetensors(folder / shard_name(state, rank), arrays_of(state), rank == 0 ? metadata_of(state) : only_name,
                    Checksums::crc32);
}

bool has_checkpoints(const fs::path& folder) { return !checkpoints_in(folder).empty(); }

std::optional<fs::path> checkpoint_of(const fs::path& folder, std::int64_t step) {
  for (const auto& path : checkpoints_in(folder))
    if (parse_name(path.filename().string())->second == step) return path;
  return std::nullopt;
}

void remove_unused_shards(const fs::path& folder, const TrainingState* newest) {
  static const std::regex shard("(checkpoint-\\d+-\\d+)-([0-9a-f]{8})-\\d{5,}-of-\\d{5,}\\.safetensors");
  std::error_code error;  // ignored, because a file that can't be removed does no harm
  std::vector<fs::path> unused;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::smatch parts;
    if (!std::regex_match(name, parts, shard)) continue;
    const fs::path index = folder / (parts.str(1) + ".safetensors" + index_ending);
    const bool is_earlier = newest && index == checkpoint_path(folder, *newest) && parts[2] != newest->shards;
    std::error_code why;
    if (is_earlier || fs::symlink_status(index, why).type() == fs::file_type::not_found)
      unused.push_back(entry->path());
  }
  for (const auto& path : unused) fs::remove(path, error);
}

void save_checkpoint(const fs::path& folder, const TrainingState& state, std::int64_t keep_last,
                     std::set<fs::path>* proven) {
  const fs::path written = checkpoint_path(folder, state);
  const auto metadata = metadata_of(state);
  try {
    TrainingState read;
    read_metadata(metadata, read);
  } catch (const Error& error) {
    throw Error("save_checkpoint: refused a checkpoint that could not be loaded again: " + std::string(error.what()));
  }
  const auto& expected = state.to_write ? state.to_write->all() : std::vector<ExpectedArray>();
  if (!state.shards.empty()) write_index(folder, state);
  else
    write_safetensors(written, arrays_of(state), metadata, Checksums::crc32, expected,
                      [&](const ExpectedArray& array) { return state.to_write->take(array); });
  std::set<fs::path> none;
  if (!proven) proven = &none;
  proven->insert(written);
  std::int64_t kept = 1;  // the checkpoint that was just written
  for (const auto& path : checkpoints_in(folder)) {
    const auto key = parse_name(path.filename().string()), newest = parse_name(written.filename().string());
    std::error_code error;  // ignored, because an old checkpoint that can't be removed does no harm
    if (key == newest && path != written) fs::remove(path, error);  // of the same step, in one file or in shards
    if (key >= newest || state.kept_steps.contains(key->second)) continue;
    if (kept < keep_last) {
      if (!proven->contains(path) && !is_whole(path)) continue;
      proven->insert(path);
      ++kept;
    } else {
      fs::remove(path, error);
      proven->erase(path);
    }
  }
  remove_unused_shards(folder, &state);
}

std::string link_best_checkpoint(const fs::path& folder, std::int64_t step) {
  const fs::path next = folder / ".best.safetensors.new";
  const auto path = step < 0 ? std::nullopt : checkpoint_of(folder, step);
  std::string failure = step < 0 || path ? "" : "there is no checkpoint of step " + std::to_string(step);
  for (const bool in_shards : {false, true}) {
    const fs::path link = folder / ("best.safetensors" + (in_shards ? index_ending : ""));
    const bool is_wanted = path && is_index(*path) == in_shards;
    std::error_code error;
    const auto there = fs::symlink_status(link, error);
    if (fs::is_symlink(there) && (!fs::exists(link, error) || (path && !is_wanted))) fs::remove(link, error);
    if (!is_wanted) continue;
    if (fs::exists(there) && !fs::is_symlink(there)) return link.string() + " is a file that Tandem did not write";
    if (fs::read_symlink(link, error) == path->filename()) continue;
    fs::remove(next, error);
    fs::create_symlink(path->filename(), next, error);
    if (!error) fs::rename(next, link, error);
    if (error) failure = error.message();
  }
  return failure;
}

TrainingState read_checkpoint(const fs::path& path, std::int64_t rank, Unwanted of_others, const Share& share) {
  TrainingState state;
  std::vector<NamedArray> arrays;
  const auto wanted = [&](const std::string& name) {
    const auto of = parse_rank_name(name);
    state.has_own_random_numbers |= of && of->second == "generator";
    if (of && state.divided.contains(of->second))
      return of_others == Unwanted::left && overlaps(share, of->first, state.world_size);
    return !of || of->first == rank;
  };
  if (is_index(path)) {
    const auto index = ShardIndex::read(path);
    read_metadata(index.metadata, state);
    state.divided = index.divided;
    arrays = read_shards(path.parent_path(), index, wanted, of_others);
    if (of_others == Unwanted::left) join_shards(arrays, state, share);
  } else {
    auto file = read_safetensors(path, wanted, of_others);
    read_metadata(file.metadata, state);
    TANDEM_CHECK(file.has_checksums, "it", without_checksums);
    arrays = std::move(file.arrays);
  }
  for (auto& [name, array] : arrays) {
    if (name.compare(0, model_prefix.size(), model_prefix) == 0) {
      state.model.push_back({name.substr(model_prefix.size()), std::move(array)});
    } else if (name.compare(0, optimizer_prefix.size(), optimizer_prefix) == 0) {
      state.optimizer.push_back({name.substr(optimizer_prefix.size()), std::move(array)});
    } else if (name.starts_with(ddp_prefix)) {
      state.ddp.push_back({name.substr(ddp_prefix.size()), std::move(array)});
    } else if (name.starts_with(kept_prefix)) {
      state.kept.push_back({name.substr(kept_prefix.size()), std::move(array)});
    } else if (const auto of = parse_rank_name(name)) {
      state.of_rank.push_back({of->second, std::move(array)});
    } else {
      detail::fail("it has a tensor \"", name, "\" that this program does not know");
    }
  }
  return state;
}

std::optional<fs::path> find_checkpoint(const fs::path& folder, const std::string& program,
                                        const std::function<void(const std::string&)>& report) {
  const auto paths = checkpoints_in(folder);
  for (const auto& path : paths) {
    std::string writer;
    try {
      writer = read_checkpoint(path, 0, Unwanted::checked).program;
    } catch (const UnreadableFile& error) {
      if (is_gone(path)) continue;
      detail::fail("the newest checkpoint can't be read, though it may be intact: ", path.string(), ": ", error.what(),
                   "; to continue from an older one, move this file out of the folder");
    } catch (const Error& error) {
      if (is_gone(path)) continue;
      report("warning: skipped the checkpoint " + path.string() + ", which is damaged: " + error.what());
      continue;
    }
    TANDEM_CHECK(writer == program, "the checkpoint ", path.string(), " was written by ", writer, ", this is ", program,
                 ": give another --checkpoint folder");
    return path;
  }
  TANDEM_CHECK(paths.empty(), "none of the ", paths.size(), " checkpoints in ", folder.string(),
               " can be read: remove them to start afresh");
  return std::nullopt;
}

}  // namespace tandem::distributed
