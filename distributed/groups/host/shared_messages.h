// SharedMessages: messages from one rank to another, through the memory that the ranks of one host share.
#pragma once

#include <tandem/distributed/groups/host/host_peers.h>
#include <tandem/distributed/groups/host/shared_segment.h>

#include <deque>
#include <memory>
#include <vector>

namespace tandem::distributed {

// A rank's segment holds a mailbox for each rank that it sends to. A message lies in the sender's segment until the
// receiver has copied it. One thread at a time calls send() and receive(); any thread may wait for a Transfer.
class SharedMessages {
 public:
  // The part of a rank's segment that its mailboxes need. Zeroed memory is a row of empty mailboxes.
  static std::size_t bytes(int size);

  // `segments`, by rank: in each the mailboxes begin at `offset`.
  SharedMessages(int rank, const HostPeers& peers, std::vector<std::shared_ptr<SharedSegment>> segments,
                 std::size_t offset);

  // See HostTransport. Error when the receiver has left too many messages unread.
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
