// Helpers of the tests of failing disks.
#pragma once

#include <support/faulty_files.h>
#include <support/lossy_disk.h>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tandem::testing {

// The tests make thousands of small folders, in a file system in memory if there is one.
[[maybe_unused]] inline const bool is_in_memory =
    ::access("/dev/shm", W_OK) == 0 && ::setenv("TMPDIR", "/dev/shm", 1) == 0;

// Watches `folder` while this object exists.
class Watching {
 public:
  explicit Watching(const std::filesystem::path& folder, const std::filesystem::path& journal = {}) {
    faulty_files_watch(folder.c_str(), journal.empty() ? nullptr : journal.c_str());
  }
  ~Watching() { faulty_files_watch(nullptr, nullptr); }
  Watching(const Watching&) = delete;
  Watching& operator=(const Watching&) = delete;
};

// The way in which a call fails. With error 0, a write writes half of its bytes. If `lasts`, a write writes half, and
// all later calls fail.
struct Way {
  int error;
  bool lasts;
};
inline const std::vector<Way> all_ways = {{EIO, false}, {ENOSPC, false}, {EINTR, false},
                                          {0, false},   {EIO, true},     {ENOSPC, true}};

inline std::string text_of(long call, const Way& way) {
  return "call " + std::to_string(call) +
         (way.error == 0 ? " is short" : std::string(" fails: ") + strerror(way.error)) +
         (way.lasts ? ", as do all later ones" : "");
}

// Returns whether to try all faults, as tests/long/power_loss does.
inline bool tries_all() { return std::getenv("TANDEM_ALL_FAULTS") != nullptr; }

// Runs `step`. If it fails, the disk is repaired, `look` gets the error, and `step` runs again, as in a restarted
// program.
template <class Step, class Look>
void do_twice(const Step& step, const Look& look) {
  std::string text;
  try {
    return step();
  } catch (const Error& error) {
    text = error.what();
  }
  faulty_files_fail(0, 0, false);
  look(text);
  step();
}

// Describes the contents of the folder, except names and texts that differ between runs.
inline std::string key_of(const LossyDisk::Contents& contents) {
  std::string key;
  for (const auto& [path, bytes] : contents) {
    const bool is_temporary = path.ends_with(".tmp"), is_lock = path.ends_with(".lock");
    key += is_temporary ? std::filesystem::path(path).replace_filename("temporary").string() : path;
    key += bytes && !is_lock
               ? ' ' + std::to_string(bytes->size()) + ' ' + std::to_string(std::hash<std::string>()(*bytes))
               : " -";
    key += '\n';
  }
  return key;
}

}  // namespace tandem::testing
