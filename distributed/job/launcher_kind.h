// LauncherKind: how read_environment() reads the variables of a launcher that an annex knows, such as mpirun and Slurm.
#pragma once

#include <tandem/distributed/job/environment.h>
#include <tandem/distributed/system/annexes.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>

namespace tandem::distributed {

// The environment variables, as text and as checked numbers. An empty variable counts as not set.
class Variables {
 public:
  static constexpr int any = std::numeric_limits<int>::max();  // as `high`: no limit

  // `variable` as in read_environment(). It must outlive this object.
  explicit Variables(const std::function<const char*(const char*)>& variable) : variable_(variable) {}

  std::string text(const char* name) const;
  bool is_set(const char* name) const { return !text(name).empty(); }
  // The number in [low, high] that the variable `name` holds.
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
  std::function<bool(const Variables&)> has_started;  // whether it started this process
  std::function<Environment(const Variables&)> read;
  // Sets the local and the node numbers, and knows_host, of a process that MPI started through this launcher. Empty:
  // MPI does not start processes through it.
  std::function<void(const Variables&, Environment&)> read_hosts;
};

// They are asked in their order: after torchrun's RANK and before WORLD_SIZE.
AnnexList<LauncherKind>& launcher_kinds();

// A port for the store of a job step. All tasks of the step compute the same port, and two steps seldom share one. It
// is in 61440 .. 65535, above the ports that Linux gives to outgoing connections by default (32768 .. 60999,
// ip_local_port_range in the kernel's ip-sysctl documentation).
int port_for(std::uint64_t job, std::uint64_t step);

}  // namespace tandem::distributed
