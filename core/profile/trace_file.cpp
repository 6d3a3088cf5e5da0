#include <tandem/core/base/check.h>
#include <tandem/core/base/file_error.h>
#include <tandem/core/base/utf8.h>
#include <tandem/core/base/write_all.h>
#include <tandem/core/profile/profile_lanes.h>
#include <tandem/core/profile/trace_file.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace tandem::detail {

namespace {

const std::string end = "\n]\n";

}  // namespace

std::string json_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : utf8_escaped(text)) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

TraceFile::TraceFile(const std::string& path, int rank)
    : path_(path),
      rank_(rank),
      file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0666)) {
  const std::string number = std::to_string(rank);
  text_ =
      "[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" + number + ",\"args\":{\"name\":\"rank " + number + "\"}}";
  // Without O_NONBLOCK, opening a pipe would wait for its reader. Writing may wait.
  if (file_ < 0) failure_ = errno == ENXIO ? "it is a pipe without a reader" : explain_file_error(errno);
  else ::fcntl(file_, F_SETFL, 0);
  if (write()) return;
  if (file_ >= 0) ::close(file_);
  fail("can't write the profile ", path, ": ", failure_);
}

TraceFile::~TraceFile() {
  if (file_ >= 0) ::close(file_);
}

void TraceFile::add_label(const std::string& text) {
  text_ += ",\n{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":" + std::to_string(rank_) +
           ",\"args\":{\"labels\":\"" + json_escaped(text) + "\"}}";
}

void TraceFile::add_lane(int lane, const std::string& name) {
  text_ += ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":" + std::to_string(rank_) +
           ",\"tid\":" + std::to_string(lane) + ",\"args\":{\"name\":\"" + json_escaped(name) + "\"}}";
}

void TraceFile::add(int lane, const Event& event) {
  char times[96];
  const auto duration = event.end - event.begin;
  std::snprintf(times, sizeof times, "\"ts\":%lld.%03lld,\"dur\":%lld.%03lld",
                static_cast<long long>(event.begin / 1000), static_cast<long long>(event.begin % 1000),
                static_cast<long long>(duration / 1000), static_cast<long long>(duration % 1000));
  text_ += ",\n{\"ph\":\"X\",\"name\":\"" + json_escaped(event.name) + event.suffix +
           "\",\"pid\":" + std::to_string(rank_) + ",\"tid\":" + std::to_string(lane) + ',' + times;
  if (!event.notes.empty()) text_ += ",\"args\":{" + event.notes + '}';
  text_ += '}';
}

bool TraceFile::write() {
  const std::string text = std::exchange(text_, {});
  if (!failure_.empty()) return false;
  if (text.empty()) return true;
  if (put(text + end, size_)) {
    size_ += static_cast<off_t>(text.size());
    return true;
  }
  failure_ = explain_file_error(errno);
  // After a failed write, restores the end of the file. That overwrites only bytes that already belong to the file.
  if (size_ > 0 && (!put(end, size_) || ::ftruncate(file_, size_ + static_cast<off_t>(end.size())) != 0))
    failure_ += ". Its end is not valid JSON";
  return false;
}

void TraceFile::close() {
  write();
  if (::close(std::exchange(file_, -1)) != 0 && failure_.empty()) failure_ = explain_file_error(errno);
  TANDEM_CHECK(failure_.empty(), "the profile ", path_, " contains only the ranges before this error: ", failure_);
}

bool TraceFile::put(const std::string& text, off_t at) {
  return write_all(file_, text.data(), text.size(), at) == text.size();
}

}  // namespace tandem::detail
