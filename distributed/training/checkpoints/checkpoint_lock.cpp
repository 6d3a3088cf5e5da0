#include <tandem/core/base/check.h>
#include <tandem/core/base/thread.h>
#include <tandem/core/base/write_all.h>
#include <tandem/core/io/atomic_file.h>
#include <tandem/core/io/file_system.h>
#include <tandem/core/io/lock_file.h>
#include <tandem/core/io/temporary_file.h>
#include <tandem/distributed/job/environment.h>
#include <tandem/distributed/system/host_identity.h>
#include <tandem/distributed/system/keyed_hash.h>
#include <tandem/distributed/training/checkpoints/checkpoint_lock.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;
using std::chrono::milliseconds;
using std::chrono::system_clock;

std::int64_t seconds_now() { return system_clock::to_time_t(system_clock::now()); }

// Returns the text of the file, or an empty string if it does not exist.
std::string read_text(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  std::array<char, 4096> text;
  const auto count = file.is_open() ? ::read(file.get(), text.data(), text.size()) : 0;
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

milliseconds changed_at(const struct stat& status) {
  return std::chrono::seconds(status.st_mtim.tv_sec) + milliseconds(status.st_mtim.tv_nsec / 1'000'000);
}

// Returns how long ago the file was changed, by the clock of the file system, which differs from the host's on a
// network file system. The function gets that clock's time from a new file. Returns nullopt if the file does not exist.
std::optional<milliseconds> age_of(const fs::path& path) {
  fs::path probe;
  const FileDescriptor file(create_temporary(path.parent_path(), probe));
  TANDEM_CHECK(file.is_open(), "can't write to the folder of checkpoints ", path.parent_path().string(), ": ",
               explain_file_error(errno));
  struct stat now {};
  struct stat then {};
  const bool knows_now = ::fstat(file.get(), &now) == 0;
  ::unlink(probe.c_str());
  if (!knows_now || ::lstat(path.c_str(), &then) != 0) return std::nullopt;
  return changed_at(now) - changed_at(then);
}

std::string age_text(std::int64_t seconds) {
  seconds = std::max<std::int64_t>(seconds, 0);
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} min", seconds / 60);
  return fmt::format("{} h", seconds / 3600);
}

// Returns whether no process holds the lock file. Another user may own the file, because being able to read it is
// enough.
bool is_left_behind(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

// Returns a hint that names the owner of the file, if that is another user.
std::string of_another_user(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || status.st_uid == ::geteuid()) return "";
  return fmt::format(
      ". The file belongs to the user {}: wait for the end of that user's job, or, if it is gone, remove "
      "the file",
      status.st_uid);
}

}  // namespace

LockOwner LockOwner::this_process() {
  const auto environment = read_environment(::getenv, false);
  // torchrun calls every run without a name "none".
  const std::string run_id = environment.run_id == "none" ? "" : environment.run_id;
  // Eight digits distinguish jobs, but don't help to guess the token.
  const std::string job =
      environment.store_token.empty() ? "" : keyed_hash(environment.store_token, "checkpoint lock").substr(0, 8);
  return {host_name(), ::getpid(), seconds_now(), ::getppid(), run_id, environment.restart_count, job};
}

bool LockOwner::restarts_run_of(const LockOwner& earlier) const {
  const bool is_same_run = !run_id.empty() && run_id == earlier.run_id;
  const bool has_same_launcher = host == earlier.host && launcher == earlier.launcher;
  return (is_same_run || has_same_launcher) && job == earlier.job && restarts > earlier.restarts;
}

std::optional<LockOwner> LockOwner::parse(const std::string& text) {
  const OrderedJson json = OrderedJson::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  bool is_sound = true;
  const auto whole = [&](const char* key) {
    const auto& value = json.at(key);
    const auto number = value.is_number_integer() ? value.get<std::int64_t>() : -1;
    is_sound = is_sound && number >= 0;
    return number;
  };
  try {
    LockOwner owner;
    json.at("host").get_to(owner.host);
    owner.pid = whole("pid");
    owner.started = whole("started");
    owner.launcher = whole("launcher");
    json.at("run_id").get_to(owner.run_id);
    owner.restarts = whole("restarts");
    json.at("job").get_to(owner.job);
    // Reject control characters, because the host's name is printed to terminals.
    for (const unsigned char letter : owner.host) is_sound = is_sound && letter >= ' ' && letter != 127;
    return is_sound ? std::optional(std::move(owner)) : std::nullopt;
  } catch (const OrderedJson::exception&) {
    return std::nullopt;
  }
}

