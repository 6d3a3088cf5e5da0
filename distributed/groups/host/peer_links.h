// Peer links: sockets between every two ranks of one host, over which each rank passes the other an open file.
#pragma once

#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/store/store.h>
#include <tandem/distributed/system/socket.h>

#include <vector>

namespace tandem::distributed {

struct PeerLink {
  FileDescriptor socket;  // nothing is written to it after linking, so it becomes readable when the peer is gone
  FileDescriptor file;    // the file that the peer passed
};

// Passes `file` to all other members, and returns a link to each of them, by rank. The link of `rank` itself is empty.
// The call is collective. The ranks pass the files over Unix sockets, and publish the names of the sockets in `store`.
// Nothing appears in the file system, but every process on the machine can see the sockets and connect. A rank rejects
// processes of other users at once, and a stranger that sends nothing delays no rank. Throws an Error if a rank does
// not connect before the deadline.
std::vector<PeerLink> link_peers(Store& store, int rank, const Members& members, const FileDescriptor& file,
                                 Deadline deadline);

}  // namespace tandem::distributed
