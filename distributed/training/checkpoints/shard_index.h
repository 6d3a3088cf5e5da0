// ShardIndex: the file that joins the files of a checkpoint into one, in the format of Hugging Face
// (model.safetensors.index.json).
#pragma once

#include <tandem/core/array/named_array.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tandem::distributed {

// How the elements of an array are arranged in memory. They are divided among ranks in memory order, as shard() does
// (distributed/strategies/parameter_shards.h).
struct Layout {
  Shape shape;
  Dims strides;
  bool operator==(const Layout&) const = default;
};

// A rank's share of all divided arrays. The default is everything.
struct Share {
  int rank = 0, ranks = 1;
};

struct ShardIndex {
  std::map<std::string, std::string> metadata;
  std::map<std::string, Layout> divided;       // by the name of the array, of which rank R has "rank-R/NAME"
  std::map<std::string, std::string> file_of;  // by the name of the tensor: a file in the folder of the index

  // Writes {"metadata": {..., "divided": {NAME: {"shape": [...], "strides": [...]}}}, "weight_map": file_of}, and a
  // CRC-32 of it, with AtomicFile.
  void write(const std::filesystem::path& path) const;
  // Throws an Error with the reason if the file is damaged, and UnreadableFile if it can't be opened.
  static ShardIndex read(const std::filesystem::path& path);
};

// Returns whether a rank's share of an array that `ranks` ranks had divided includes elements of the shard of `rank`.
bool overlaps(const Share& share, std::int64_t rank, std::int64_t ranks);

// Returns a share of an array that `ranks` ranks had divided. For the default share, returns the array in its layout.
// Otherwise returns the elements of the share in memory order, (n). `shards` has, by rank, the elements of each rank
// that overlaps the share. Throws an Error if they do not fit the layout.
Array join(const std::map<std::int64_t, Array>& shards, const Layout& layout, std::int64_t ranks, const Share& share);

}  // namespace tandem::distributed
