// Members: identifies the ranks of a group, so that errors can name them.
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
  std::string backend{};       // GroupOptions::backend of this rank
  std::string cannot_share{};  // why it can't share memory although it is on the same host, in one line; empty: it can

  std::string name() const;  // "rank 1 (host, pid 4711)"
};

using Members = std::vector<Member>;  // by rank in the group

// Several texts as one text, in which they are quoted, and the same texts again.
std::string join_texts(const std::vector<std::string>& texts);
std::vector<std::string> split_texts(const std::string& joined);

// Writes this rank's text to the store, and returns the texts of all ranks, by rank. The call is collective. Rank 0
// reads the texts one by one and publishes them as one value. If each rank read them one by one, the store would answer
// size^2 reads. Throws an Error that names the first rank without a text after `timeout`. `name` is unique in the
// store.
std::vector<std::string> exchange_texts(Store& store, const std::string& name, int rank, int size,
                                        const std::string& mine, Store::Timeout timeout);

// Writes this rank's description to the store, and reads the descriptions of all other ranks. The call is collective.
// Throws an Error that names the first rank that does not join within `timeout`. The caller sets three members of
// `mine`: the backend of this process, why it can't share memory, and its rank in the whole job (which may differ from
// `rank`). collect_members() fills in the rest.
Members collect_members(Store& store, int rank, int size, Member mine, Store::Timeout timeout);

// Returns the description of rank `rank` of the group. collect_members() must have returned before.
Member member_of(Store& store, int rank);

bool share_a_host(const Members& members);

// Returns a text that says which members have which backend, or an empty string if all have the same.
std::string different_backends(const Members& members);

// Returns "rank 3" or "ranks 0-2, 5 and 7", in the given order. Three or more consecutive ranks are abbreviated. After
// `most` entries, the text ends with the number of ranks that it leaves out: "ranks 1, 3 and 17 more".
std::string rank_list(const std::vector<int>& ranks, std::size_t most = 16);

// Returns "rank 0 (a, pid 1), rank 2 (b, pid 5)": at most 16 names, followed by the number of the others.
std::string names_of(const Members& members, const std::vector<int>& ranks);

}  // namespace tandem::distributed
