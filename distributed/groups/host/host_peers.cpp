#include <tandem/distributed/groups/host/host_peers.h>
#include <tandem/distributed/groups/host/spin.h>

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tandem::distributed {
namespace {

void relax() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#endif
}

}  // namespace

void SharedCounter::raise(std::uint32_t to) {
  value.store(to);
  if (sleepers.load() > 0) syscall(SYS_futex, &value, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void SharedCounter::sleep(std::uint32_t seen) {
  const timespec time{0, 20'000'000};
  sleepers.fetch_add(1);
  syscall(SYS_futex, &value, FUTEX_WAIT, seen, &time, nullptr, 0);
  sleepers.fetch_sub(1);
}

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
    // Check again: the peer may have raised the counter just before it left.
    if (is_gone(peer) && !counter.reached(target)) throw PeerGone(peer, "gone");
    if (RunningTime::now() >= call.deadline) throw PeersLate({peer});
  }
}

bool HostPeers::is_gone(int peer) const {
  if (peer == rank_) return false;
  pollfd entry{sockets_[static_cast<std::size_t>(peer)].get(), POLLIN | POLLRDHUP, 0};
  return poll(&entry, 1, 0) > 0;
}

}  // namespace tandem::distributed
