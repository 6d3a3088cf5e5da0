// Divides the elements of every parameter among the ranks, and sends the shards.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace tandem::distributed {

// Returns where the shard of a rank begins in an array of n elements. It ends where the next rank's begins. Files of
// shards rely on it.
inline std::int64_t begin_of_shard(std::int64_t n, std::int64_t rank, std::int64_t ranks) { return n * rank / ranks; }

// Returns a view of a rank's shard of an array: its elements from begin_of_shard() on, in memory order, with one
// dimension. It is empty if the array has fewer elements than there are ranks and none is left for this rank.
// Throws an Error if the array has gaps.
Array shard(const Array& array, int rank, int ranks);
std::vector<Array> shards(const std::vector<Array>& arrays, int rank, int ranks);

// Starts one reduce_scatter of `arrays`, which are dense and have the same dtype. When the returned Work's wait()
// returns, results[i], which has the shape of this rank's shard of arrays[i], holds the mean of that shard over the
// ranks; if `adds`, the mean has been added to it. The results may be views of the arrays. Until the operation is done,
// it needs as much memory as the arrays. `in_flight` has the last operations, and gets the new one. If it has two
// already, the function first waits for the older one, so a slow network does not fill the memory. Collective.
std::shared_ptr<Work> reduce_scatter_shards(const std::vector<Array>& arrays, const std::vector<Array>& results,
                                            bool adds, ProcessGroup& group, const std::string& name,
                                            std::deque<std::shared_ptr<Work>>& in_flight);

// Replaces the other ranks' shards of `arrays`, which are dense and have the same dtype, by those that the other ranks
// have. Collective, and blocks.
void all_gather_shards(const std::vector<Array>& arrays, ProcessGroup& group, const std::string& name);

// Returns on rank 0, in host memory, an array with the shape, dtype and memory order of `like`, whose shards are the
// ranks' arrays `mine`. Returns an undefined Array on all other ranks. Collective, and blocks.
Array gather_shards(const Array& mine, const Array& like, ProcessGroup& group, const std::string& name);

}  // namespace tandem::distributed
