#include <tandem/core/base/check.h>
#include <tandem/core/io/file_system.h>
#include <tandem/distributed/launch/log_folder.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace tandem::distributed {

namespace fs = std::filesystem;

LogFolder::LogFolder(const std::string& root, const std::string& run_id, bool has_logs) {
  fs::path folder = root;
  if (root.empty()) {
    auto pattern = (fs::temp_directory_path() / "tandemrun-XXXXXX").string();
    TANDEM_CHECK(mkdtemp(pattern.data()), "cannot make the folder ", pattern, ": ", std::strerror(errno));
    folder = pattern;
    if (has_logs) {
      std::fprintf(stderr, "tandemrun: logs are in %s\n", folder.c_str());
    } else {
      temporary_ = folder;
    }
  }
  auto name = run_id;
  std::replace(name.begin(), name.end(), '/', '_');
  run_ = fs::absolute(folder) / name;
}

LogFolder::~LogFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

fs::path LogFolder::of(int generation, int local_rank) const {
  const auto folder = run_ / ("attempt_" + std::to_string(generation)) / std::to_string(local_rank);
  create_folder(folder, "for logs");
  std::error_code ignored;
  fs::remove(folder / "error.json", ignored);
  return folder;
}

}  // namespace tandem::distributed
