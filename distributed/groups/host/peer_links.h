// Peer links: a socket between every two ranks of one host, through which each gives the other an open file.
#pragma once

#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/store/store.h>
#include <tandem/distributed/system/socket.h>

#include <vector>

namespace tandem::distributed {

struct PeerLink {
  FileDescriptor socket;  // a stream to the peer, never written to: it becomes readable when the peer is gone
  FileDescriptor file;    // the file that the peer gave
};

// Collective. Gives `file` to all other members and returns a link to each of them, by rank; the link of `rank` itself
// is empty. The files are passed over Unix sockets, and the ranks tell each other the names of their sockets through
// `store`. Nothing appears in the file system, but every process on the machine can see the sockets and connect.
// Processes of other users are turned away at once, and a stranger that sends nothing delays no rank. Error when a rank
// does not connect before the deadline.
std::vector<PeerLink> link_peers(Store& store, int rank, const Members& members, const FileDescriptor& file,
                                 Deadline deadline);

}  // namespace tandem::distributed
