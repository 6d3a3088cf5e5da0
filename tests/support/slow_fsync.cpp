// A library for LD_PRELOAD that makes fsync as slow as on a slow disk. Each call takes SLOW_FSYNC seconds longer.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

extern "C" int fsync(int file) {
  const char* seconds = std::getenv("SLOW_FSYNC");
  const timespec pause{seconds ? std::atoi(seconds) : 0, 0};
  nanosleep(&pause, nullptr);
  return static_cast<int>(syscall(SYS_fsync, file));
}
