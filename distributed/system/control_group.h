// The limits that a container or a batch system sets to this process: Linux control groups, version 1 or 2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tandem::distributed {

// The control groups of this process and their ancestors. Each group may hold a limit, and the tightest limit counts.
// A file that is missing or holds something else counts as no limit. A ControlGroups does not change after it was made,
// so any thread may use it. Source: Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst of Linux.
class ControlGroups {
 public:
  // `membership`: the text of /proc/self/cgroup. `root`: the folder in which the control groups' file systems are
  // mounted.
  ControlGroups(std::string membership, std::string root);
  static ControlGroups of_this_process();

  // How many processors this process may keep busy. May be a fraction, such as 1.5.
  std::optional<double> cpu_limit() const;
  // In bytes.
  std::optional<std::int64_t> memory_limit() const;
  // How many processes of this process's control group the kernel has killed for lack of memory.
  std::optional<std::int64_t> memory_kills() const;

 private:
  // The least number that read(folder) finds in the folders of this process's group and its ancestors. `controller`:
  // the name of a version 1 controller; empty: version 2.
  template <class Read>
  auto least(const std::string& controller, Read&& read) const;
  // The path of this process's group for `controller`, with a slash in front; "/" if `membership` does not name it.
  std::string path_of(const std::string& controller) const;

  std::string membership_;
  std::string root_;
};

}  // namespace tandem::distributed
