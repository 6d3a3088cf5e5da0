// EventFile: writes files for TensorBoard. They consist of records as in TFRecord files (length, masked CRC-32C,
// bytes). Each record is an Event message of tensorboard/compat/proto/event.proto, in protobuf's encoding.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

// Returns the seconds since 1970.
double wall_clock();

// A new file in a folder, which is created if it does not exist. TensorBoard shows all files of a folder as one run.
// Tags are paths ("train/loss"). Events are buffered until flush() or the destructor. Events that flush() has written
// stay readable whatever happens to the program. Only one thread may use an EventFile. Errors name the file.
class EventFile {
 public:
  explicit EventFile(const std::filesystem::path& folder, std::function<double()> clock = wall_clock);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  void add_scalar(const std::string& tag, std::int64_t step, double value);
  // Records that a job resumes before `step`. TensorBoard then ignores the events of earlier files in the folder that
  // belong to `step` or later steps.
  void add_restart(std::int64_t step);
  // `png` contains the bytes of a PNG file of this size in pixels.
  void add_image(const std::string& tag, std::int64_t step, std::string_view png, int width, int height);
  void add_text(const std::string& tag, std::int64_t step, std::string_view markdown);
  // Adds a histogram with 30 buckets of equal width from the smallest to the largest value. Values that are not finite
  // are ignored.
  void add_histogram(const std::string& tag, std::int64_t step, std::span<const float> values);
  void flush();

 private:
  std::filesystem::path path_;
  std::function<double()> clock_;
  int file_ = -1;
  std::string pending_;

  void add_event(std::int64_t step, const std::string& fields);
  void add_value(const std::string& tag, std::int64_t step, const std::string& fields);
};

}  // namespace tandem
