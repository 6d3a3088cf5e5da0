#include <tandem/core/base/check.h>
#include <tandem/core/base/standard_output.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <iostream>

namespace tandem {
namespace {

bool has_reader(int fd) {
  pollfd end{fd, 0, 0};
  return ::poll(&end, 1, 0) <= 0 || (end.revents & (POLLERR | POLLHUP)) == 0;
}

}  // namespace

void ignore_write_signals() {
  for (const int signal : {SIGPIPE, SIGXFSZ}) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = [](int) {};  // exec() removes a handler, unlike SIG_IGN
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
}

void prepare_standard_streams() {
  // open() returns the lowest free descriptor.
  for (int fd = 0; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
  ignore_write_signals();
}

void flush_standard_output() {
  std::cout.flush();
  TANDEM_CHECK(std::cout || !has_reader(STDOUT_FILENO), "could not write to standard output: is the disk full?");
}

}  // namespace tandem
