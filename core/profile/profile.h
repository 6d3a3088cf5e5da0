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

#include <tandem/core/base/scope.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

namespace detail {
// Whether ranges are recorded at all. It is always true in builds with CUDA, where NVTX finds out for itself whether a
// tool listens.
extern std::atomic<bool> ranges_are_wanted;
}  // namespace detail

// Where the time of a trace went, by lane and name of range.
struct ProfileSummary {
  struct Row {
    std::string lane, name;
    std::int64_t count = 0;  // ranges
    double seconds = 0;      // from their beginnings to their ends
    double self = 0;         // of that, outside of other ranges of the lane
  };
  double seconds = 0;     // from the start of the trace to its end
  std::vector<Row> rows;  // in no particular order
};

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
  // Of the trace that was stopped last; empty before.
  static ProfileSummary summary();

  // Names the calling thread's lane, "loader" for instance, in this trace and later ones. Living threads that share a
  // name are told apart by a number, and a new thread takes over the lane of one of the same name that has ended.
  // `name` must live as long as the program, as a literal does.
  static void name_thread(const char* name);
  // Returns a copy of `name` that lives as long as the program, for names of ranges that are no literals.
  static const char* lasting_name(const std::string& name);
};

// A range of the thread that creates it. It costs a nanosecond or two while nobody profiles.
class ProfileRange : public detail::Scope {
 public:
  // An operation. The trace shows `name` and `suffix` together. Both are literals or come from lasting_name().
  explicit ProfileRange(const char* name, const char* suffix = "") : ProfileRange(Kind::operation, name, suffix) {}
  // A phase of the program, such as "load batch", which errors do not name, or the call of a module.
  ProfileRange(Kind kind, const char* name, const char* suffix = "") : Scope(kind, name), suffix_(suffix) {
    if (detail::ranges_are_wanted.load(std::memory_order_relaxed)) begin();
  }
  ~ProfileRange() {
    if (is_wanted_) end();
  }

  // The innermost range of this thread; null outside of all ranges.
  static ProfileRange* innermost() { return static_cast<ProfileRange*>(Scope::innermost()); }

  // Adds a note that the viewer shows when the range is selected. Does nothing when no trace is written.
  void note(const char* key, std::string_view value);
  void note(const char* key, std::int64_t value);
  // Whether a trace is written: notes cost their time only then.
  bool is_recorded() const { return begin_ != 0; }
  bool has_notes() const { return !notes_.empty(); }
  // The range is the call of a module, which the trace shows by its path in the network, "layer1.0.conv1". The text
  // lives as long as the program.
  void show_as(const char* path) { path_ = path; }
  // The path that show_as() gave the innermost call of a module on this thread; null outside of all.
  static const char* module_path();

 private:
  void begin();
  void end();

  const char* const suffix_;
  const char* path_ = nullptr;
  bool is_wanted_ = false;
  std::int64_t begin_ = 0;  // nanoseconds; 0 when no trace was being written
  std::string notes_;       // members of a JSON object
};

}  // namespace tandem
