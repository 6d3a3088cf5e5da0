// fsync as a slow disk has it: a library for LD_PRELOAD. It takes SLOW_FSYNC seconds more.
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
