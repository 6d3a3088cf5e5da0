// Profile: records when each thread does what, as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing
// open.
//
//   Tensor conv2d(...) {
//     const ProfileRange range("conv2d");  // from here to the end of the scope
//
// Every thread has a lane, and ranges are nested as their scopes are. Times are those of the host's steady clock, which
// the traces of several processes of one host share. In builds with CUDA each range is also an NVTX range, for NVIDIA's
// tools. An Error (core/base/check.h) that is thrown inside a range names that range.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tandem {

namespace detail {
// Whether ranges are recorded at all. It is always true in builds with CUDA, where NVTX finds out for itself whether a
// tool listens.
extern std::atomic<bool> ranges_are_wanted;
// The name of this thread's innermost range; null outside of all ranges.
extern constinit thread_local const char* current_range;
}  // namespace detail

// A process writes one trace at a time. Any thread may call.
class Profile {
 public:
  // Starts a trace in the file `path`, which is overwritten. `rank` stands for the process. The file is written a few
  // times a second, and between two writes it holds valid JSON, so that a program that is killed leaves a trace of all
  // but its end. Error when a trace is being written already, or when the file can't be created.
  static void start(const std::string& path, int rank = 0);
  // Writes the rest and ends the trace; does nothing when there is none. Error when the file did not take everything,
  // as on a full disk: the file then holds, as valid JSON, what it took.
  static void stop();

  // Names the calling thread's lane, "loader" for instance, in this trace and later ones. Living threads that share a
  // name are told apart by a number, and a new thread takes over the lane of one of the same name that has ended.
  // `name` must live as long as the program, as a literal does.
  static void name_thread(const char* name);
  // Returns a copy of `name` that lives as long as the program, for names of ranges that are no literals.
  static const char* lasting_name(const std::string& name);
};

// A range of the thread that creates it. It costs a nanosecond or two while nobody profiles.
class ProfileRange {
 public:
  // The trace shows `name` and `suffix` together. Both are literals or come from lasting_name().
  explicit ProfileRange(const char* name, const char* suffix = "")
      : outer_(std::exchange(detail::current_range, name)) {
    if (detail::ranges_are_wanted.load(std::memory_order_relaxed)) begin(name, suffix);
  }
  ~ProfileRange() {
    detail::current_range = outer_;
    if (name_) end();
  }
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;

  // Adds a note that the viewer shows when the range is selected. Does nothing when no trace is written.
  void note(const char* key, std::string_view value);
  void note(const char* key, std::int64_t value);

 private:
  void begin(const char* name, const char* suffix);
  void end();

  const char* const outer_;
  const char* name_ = nullptr;  // null when ranges are not recorded
  const char* suffix_ = nullptr;
  std::int64_t begin_ = 0;  // nanoseconds; 0 when no trace was being written
  std::string notes_;       // members of a JSON object
};

}  // namespace tandem
