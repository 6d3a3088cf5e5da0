// The limits that a container or a batch system sets to this process: Linux control groups, version 1 or 2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tandem::distributed {

// The groups this process is in and those above them: each of them may hold a limit, and the tightest counts. Files
// that are missing or hold something else count as no limit. Source: Documentation/admin-guide/cgroup-v1 and
// cgroup-v2.rst of Linux.
class ControlGroups {
 public:
  // `membership`: the text of /proc/self/cgroup; `root`: where the file systems are mounted.
  ControlGroups(std::string membership, std::string root);
  static ControlGroups of_this_process();

  // Processors' worth of time that may be used, such as 1.5.
  std::optional<double> cpu_limit() const;
  // Bytes.
  std::optional<std::int64_t> memory_limit() const;
  // Processes that the kernel has killed there for lack of memory.
  std::optional<std::int64_t> memory_kills() const;

 private:
  // The least number that `read` finds in this process's group for `controller` (empty: version 2) and those above.
  template <class Read>
  auto least(const std::string& controller, Read&& read) const;
  // Where the group of `controller` is, with a slash in front; "/" where it is not told.
  std::string path_of(const std::string& controller) const;

  std::string membership_;
  std::string root_;
};

}  // namespace tandem::distributed
