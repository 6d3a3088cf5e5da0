// RankArrays: sends the arrays that only one rank has to rank 0, which writes them into the checkpoint.
#pragma once

#include <tandem/core/array/named_array.h>
#include <tandem/core/io/safetensors.h>
#include <tandem/distributed/groups/process_group.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::distributed {

// The ranks send one array at a time, in the order of the file, so rank 0 never holds more than one array of another
// rank, unless it keeps them. Until rank 0 has taken all arrays, the other ranks wait as long as it gives
// signs of life, as in run_together().
class RankArrays {
 public:
  // `mine` are the arrays of this rank, on any device. Other ranks may have different arrays. Collective.
  RankArrays(ProcessGroup& group, std::vector<NamedArray> mine);
  RankArrays(const RankArrays&) = delete;
  RankArrays& operator=(const RankArrays&) = delete;

  // Returns the arrays of all ranks, "rank-R/NAME", in the order of the file.
  const std::vector<ExpectedArray>& all() const { return all_; }
  std::size_t bytes() const;  // of all ranks

  // Returns the next of all(), which must be `expected`. Only rank 0 calls it.
  Array take(const ExpectedArray& expected);
  // Sends the arrays of this rank while rank 0 calls take(). Only the other ranks call it.
  void give();

 private:
  void begin_turn_if_due();
  int owner() const;  // of all()[next_]

  ProcessGroup& group_;
  std::vector<NamedArray> mine_;
  std::vector<ExpectedArray> all_;
  std::size_t next_ = 0;        // in all()
  std::size_t turn_bytes_ = 0;  // the bytes of the current turn so far
};

// Returns "rank-R/NAME".
std::string rank_name(std::int64_t rank, const std::string& name);
// Returns the rank and the NAME in "rank-R/NAME", or nullopt for other names.
std::optional<std::pair<std::int64_t, std::string>> parse_rank_name(const std::string& name);

}  // namespace tandem::distributed
