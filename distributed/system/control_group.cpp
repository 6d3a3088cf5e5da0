#include <tandem/distributed/system/control_group.h>
#include <tandem/distributed/system/process_limits.h>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;

// Returns the number after `name` in a file of lines such as "oom_kill 3".
std::optional<std::int64_t> named_number(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  std::int64_t value = 0;
  while (file >> word >> value) {
    if (word == name) return value;
  }
  return std::nullopt;
}

std::optional<std::int64_t> number_in_file(const fs::path& path) {
  std::int64_t value = 0;
  // For "no limit", version 1 writes the largest 64-bit number rounded down to a page. No machine has 2^60 bytes.
  constexpr auto unlimited = std::int64_t{1} << 60;
  if (std::ifstream(path) >> value && value >= 0 && value < unlimited) return value;
  return std::nullopt;
}

template <class T>
std::optional<T> smaller(std::optional<T> a, std::optional<T> b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

}  // namespace

ControlGroups::ControlGroups(std::string membership, std::string root)
    : membership_(std::move(membership)), root_(std::move(root)) {}

ControlGroups ControlGroups::of_this_process() {
  std::ifstream file("/proc/self/cgroup");
  return {std::string(std::istreambuf_iterator<char>(file), {}), "/sys/fs/cgroup"};
}

std::string ControlGroups::path_of(const std::string& controller) const {
  // Lines of version 1 look like "4:memory:/a/b" or "3:cpu,cpuacct:/a"; the line of version 2 looks like "0::/a/b".
  std::istringstream lines(membership_);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::istringstream names(line.substr(first + 1, second - first - 1));
    std::string name;
    bool is_it = controller.empty() && second == first + 1;
    while (std::getline(names, name, ',')) is_it = is_it || name == controller;
    if (is_it) return line.substr(second + 1);
  }
  return "/";
}

template <class Read>
auto ControlGroups::least(const std::string& controller, Read&& read) const {
  const auto top = controller.empty() ? fs::path(root_) : fs::path(root_) / controller;
  decltype(read(top)) result = read(top);
  // In a container, this path is often the path on the host, and its folders may not exist here. `read` returns nothing
  // for a folder that does not exist.
  auto folder = top;
  for (const auto& part : fs::path(path_of(controller)).relative_path()) {
    folder /= part;
    result = smaller(result, read(folder));
  }
  return result;
}

std::optional<double> ControlGroups::cpu_limit() const {
  const auto v2 = [](const fs::path& folder) -> std::optional<double> {
    double quota = 0, period = 0;  // in microseconds; "max" instead of the quota means no limit
    if (std::ifstream(folder / "cpu.max") >> quota >> period && quota > 0 && period > 0) return quota / period;
    return std::nullopt;
  };
  const auto v1 = [](const fs::path& folder) -> std::optional<double> {
    double quota = 0, period = 0;  // in microseconds; a quota of -1 means no limit
    if (std::ifstream(folder / "cpu.cfs_quota_us") >> quota && quota > 0 &&
        std::ifstream(folder / "cpu.cfs_period_us") >> period && period > 0)
      return quota / period;
    return std::nullopt;
  };
  return smaller(least("", v2), least("cpu", v1));
}

std::optional<std::int64_t> ControlGroups::memory_limit() const {
  return smaller(
      least("", [](const fs::path& folder) { return number_in_file(folder / "memory.max"); }),
      least("memory", [](const fs::path& folder) { return number_in_file(folder / "memory.limit_in_bytes"); }));
}

std::optional<std::int64_t> ControlGroups::memory_left() const {
  const auto left = [](const char* most, const char* used, const char* cached) {
    return [=](const fs::path& folder) -> std::optional<std::int64_t> {
      const auto limit = number_in_file(folder / most), use = number_in_file(folder / used);
      if (!limit || !use) return std::nullopt;
      return *limit - *use + named_number(folder / "memory.stat", cached).value_or(0);
    };
  };
  return smaller(least("", left("memory.max", "memory.current", "inactive_file")),
                 least("memory", left("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")));
}

std::optional<std::int64_t> ControlGroups::memory_kills() const {
  // Read only the process's own group, because in version 2 its count includes the groups below it.
  const auto read = [&](const std::string& controller, const char* file) {
    const auto top = controller.empty() ? fs::path(root_) : fs::path(root_) / controller;
    const auto own = top / fs::path(path_of(controller)).relative_path() / file;
    return named_number(fs::exists(own) ? own : top / file, "oom_kill");
  };
  const auto v2 = read("", "memory.events");
  return v2 ? v2 : read("memory", "memory.oom_control");
}

std::optional<std::int64_t> available_memory() {
  std::optional<std::int64_t> of_host;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    long long kibibytes = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %lld kB", &kibibytes) == 1) of_host = kibibytes * 1024;
  }
  return smaller(of_host, ControlGroups::of_this_process().memory_left());
}

}  // namespace tandem::distributed

namespace tandem {

void add_control_groups() {
  using distributed::ControlGroups;
  const auto identity = [] {
    char space[64] = "";  // all paths may be equal in containers
    [[maybe_unused]] const auto length = readlink("/proc/self/ns/cgroup", space, sizeof space - 1);
    std::string text = std::string(" ") + space;
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) text += " " + line;
    return text;
  };
  distributed::process_limits.add({[] { return ControlGroups::of_this_process().cpu_limit(); },
                                   [] { return ControlGroups::of_this_process().memory_limit(); },
                                   [] { return ControlGroups::of_this_process().memory_kills(); }, identity});
}

}  // namespace tandem
