#include <tandem/distributed/system/control_group.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;

// The number behind `name` in a file of lines such as "oom_kill 3".
std::optional<std::int64_t> named_number(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  std::int64_t value = 0;
  while (file >> word >> value) {
    if (word == name) return value;
  }
  return std::nullopt;
}

std::optional<std::int64_t> number_in(const fs::path& path) {
  std::int64_t value = 0;
  // Version 1 writes "no limit" as a number next to the largest one.
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
  // "4:memory:/a/b", "3:cpu,cpuacct:/a"; "0::/a/b" is version 2's.
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
  // In a container the path is often the host's, which cannot be seen here; what can be, counts.
  auto folder = top;
  for (const auto& part : fs::path(path_of(controller)).relative_path()) {
    folder /= part;
    result = smaller(result, read(folder));
  }
  return result;
}

std::optional<double> ControlGroups::cpu_limit() const {
  const auto v2 = [](const fs::path& folder) -> std::optional<double> {
    double quota = 0, period = 0;  // microseconds; "max" is no number
    if (std::ifstream(folder / "cpu.max") >> quota >> period && quota > 0 && period > 0) return quota / period;
    return std::nullopt;
  };
  const auto v1 = [](const fs::path& folder) -> std::optional<double> {
    double quota = 0, period = 0;  // -1: no limit
    if (std::ifstream(folder / "cpu.cfs_quota_us") >> quota && quota > 0 &&
        std::ifstream(folder / "cpu.cfs_period_us") >> period && period > 0)
      return quota / period;
    return std::nullopt;
  };
  return smaller(least("", v2), least("cpu", v1));
}

std::optional<std::int64_t> ControlGroups::memory_limit() const {
  return smaller(least("", [](const fs::path& folder) { return number_in(folder / "memory.max"); }),
                 least("memory", [](const fs::path& folder) { return number_in(folder / "memory.limit_in_bytes"); }));
}

std::optional<std::int64_t> ControlGroups::memory_kills() const {
  // Of this process's own group: version 2's counts the groups below as well.
  const auto read = [&](const std::string& controller, const char* file) {
    const auto top = controller.empty() ? fs::path(root_) : fs::path(root_) / controller;
    const auto own = top / fs::path(path_of(controller)).relative_path() / file;
    return named_number(fs::exists(own) ? own : top / file, "oom_kill");
  };
  const auto v2 = read("", "memory.events");
  return v2 ? v2 : read("memory", "memory.oom_control");
}

}  // namespace tandem::distributed
