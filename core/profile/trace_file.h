// TraceFile: the file that a profile is written to, in Chrome's format. For core/profile/profile.cpp.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace tandem::detail {

// What a lane was busy with; nanoseconds. The two texts live on and are shown together.
struct Event {
  const char* name;
  const char* suffix;
  std::int64_t begin, end;
  std::string notes;  // members of a JSON object
};

// The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU ("Trace Event Format"),
// as an array. Each write ends the array, and the next one begins on top of that end. One thread at a time.
class TraceFile {
 public:
  // Of process `rank`. Error when it can't be written.
  TraceFile(const std::string& path, int rank);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  void add_label(const std::string& text);  // what a viewer shows beside the process
  void add_lane(int lane, const std::string& name);
  void add(int lane, const Event& event);
  // What was added since the last time. False once something has failed: nothing more is written then.
  bool write();
  // The rest. Error when anything is missing.
  void close();

 private:
  bool put(const std::string& text, off_t at);

  const std::string path_;
  const int rank_;
  int file_;
  off_t size_ = 0;  // without the end
  std::string text_;
  std::string failure_;
};

}  // namespace tandem::detail
