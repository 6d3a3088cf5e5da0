#include <tandem/core/base/check.h>
#include <tandem/core/io/file_system.h>
#include <tandem/distributed/launch/log_folder.h>
#include <tandem/distributed/system/random_text.h>
#include <tandem/distributed/system/temporary_folder.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

namespace tandem::distributed {

namespace fs = std::filesystem;

namespace {

const std::string temporary_name = "tandemrun-tmp-";

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored)) files.push_back(entry.path());
  }
  return files;
}

// Removes the records in a folder. Also removes the folder, unless it contains copies.
void remove_records(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& file : files_of(folder)) fs::remove(file, ignored);
  fs::remove(folder, ignored);
}

}  // namespace

LogFolder::LogFolder(const std::string& root, const std::string& run_id, bool has_logs) {
  fs::path folder = root;
  if (root.empty()) {
    auto pattern = (temporary_root() / (has_logs ? "tandemrun-XXXXXX" : temporary_name + "XXXXXX")).string();
    TANDEM_CHECK(mkdtemp(pattern.data()), "cannot make the folder ", pattern, ": ", std::strerror(errno));
    folder = pattern;
    if (has_logs) {
      std::fprintf(stderr, "tandemrun: logs are in %s\n", folder.c_str());
    } else {
      temporary_ = folder;
      lock_ = use_folder(folder);
      remove_old_folders(folder, temporary_name);
    }
  }
  auto name = run_id;
  std::replace(name.begin(), name.end(), '/', '_');
  if (name == "." || name == "..") name.insert(0, 1, '_');
  run_ = fs::absolute(folder) / name;
}

LogFolder::~LogFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  for (const auto& folder : unkept_) remove_records(folder);
}

fs::path LogFolder::of(int generation, int rank) const {
  const auto folder = run_ / ("attempt_" + std::to_string(generation)) / std::to_string(rank);
  create_folder(folder, "for logs");
  return folder;
}

fs::path LogFolder::flight(int generation) {
  for (const auto& folder : std::exchange(unkept_, {})) remove_records(folder);
  if (temporary_.empty()) {
    flight_ = run_ / ("attempt_" + std::to_string(generation)) / "flight";
    create_folder(flight_, "for flight records");
  } else {
    flight_ = shared_folder(flight_folders, random_text(2));
    unkept_.push_back(flight_);
  }
  return flight_;
}

fs::path LogFolder::keep_flight() {
  if (flight_.empty() || files_of(flight_).empty()) return {};
  std::erase(unkept_, flight_);
  kept_.push_back(flight_);
  // A job may keep restarting for days. The last eight failures are enough to see a repeated failure.
  if (kept_.size() > 8) {
    remove_records(kept_.front());
    kept_.pop_front();
  }
  return flight_;
}

fs::path LogFolder::copy_flight() const {
  const auto files = flight_.empty() ? std::vector<fs::path>() : files_of(flight_);
  if (files.empty()) return {};
  const auto folder = flight_ / "copy";
  create_folder(folder, "for copies of flight records");
  for (const auto& file : files) {
    std::error_code error;
    fs::copy_file(file, folder / file.filename(), fs::copy_options::overwrite_existing, error);
    TANDEM_CHECK(!error, "cannot copy ", file.string(), " to ", folder.string(), ": ", error.message());
  }
  return folder;
}

}  // namespace tandem::distributed
