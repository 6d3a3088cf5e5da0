// TraceFile: the file of a profile, in Chrome's format. Only core/profile/trace_recorder.cpp uses it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace tandem::detail {

// A range of a lane, from begin to end in nanoseconds. The name is followed by the suffix. Both texts must live as long
// as the program.
struct Event {
  const char* name;
  const char* suffix;
  std::int64_t begin, end;
  std::string notes;  // members of a JSON object
};

// Writes a trace as an array of the format
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU ("Trace Event Format"). Each write
// ends the array, and the next write overwrites that end. Only one thread at a time may use a TraceFile.
class TraceFile {
 public:
  // Creates the file for process `rank`. Throws an Error if it can't be written.
  TraceFile(const std::string& path, int rank);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  void add_label(const std::string& text);  // a text that viewers show next to the process
  void add_lane(int lane, const std::string& name);
  void add(int lane, const Event& event);
  // Writes the data added since the last write. Returns false after a failure; nothing more is written then.
  bool write();
  // Writes the rest. Throws an Error if anything is missing from the file.
  void close();

 private:
  bool put(const std::string& text, off_t at);

  const std::string path_;
  const int rank_;
  int file_;
  off_t size_ = 0;  // bytes in the file, without the end of the array
  std::string text_;
  std::string failure_;
};

}  // namespace tandem::detail
