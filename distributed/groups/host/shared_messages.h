// SharedMessages: sends messages from one rank to another through the memory that the ranks of one host share.
#pragma once

#include <tandem/distributed/groups/host/host_peers.h>
#include <tandem/distributed/groups/host/shared_segment.h>

#include <deque>
#include <memory>
#include <vector>

namespace tandem::distributed {

// A rank's segment holds a mailbox for each rank that it sends to. A message stays in the sender's segment until the
// receiver has copied it. Only one thread at a time may call send() and receive(). Any thread may wait for a Transfer.
class SharedMessages {
 public:
  // Returns the number of bytes that the mailboxes of one rank need in its segment. In zeroed memory, all mailboxes are
  // empty.
  static std::size_t bytes(int size);

  // `segments` are ordered by rank. In each of them, the mailboxes begin at `offset`.
  SharedMessages(int rank, const HostPeers& peers, std::vector<std::shared_ptr<SharedSegment>> segments,
                 std::size_t offset);

  // As in HostTransport. Throws an Error if the receiver has left too many messages unread.
  std::unique_ptr<Transfer> send(const void* data, std::size_t bytes, int to);
  std::unique_ptr<Transfer> receive(void* data, std::size_t bytes, int from);

 private:
  class Receipt;
  struct Mailbox;
  struct Sent {
    std::uint32_t index;
    std::size_t offset;
  };
  struct Outbox {
    std::uint32_t written = 0;
    std::deque<Sent> unread;
  };

  Mailbox& mailbox(int from, int to) const;

  const int rank_;
  const HostPeers& peers_;
  const std::vector<std::shared_ptr<SharedSegment>> segments_;
  const std::size_t offset_;

  std::vector<Outbox> outbox_;           // by peer
  std::vector<std::uint32_t> received_;  // messages asked for, by peer
};

}  // namespace tandem::distributed
