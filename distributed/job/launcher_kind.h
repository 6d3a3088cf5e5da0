// LauncherKind: lets an annex teach read_environment() to read the variables of a launcher, such as mpirun or Slurm.
#pragma once

#include <tandem/distributed/job/environment.h>
#include <tandem/distributed/system/annexes.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>

namespace tandem::distributed {

// Reads environment variables as text and as checked numbers. An empty variable counts as not set.
class Variables {
 public:
  static constexpr int any = std::numeric_limits<int>::max();  // as `high`: no limit

  // `variable` is as in read_environment(). It must outlive this object.
  explicit Variables(const std::function<const char*(const char*)>& variable) : variable_(variable) {}

  std::string text(const char* name) const;
  bool is_set(const char* name) const { return !text(name).empty(); }
  // Returns the number in the variable `name`. Throws an Error if it is not in [low, high].
  int number(const char* name, int low, int high) const;
  int number(const char* name, int low, int high, int otherwise) const {
    return is_set(name) ? number(name, low, high) : otherwise;
  }
  bool truth(const char* name) const;  // "True" or "False"
  std::string first_of(std::initializer_list<const char*> names) const;

 private:
  const std::function<const char*(const char*)>& variable_;
};

struct LauncherKind {
  std::function<bool(const Variables&)> has_started;  // whether the launcher started this process
  std::function<Environment(const Variables&)> read;
  // Sets the local and node numbers and knows_host, for a process that MPI started through this launcher. Empty if MPI
  // does not start processes through it.
  std::function<void(const Variables&, Environment&)> read_hosts;
};

// read_environment() asks the kinds in this order, after RANK and before WORLD_SIZE.
inline constinit AnnexList<LauncherKind> launcher_kinds{add_distributed_annexes};

// Returns a port for the store of a job step. All tasks of the step compute the same port, and two steps seldom share a
// port. It is in 61440 .. 65535, above the ports that Linux uses for outgoing connections by default (32768 .. 60999,
// ip_local_port_range in the kernel's ip-sysctl documentation).
int port_for(std::uint64_t job, std::uint64_t step);

}  // namespace tandem::distributed
