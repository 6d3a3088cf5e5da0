// Profile: what each thread does when, as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
//
//   Tensor conv2d(...) {
//     const ProfileRange range("conv2d");  // from here to the end of the scope
//
// Every thread has a lane, ranges lie one in another as the scopes do, and times are the host's steady clock: the
// traces of several processes of one host share it. In builds with CUDA each range is an NVTX range, too, for NVIDIA's
// tools. An Error (core/base/check.h) that is thrown in a range names it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tandem {

namespace detail {
// Somebody wants to know of ranges. Always so in builds with CUDA, where NVTX finds out for itself.
extern std::atomic<bool> ranges_are_wanted;
// The name of the innermost range of this thread; null outside of all.
extern constinit thread_local const char* current_range;
}  // namespace detail

// One trace of this process at a time. Any thread.
class Profile {
 public:
  // Begins to write `path`, over what is there; `rank` stands for the process. The file is written a few times a
  // second, and what it holds is valid JSON between two writes: a program that is killed leaves a trace of all but its
  // end. Error when a trace is being written already, or when the file can't be made.
  static void start(const std::string& path, int rank = 0);
  // Writes the rest. Nothing to do without a trace. Error when the file did not take everything, a full disk for
  // instance: it then holds, as valid JSON, what it took.
  static void stop();

  // The calling thread's lane in all traces from now on: "loader". Threads of one name that live at the same time are
  // told apart by a number; one that comes when another has ended takes over its lane. The text must live on, like a
  // literal.
  static void name_thread(const char* name);
  // A text that lives as long as the program, for the names of ranges that are no literals.
  static const char* lasting_name(const std::string& name);
};

// For the thread that makes it. Costs a nanosecond or two where nobody profiles.
class ProfileRange {
 public:
  // The trace shows `name` and `suffix` together. Both are literals, or from lasting_name().
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

  // What the viewer shows beside a range that is selected. Nothing where no trace is written.
  void note(const char* key, std::string_view value);
  void note(const char* key, std::int64_t value);

 private:
  void begin(const char* name, const char* suffix);
  void end();

  const char* const outer_;
  const char* name_ = nullptr;  // null: nobody wants to know
  const char* suffix_ = nullptr;
  std::int64_t begin_ = 0;  // nanoseconds; 0: no trace was being written
  std::string notes_;       // members of a JSON object
};

}  // namespace tandem
