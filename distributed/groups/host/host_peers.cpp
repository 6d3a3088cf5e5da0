#include <tandem/distributed/groups/host/host_peers.h>
#include <tandem/distributed/groups/host/spin.h>

#include <poll.h>

#include <chrono>

namespace tandem::distributed {
namespace {

using Clock = RunningTime;

void relax() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#endif
}

}  // namespace

void HostPeers::await(int peer, SharedCounter& counter, std::uint32_t target, const Call& call) const {
  if (counter.reached(target)) return;
  for (Spin spin(call.may_spin); spin.goes_on();) {
    for (int i = 0; i < 64; ++i) {
      if (counter.reached(target)) return;
      relax();
    }
  }
  for (;;) {
    const std::uint32_t seen = counter.value.load();
    if (counter.reached(target)) return;
    counter.sleep(seen);
    if (counter.reached(target)) return;
    if (broken_) throw Error("broken off");
    // Work that a rank did before it went still counts.
    if (is_gone(peer) && !counter.reached(target)) throw PeerGone(peer, "gone");
    if (Clock::now() >= call.deadline) throw PeersLate({peer});
  }
}

bool HostPeers::is_gone(int peer) const {
  if (peer == rank_) return false;
  pollfd entry{sockets_[static_cast<std::size_t>(peer)].get(), POLLIN | POLLRDHUP, 0};
  return poll(&entry, 1, 0) > 0;
}

}  // namespace tandem::distributed