std::string LockOwner::text() const {
  return OrderedJson{{"host", host},     {"pid", pid},           {"started", started}, {"launcher", launcher},
                     {"run_id", run_id}, {"restarts", restarts}, {"job", job}}
             .dump(-1, ' ', true, OrderedJson::error_handler_t::replace) +
         "\n";
}

std::string LockOwner::name() const {
  return fmt::format("process {} on host {}, which began {} ago", pid, host, age_text(seconds_now() - started));
}

CheckpointLock::CheckpointLock(const fs::path& folder, const LockOwner& owner, const Options& options)
    : folder_(folder), path_(folder / "checkpoint.lock"), owner_(owner), options_(options), text_(owner.text()) {
  if (options_.uses_flock) take_with_flock();
  else take_by_age();
  renewer_ = start_thread<std::jthread>("the thread that renews the lock of the checkpoints",
                                        [this](const std::stop_token& stop) { renew(stop); });
}

CheckpointLock::~CheckpointLock() {
  renewer_ = {};  // stops the thread and waits for its end
  if (read_text(path_) == text_) ::unlink(path_.c_str());
}

void CheckpointLock::take_with_flock() {
  while (true) {
    file_ = FileDescriptor(open_lock_file(path_));
    if (!file_.is_open()) {
      const int error_number = errno;
      if (error_number == EACCES && is_left_behind(path_) && ::unlink(path_.c_str()) == 0) continue;
      detail::fail("can't lock the folder of checkpoints with ", path_.string(), ": ", explain_file_error(error_number),
                   of_another_user(path_));
    }
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) {
      // The previous holder may have removed the file between open and flock.
      if (!is_at(path_, file_.get())) continue;
      TANDEM_CHECK(
          ::ftruncate(file_.get(), 0) == 0 && write_all(file_.get(), text_.data(), text_.size(), 0) == text_.size(),
          "can't write ", path_.string(), ": ", explain_file_error(errno));
      return;
    }
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      file_.close();
      return take_by_age();
    }
    // The holder writes its name right after locking the file.
    std::string found = read_text(path_);
    for (int i = 0; i < 50 && !LockOwner::parse(found) && is_at(path_, file_.get()); ++i) {
      std::this_thread::sleep_for(milliseconds(20));
      found = read_text(path_);
    }
    if (!is_at(path_, file_.get())) continue;
    refuse_or_take_over(found);
    ::unlink(path_.c_str());
  }
}

void CheckpointLock::take_by_age() {
  const std::string found = read_text(path_);
  const auto age = age_of(path_);
  // An empty file is not a lock, because take_with_flock() creates it.
  if (!found.empty() && age && *age < options_.patience) refuse_or_take_over(found);
  const auto write = [this] {
    AtomicFile file(path_);
    file.write(text_.data(), text_.size());
    file.commit();
  };
  write();
  // Another job may have made the same decision at the same time. The last job to write has the lock.
  std::this_thread::sleep_for(options_.renewal / 10);
  if (const auto now = read_text(path_); now != text_) refuse_or_take_over(now);
}

void CheckpointLock::refuse_or_take_over(const std::string& found) {
  const auto other = LockOwner::parse(found);
  if (other && owner_.restarts_run_of(*other)) return;
  // The process that holds the lock may not be the process that wrote the file.
  const bool is_held = file_.is_open();
  detail::fail(
      "another job is writing checkpoints into ", folder_.string(), ": ", other ? other->name() : "an unknown process",
      is_held ? ". The lock is held by " + lock_holder(path_) : "",
      ". Wait until that job has ended, or give another --checkpoint folder. If that job is gone",
      is_held ? ", or if the process that holds the lock does not belong to it" : "", ", remove ", path_.string());
}

void CheckpointLock::check() const {
  const auto found = read_text(path_);
  // If the file was removed and no other job has created it again, this job still has the folder.
  if (found.empty() || found == text_) return;
  const auto other = LockOwner::parse(found);
  TANDEM_CHECK(!other, "another job has taken over the checkpoints in ", folder_.string(), ": ", other->name());
}

void CheckpointLock::renew(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!wakes_.wait_for(lock, stop, options_.renewal, [&] { return stop.stop_requested(); })) {
    // A null time means the current time of the file system's own clock.
    if (read_text(path_) == text_) ::utimensat(AT_FDCWD, path_.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  }
}

}  // namespace tandem::distributed
