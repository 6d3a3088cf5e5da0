#include <tandem/core/array/memory_order.h>
#include <tandem/core/io/atomic_file.h>
#include <tandem/core/io/crc32.h>
#include <tandem/core/io/input_file.h>
#include <tandem/distributed/strategies/parameter_shards.h>
#include <tandem/distributed/training/checkpoints/shard_index.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tandem::distributed {
namespace {

using Json = nlohmann::json;

// The text before the eight digits of the checksum. Inside of a string, its quotes would be escaped.
const std::string crc_key = "tandem.crc32", before_crc = '"' + crc_key + "\": \"", no_crc = "00000000";

// Returns the checksum of the text of an index in which no_crc takes the place of the checksum.
std::string checksum_of(const std::string& text) {
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", crc32_of(text.data(), text.size()));
  return digits;
}

std::vector<std::int64_t> list_of(const Dims& dims) { return {dims.begin(), dims.end()}; }

Dims dims_of(const Json& list) {
  const auto entries = list.get<std::vector<std::int64_t>>();
  TANDEM_CHECK(std::ranges::all_of(entries, [](auto entry) { return entry >= 0; }), list.dump(), " is no shape");
  return Dims(entries);
}

}  // namespace

void ShardIndex::write(const std::filesystem::path& path) const {
  try {
    Json index{{"metadata", metadata}, {"weight_map", file_of}};
    index["metadata"][crc_key] = no_crc;
    Json& layouts = index["metadata"]["divided"] = Json::object();
    for (const auto& [name, layout] : divided)
      layouts[name] = {{"shape", list_of(layout.shape)}, {"strides", list_of(layout.strides)}};
    std::string text = index.dump(2) + "\n";
    text.replace(text.find(before_crc) + before_crc.size(), no_crc.size(), checksum_of(text));
    AtomicFile file(path);
    file.write(text.data(), text.size());
    file.commit();
  } catch (const Json::exception& error) {
    detail::fail("cannot write ", path.string(), ": ", error.what());
  }
}

ShardIndex ShardIndex::read(const std::filesystem::path& path) {
  const InputFile file(path, "index of a checkpoint");
  try {
    std::string text = file.read(file.size(), 0);
    const auto at = text.find(before_crc);
    file.check(at != text.npos && at + before_crc.size() + no_crc.size() <= text.size(), "has no checksum");
    const std::string crc = text.substr(at + before_crc.size(), no_crc.size());
    text.replace(at + before_crc.size(), no_crc.size(), no_crc);
    file.check(checksum_of(text) == crc, "should have the CRC-32 ", crc, ", but has ", checksum_of(text),
               ": it is damaged");
    const Json index = Json::parse(text);
    Json about = index.at("metadata");
    ShardIndex read;
    for (const auto& [name, layout] : about.at("divided").items())
      read.divided[name] = {dims_of(layout.at("shape")), dims_of(layout.at("strides"))};
    about.erase("divided");
    about.erase(crc_key);
    about.get_to(read.metadata);
    index.at("weight_map").get_to(read.file_of);
    for (const auto& [name, shard] : read.file_of)
      file.check(std::filesystem::path(shard).filename() == shard, "names the file \"", shard, "\" in another folder");
    return read;
  } catch (const Json::exception& error) {
    file.check(false, "is damaged: ", error.what());
    throw;
  }
}

bool overlaps(const Share& share, std::int64_t rank, std::int64_t ranks) {
  return rank * share.ranks < (share.rank + 1) * ranks && (rank + 1) * share.ranks > share.rank * ranks;
}

Array join(const std::map<std::int64_t, Array>& shards, const Layout& layout, std::int64_t ranks, const Share& share) {
  const std::int64_t n = layout.shape.product();
  TANDEM_CHECK(ranks > 0 && n <= INT64_MAX / (ranks + share.ranks), "its shape ", layout.shape, " is too large");
  TANDEM_CHECK(!shards.empty(), "no shard of it is there");
  const DType dtype = shards.begin()->second.dtype();
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    if (!overlaps(share, rank, ranks)) continue;
    const auto found = shards.find(rank);
    TANDEM_CHECK(found != shards.end(), "rank ", rank, " has no shard of it");
    const std::int64_t expected = begin_of_shard(n, rank + 1, ranks) - begin_of_shard(n, rank, ranks);
    TANDEM_CHECK(found->second.shape() == Shape{expected} && found->second.dtype() == dtype, "the shard of rank ", rank,
                 " is ", found->second.shape(), ' ', found->second.dtype(), ", expected ", Shape{expected}, ' ', dtype);
  }
  const Array described(Array::empty({}, dtype).storage(), layout.shape, layout.strides, 0, dtype);
  const MemoryOrder order(described);
  TANDEM_CHECK(order.fits(described), "its strides ", layout.strides, " do not fit its shape ", layout.shape);
  const bool is_whole = share.ranks == 1;
  const std::int64_t begin = begin_of_shard(n, share.rank, share.ranks);
  const std::int64_t end = begin_of_shard(n, share.rank + 1, share.ranks);
  const Array whole = is_whole ? order.empty(layout.shape, dtype, Device{}) : Array::empty({end - begin}, dtype);
  const Array flat = is_whole ? shard(whole, 0, 1) : whole;
  for (const auto& [rank, array] : shards) {
    const std::int64_t offset = begin_of_shard(n, rank, ranks);
    const std::int64_t from = std::max(begin, offset), to = std::min(end, offset + array.numel());
    if (from < to) flat.slice(0, from - begin, to - begin).copy_from(array.slice(0, from - offset, to - offset));
  }
  return whole;
}

}  // namespace tandem::distributed
