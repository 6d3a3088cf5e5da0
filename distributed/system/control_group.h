// The limits that a container or a batch system sets for this process: Linux control groups, version 1 or 2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tandem::distributed {

// The control groups of this process and their ancestors. Each group may have a limit, and the tightest limit counts.
// If a file is missing or does not contain a number, there is no limit. A ControlGroups does not change after
// construction, so any thread may use it. Source: Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst of Linux.
class ControlGroups {
 public:
  // `membership` is the text of /proc/self/cgroup. `root` is the folder in which the control groups' file systems are
  // mounted.
  ControlGroups(std::string membership, std::string root);
  static ControlGroups of_this_process();

  // Returns how many processors this process may keep busy. The number may be a fraction, such as 1.5.
  std::optional<double> cpu_limit() const;
  // Returns the limit in bytes.
  std::optional<std::int64_t> memory_limit() const;
  // Returns how many more bytes the processes of the tightest group can use. Cached files that the kernel would drop
  // count as free.
  std::optional<std::int64_t> memory_left() const;
  // Returns how many processes of this process's control group the kernel has killed for lack of memory.
  std::optional<std::int64_t> memory_kills() const;

 private:
  // Returns the smallest result of read(folder) for the folders of this process's group and its ancestors. `controller`
  // is the name of a version 1 controller, or empty for version 2.
  template <class Read>
  auto least(const std::string& controller, Read&& read) const;
  // Returns the path of this process's group for `controller`, with a leading slash, or "/" if `membership` does not
  // contain it.
  std::string path_of(const std::string& controller) const;

  std::string membership_;
  std::string root_;
};

// Returns how many more bytes this process can use before the host swaps or the kernel kills a process: the smaller of
// what the host has and what ControlGroups::memory_left() returns. Any thread may call it.
std::optional<std::int64_t> available_memory();

}  // namespace tandem::distributed
