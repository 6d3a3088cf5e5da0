#include <tandem/core/base/check.h>
#include <tandem/core/base/utf8.h>
#include <tandem/core/base/write_all.h>
#include <tandem/core/io/event_file.h>
#include <tandem/core/io/file_system.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

namespace tandem {
namespace {

// --- CRC-32C (Castagnoli), masked as in TFRecord ---

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    table[i] = crc;
  }
  return table;
}
constexpr auto crc_table = make_crc_table();

std::uint32_t masked_crc(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc >> 8 ^ crc_table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

template <class T>
std::string fixed(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// --- protobuf: https://protobuf.dev/programming-guides/encoding. Fields with their default value are omitted. ---

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes += static_cast<char>(value);
}

std::string key(int field, int wire_type) { return varint(static_cast<std::uint64_t>(field << 3 | wire_type)); }

std::string field(int number, std::int64_t value) {
  return value == 0 ? "" : key(number, 0) + varint(static_cast<std::uint64_t>(value));
}
std::string field(int number, double value) { return key(number, 1) + fixed(value); }
std::string field(int number, std::string_view bytes) {
  return key(number, 2) + varint(bytes.size()) + std::string(bytes);
}
std::string field(int number, const std::vector<double>& values) {
  return field(number, std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)));
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

EventFile::EventFile(const std::filesystem::path& folder, std::function<double()> clock) : clock_(std::move(clock)) {
  create_folder(folder, "for event files");
  static std::atomic<unsigned> counter{0};
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%010lld", static_cast<long long>(clock_()));
  const std::string name =
      std::string("events.out.tfevents.") + seconds + "." + host_name() + "." + std::to_string(::getpid()) + ".";
  do {  // a process in another container may have the same id
    path_ = folder / (name + std::to_string(counter++));
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  } while (file_ < 0 && errno == EEXIST);
  TANDEM_CHECK(file_ >= 0, "can't write the event file ", path_.string(), ": ", explain_file_error(errno));
  add_event(0, field(3, "brain.Event:2"));
  flush();
}

EventFile::~EventFile() {
  try {
    flush();
  } catch (const Error&) {
    // A program that wants to see write errors calls flush().
  }
  ::close(file_);
}

void EventFile::add_event(std::int64_t step, const std::string& fields) {
  const std::string event = field(1, clock_()) + field(2, step) + fields;
  const std::string size = fixed(std::uint64_t{event.size()});
  pending_ += size + fixed(masked_crc(size)) + event + fixed(masked_crc(event));
}

void EventFile::add_value(const std::string& tag, std::int64_t step, const std::string& fields) {
  add_event(step, field(5, field(1, field(1, utf8_escaped(tag)) + fields)));
}

void EventFile::add_scalar(const std::string& tag, std::int64_t step, double value) {
  add_value(tag, step, key(2, 5) + fixed(static_cast<float>(value)));
}

void EventFile::add_restart(std::int64_t step) {
  constexpr std::int64_t start = 1;  // SessionLog.SessionStatus
  add_event(step, field(7, field(1, start)));
}

void EventFile::add_image(const std::string& tag, std::int64_t step, std::string_view png, int width, int height) {
  constexpr std::int64_t rgb = 3;
  add_value(tag, step,
            field(4, field(1, std::int64_t{height}) + field(2, std::int64_t{width}) + field(3, rgb) + field(4, png)));
}

void EventFile::add_text(const std::string& tag, std::int64_t step, std::string_view markdown) {
  constexpr std::int64_t string_type = 7;
  const std::string shape = field(2, field(1, std::int64_t{1}));  // one dimension, of size 1
  add_value(tag, step,
            field(8, field(1, string_type) + field(2, shape) + field(8, markdown)) +
                field(9, field(1, field(1, "text"))));  // the plugin that displays it
}

void EventFile::add_histogram(const std::string& tag, std::int64_t step, std::span<const float> values) {
  constexpr std::size_t buckets = 30;
  double low = HUGE_VAL, high = -HUGE_VAL, count = 0, sum = 0, squares = 0;
  for (const double v : values) {
    if (!std::isfinite(v)) continue;
    low = std::min(low, v);
    high = std::max(high, v);
    count += 1;
    sum += v;
    squares += v * v;
  }
  if (count == 0) low = high = 0;
  const double width = (high - low) / buckets;
  std::vector<double> limits(buckets), counts(buckets);
  for (std::size_t i = 0; i < buckets; ++i)
    limits[i] = i + 1 == buckets ? high : low + width * static_cast<double>(i + 1);
  for (const double v : values) {
    if (!std::isfinite(v)) continue;
    const auto bucket = width > 0 ? static_cast<std::size_t>((v - low) / width) : 0;
    counts[std::min(bucket, buckets - 1)] += 1;
  }
  add_value(tag, step,
            field(5, field(1, low) + field(2, high) + field(3, count) + field(4, sum) + field(5, squares) +
                         field(6, limits) + field(7, counts)));
}

void EventFile::flush() {
  const std::string bytes = std::exchange(pending_, {});  // after half a record, no later record could be read
  TANDEM_CHECK(write_all(file_, bytes.data(), bytes.size()) == bytes.size(), "can't write the event file ",
               path_.string(), ": ", explain_file_error(errno));
}

}  // namespace tandem
