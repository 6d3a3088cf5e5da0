// Makes system calls fail, for tests of file systems that lack a feature.
#pragma once

#include <tandem/core/base/check.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <vector>

namespace tandem::testing {

// Makes a system call fail with `error_number`, permanently, in this thread and in all threads that it starts. Call it
// in a new thread or in a child process. If `flags` is not 0, only calls whose argument number `argument` has all these
// bits fail.
inline void refuse_call(unsigned number, unsigned error_number, int argument = 0, unsigned flags = 0) {
  const auto at = [](std::size_t offset) {
    return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset));
  };
  std::vector<sock_filter> filter = {
      at(offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4),
      at(offsetof(seccomp_data, args) + sizeof(__u64) * static_cast<std::size_t>(argument)),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, flags),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, flags, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error_number),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  TANDEM_CHECK(
      ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0,
      "cannot install a filter of system calls");
}

}  // namespace tandem::testing
