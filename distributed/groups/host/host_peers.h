// HostPeers: waits for the other ranks of a host, and notices when one of them is gone.
#pragma once

#include <tandem/distributed/groups/host/host_transport.h>
#include <tandem/distributed/system/socket.h>

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace tandem::distributed {

// A number in shared memory that one rank raises and other ranks wait for. Zeroed memory is a counter at 0.
struct alignas(64) SharedCounter {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};

  bool reached(std::uint32_t target) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_acquire) - target) >= 0;
  }
  void raise(std::uint32_t to);  // and wakes the sleeping threads
  // Returns when the value differs from `seen`, or after 20 ms. The caller then checks whether the peer is still there.
  // The 20 ms are chosen, not measured.
  void sleep(std::uint32_t seen);
};

// Any thread may call the methods.
class HostPeers {
 public:
  // `sockets[r]` becomes readable when rank r is gone. sockets[rank] is never used.
  HostPeers(int rank, std::vector<FileDescriptor> sockets) : rank_(rank), sockets_(std::move(sockets)) {}

  // Waits until `peer` has raised `counter` to `target`. Throws PeerGone if the peer is gone, PeersLate after the
  // call's deadline, and an Error after break_off().
  void await(int peer, SharedCounter& counter, std::uint32_t target, const Call& call) const;
  void break_off() noexcept { broken_ = true; }

 private:
  bool is_gone(int peer) const;

  const int rank_;
  const std::vector<FileDescriptor> sockets_;
  std::atomic<bool> broken_ = false;
};

}  // namespace tandem::distributed
