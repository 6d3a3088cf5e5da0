// Members: who the ranks of a group are, so that errors can name them.
#pragma once

#include <tandem/distributed/store/store.h>

#include <string>
#include <vector>

namespace tandem::distributed {

struct Member {
  int rank = 0;  // in the whole job
  std::string host{};
  std::string pid{};
  std::string loopback{};      // loopback_identity(): equal for ranks that can share memory
  std::string backend{};       // what it was told to communicate by, GroupOptions::backend
  std::string cannot_share{};  // why it can't share memory even so, in one line; empty: it can

  std::string name() const;  // "rank 1 (host, pid 4711)"
};

using Members = std::vector<Member>;  // by rank in the group

// Writes this rank's description to the store, and reads those of the others. Collective. Error naming the first rank
// that does not come within `timeout`. `mine` has this process's rank in the whole job, which differs from `rank` in a
// group of some of its ranks, its backend and why it can't share memory; collect_members() finds out the rest.
Members collect_members(Store& store, int rank, int size, Member mine, Store::Timeout timeout);

// The description of rank `rank` of the group. collect_members() must have got it already.
Member member_of(Store& store, int rank);

bool share_a_host(const Members& members);

// A sentence that says which members have which backend. Empty if all have the same.
std::string different_backends(const Members& members);

// "rank 3", "ranks 0-2, 5 and 7": in the given order; three and more in a row are shortened. After `most` entries the
// text ends with the number of ranks that it leaves out: "ranks 1, 3 and 17 more".
std::string rank_list(const std::vector<int>& ranks, std::size_t most = 16);

// "rank 0 (a, pid 1), rank 2 (b, pid 5)"; at most 16 names, and then the number of the others.
std::string names_of(const Members& members, const std::vector<int>& ranks);

}  // namespace tandem::distributed
