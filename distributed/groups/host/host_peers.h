// HostPeers: how a rank waits for the other ranks of its host, and notices that one of them is gone.
#pragma once

#include <tandem/distributed/groups/host/host_transport.h>
#include <tandem/distributed/groups/host/shared_counter.h>
#include <tandem/distributed/system/socket.h>

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace tandem::distributed {

// Any thread may call the methods.
class HostPeers {
 public:
  // `sockets`, by rank: each becomes readable when the peer is gone. The one of `rank` itself is never looked at.
  HostPeers(int rank, std::vector<FileDescriptor> sockets) : rank_(rank), sockets_(std::move(sockets)) {}

  // Waits until `counter`, which `peer` raises, has reached `target`. Throws PeerGone, PeersLate after the call's
  // deadline, or an Error after break_off().
  void await(int peer, SharedCounter& counter, std::uint32_t target, const Call& call) const;
  void break_off() noexcept { broken_ = true; }

 private:
  bool is_gone(int peer) const;

  const int rank_;
  const std::vector<FileDescriptor> sockets_;
  std::atomic<bool> broken_ = false;
};

}  // namespace tandem::distributed
