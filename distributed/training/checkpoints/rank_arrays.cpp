#include <tandem/distributed/job/together.h>
#include <tandem/distributed/training/checkpoints/rank_arrays.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace tandem::distributed {
namespace {

using Json = nlohmann::json;

const std::string rank_prefix = "rank-";

// The ranks synchronise before each turn, because the group's timeout bounds its operations, but not writing. A turn is
// so small that even a slow disk writes it in well under the default timeout.
constexpr std::size_t bytes_of_turn = std::size_t{64} << 20;

std::size_t bytes_of(const ExpectedArray& array) {
  return static_cast<std::size_t>(array.shape.product()) * size_of(array.dtype);
}

}  // namespace

std::string rank_name(std::int64_t rank, const std::string& name) {
  return rank_prefix + std::to_string(rank) + '/' + name;
}

std::optional<std::pair<std::int64_t, std::string>> parse_rank_name(const std::string& name) {
  if (!name.starts_with(rank_prefix)) return {};
  std::int64_t rank = 0;
  const char* const end = name.data() + name.size();
  const auto number = std::from_chars(name.data() + rank_prefix.size(), end, rank);
  if (number.ec != std::errc() || rank < 0 || number.ptr == end || *number.ptr != '/') return {};
  return std::pair(rank, std::string(number.ptr + 1, end));
}

RankArrays::RankArrays(ProcessGroup& group, std::vector<NamedArray> mine) : group_(group), mine_(std::move(mine)) {
  Json described = Json::array();
  for (auto& [name, array] : mine_) {
    name = rank_name(group.rank(), name);
    described.push_back({name, static_cast<int>(array.dtype()),
                         std::vector<std::int64_t>(array.shape().begin(), array.shape().end()), checksum_of(array)});
  }
  for (const auto& text : group.all_gather_strings(described.dump(), "what each rank alone has")) {
    for (const auto& entry : Json::parse(text)) {
      ExpectedArray array{entry[0], static_cast<DType>(entry[1].get<int>()), {}, entry[3].get<std::uint32_t>()};
      for (const std::int64_t size : entry[2]) array.shape.push_back(size);
      all_.push_back(std::move(array));
    }
  }
  sort_as_in_safetensors(all_);
}

std::size_t RankArrays::bytes() const {
  std::size_t bytes = 0;
  for (const auto& array : all_) bytes += bytes_of(array);
  return bytes;
}

int RankArrays::owner() const { return static_cast<int>(parse_rank_name(all_[next_].name)->first); }

// Between arrays of two dtypes, rank 0 may write other arrays, which are not counted here.
void RankArrays::begin_turn_if_due() {
  const bool is_due = next_ == 0 || all_[next_].dtype != all_[next_ - 1].dtype || turn_bytes_ >= bytes_of_turn;
  if (is_due) {
    run_together(group_, [] {});
    turn_bytes_ = 0;
  }
  turn_bytes_ += bytes_of(all_[next_]);
}

Array RankArrays::take(const ExpectedArray& expected) {
  TANDEM_CHECK(next_ < all_.size() && all_[next_].name == expected.name, "the array ", expected.name,
               " of a checkpoint was requested out of order");
  begin_turn_if_due();
  const int rank = owner();
  ++next_;
  if (rank == group_.rank()) {
    return std::find_if(mine_.begin(), mine_.end(), [&](const NamedArray& a) { return a.name == expected.name; })
        ->array;
  }
  Array array = Array::empty(expected.shape, expected.dtype);
  if (array.numel() > 0) group_.receive(array, rank, expected.name)->wait();
  return array;
}

void RankArrays::give() {
  for (; next_ < all_.size(); ++next_) {
    begin_turn_if_due();
    if (owner() != group_.rank()) continue;
    const auto& name = all_[next_].name;
    const auto found = std::find_if(mine_.begin(), mine_.end(), [&](const NamedArray& a) { return a.name == name; });
    const Array array = found->array.to(Device{}).contiguous();
    if (array.numel() > 0) group_.send(array, 0, name)->wait();
  }
}

}  // namespace tandem::distributed
