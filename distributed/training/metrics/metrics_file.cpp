#include <tandem/core/base/check.h>
#include <tandem/core/base/utf8.h>
#include <tandem/core/base/write_all.h>
#include <tandem/core/io/file_system.h>
#include <tandem/distributed/training/metrics/metrics_file.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

namespace tandem::distributed {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The JSON library finds this function by its name.
static void to_json(Json& json, const Table& table) {
  Json columns = Json::object();
  for (std::size_t i = 0; i < table.columns.size(); ++i) columns[utf8_escaped(table.columns[i])] = table.values.at(i);
  Json rows = Json::array();
  for (const auto& row : table.rows) rows.push_back(utf8_escaped(row));
  json = {{"rows", rows}, {"columns", columns}};
}

namespace {

// How long a write waits for the reader of a full pipe.
constexpr int patience_ms = 5000;

// The beginning of every line.
const std::string beginning = R"({"kind":")";

// Returns whether a line was written after a checkpoint with these numbers of finished epochs and steps.
bool is_later(const std::string& text, std::int64_t epoch, std::int64_t step) {
  const Json line = Json::parse(text, nullptr, false);
  if (!line.is_object()) return false;
  // Another program may write its own lines to the file.
  const auto is = [&](const char* kind) { return line.contains("kind") && line["kind"] == kind; };
  const auto is_above = [&](const char* name, std::int64_t least) {
    return line.contains(name) && line[name].is_number_integer() && line[name].get<std::int64_t>() > least;
  };
  return is("epoch") ? is_above("epoch", epoch - 1) : (is("step") || is("evaluation")) && is_above("step", step);
}

// Returns whether the last line of a regular file is incomplete.
bool ends_within_line(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) == 0) return false;
  std::ifstream file(path, std::ios::binary);
  file.seekg(-1, std::ios::end);
  return file.get() != '\n';
}

}  // namespace

void MetricsFile::open(const std::string& path) {
  if (path.empty()) return;
  path_ = path;
  check_entries(path);
  // Opening a pipe without a reader would block, and so would writing to a full one. With O_NONBLOCK, both fail.
  file_ = FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666));
  TANDEM_CHECK(file_.is_open(), "can't write the metrics file ", path, ": ",
               errno == ENXIO ? "it is a pipe without a reader; start the reader first" : explain_file_error(errno));
  TANDEM_CHECK(::flock(file_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK || !fs::is_regular_file(path),
               "can't write the metrics file ", path, ": another job is writing it; give each job a file of its own");
}

void MetricsFile::write(const std::string& kind, const std::vector<Number>& numbers,
                        const std::vector<Metric>& metrics) {
  if (path_.empty()) return;
  const std::string end = std::exchange(is_new_, false) && ends_within_line(path_) ? "\n" : "";
  Json line = {{"kind", kind}};
  const auto add = [&](const std::string& name, const auto& value) {
    std::visit([&](const auto& v) { line[utf8_escaped(name)] = v; }, value);
  };
  for (const auto& [name, value] : numbers) add(name, value);
  for (const auto& metric : metrics) add(metric.name, metric.value);
  append(end + line.dump() + '\n');
}

void MetricsFile::append(std::string_view text) {
  const auto write = [&] { text.remove_prefix(write_all(file_.get(), text.data(), text.size())); };
  write();
  while (!text.empty() && errno == EAGAIN) {
    pollfd room{file_.get(), POLLOUT, 0};
    TANDEM_CHECK(::poll(&room, 1, patience_ms) != 0, "can't write the metrics file ", path_,
                 ": it is a pipe, and its reader has read nothing for ", patience_ms / 1000, " s");
    write();
  }
  TANDEM_CHECK(text.empty(), "can't write the metrics file ", path_, ": ", explain_file_error(errno));
}

void MetricsFile::cut_back(std::int64_t epoch, std::int64_t step) {
  std::error_code error;
  if (path_.empty() || !fs::is_regular_file(path_, error)) return;
  std::ifstream file(path_, std::ios::binary);
  std::uintmax_t end = 0, kept = 0;  // the number of bytes read, and how many of them to keep
  for (std::string line; std::getline(file, line);) {
    const bool is_whole = !file.eof();
    end += line.size() + is_whole;
    if (is_whole ? !is_later(line, epoch, step) : !line.starts_with(beginning.substr(0, line.size()))) kept = end;
  }
  if (kept == fs::file_size(path_, error) || error) return;
  fs::resize_file(path_, kept, error);
  TANDEM_CHECK(!error, "can't shorten the metrics file ", path_, ": ", error.message());
}

}  // namespace tandem::distributed
