#include <tandem/distributed/groups/host/shared_counter.h>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tandem::distributed {

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

}  // namespace tandem::distributed
