// HostPeers: how a rank waits for the other ranks of its host, and notices that one of them is gone.
#pragma once

#include <tandem/distributed/groups/host/host_transport.h>
#include <tandem/distributed/system/socket.h>

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace tandem::distributed {

// A number in shared memory that one rank raises and others wait for. Zeroed memory is a counter at 0.
struct alignas(64) SharedCounter {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};

  bool reached(std::uint32_t target) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_acquire) - target) >= 0;
  }
  void raise(std::uint32_t to);  // and wakes those who sleep
  // Returns when the value differs from `seen`, or after 20 ms (chosen: the caller looks then whether the peer that it
  // waits for is still there).
  void sleep(std::uint32_t seen);
};

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
