// What the tests of failing disks share.
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

// Thousands of small folders: where there is one, in a file system in memory.
[[maybe_unused]] inline const bool is_in_memory =
    ::access("/dev/shm", W_OK) == 0 && ::setenv("TMPDIR", "/dev/shm", 1) == 0;

// Watches `folder` while it lives.
class Watching {
 public:
  explicit Watching(const std::filesystem::path& folder, const std::filesystem::path& journal = {}) {
    faulty_files_watch(folder.c_str(), journal.empty() ? nullptr : journal.c_str());
  }
  ~Watching() { faulty_files_watch(nullptr, nullptr); }
  Watching(const Watching&) = delete;
  Watching& operator=(const Watching&) = delete;
};

// How a call fails. Error 0: half of a write is written. With `lasts` half of a write is written and all later calls
// fail.
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

// Whether to try everything, as tests/long/power_loss does.
inline bool tries_all() { return std::getenv("TANDEM_ALL_FAULTS") != nullptr; }

// Does `step`. If it fails, the disk is repaired, `look` is called with the error, and `step` is done once more, as by
// a program that was started again.
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

// What the folder holds, but for names and texts that are others in each run.
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
