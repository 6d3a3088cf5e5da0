// FullDisk: a limit on file sizes that simulates a full disk. With either, write() fails partway.
#pragma once

#include <tandem/core/base/check.h>

#include <sys/resource.h>

#include <csignal>

namespace tandem::testing {

// While a FullDisk exists, no file that this process writes grows beyond `bytes`.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    TANDEM_CHECK(::getrlimit(RLIMIT_FSIZE, &before_) == 0, "can't read the limit");
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{bytes, before_.rlim_max};
    TANDEM_CHECK(::setrlimit(RLIMIT_FSIZE, &small) == 0, "can't set the limit");
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

}  // namespace tandem::testing
