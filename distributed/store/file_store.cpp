#include <tandem/core/base/check.h>
#include <tandem/core/base/write_all.h>
#include <tandem/core/io/lock_file.h>
#include <tandem/core/io/temporary_file.h>
#include <tandem/distributed/store/file_store.h>
#include <tandem/distributed/store/tcp_store_protocol.h>
#include <tandem/distributed/system/random_text.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;

constexpr char deleted_mark = '-';
constexpr const char* moved_mark = "-tandem/moved";
constexpr const char* python_key = "refcount/";                     // counts the processes with PyTorch's FileStore
constexpr std::size_t max_key_bytes = protocol::max_key_bytes + 1;  // with deleted_mark
// The size of the pieces in which the log is read. The largest record fits into a piece.
constexpr std::size_t piece_bytes = std::size_t{32} << 20;
static_assert(piece_bytes > 2 * sizeof(std::uint32_t) + max_key_bytes + protocol::max_value_bytes);

std::string file_key(const std::string& key) {
  TANDEM_CHECK(key.size() < protocol::max_key_bytes, "store: a key may have at most ", protocol::max_key_bytes - 1,
               " bytes, got ", key.size());
  return protocol::user_prefix + key;
}

// PyTorch's FileStore keeps two counters, "refcount/" and "cleanup/", next to the users' keys.
bool is_store_key(std::string_view key) {
  return key.starts_with(protocol::user_prefix) || key.starts_with(deleted_mark) || key == python_key ||
         key == "cleanup/";
}

void append_text(std::string& record, const std::string& text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  record.append(reinterpret_cast<const char*>(&size), sizeof size);
  record += text;
}

std::string record_of(const std::string& key, const std::string& value) {
  std::string record;
  append_text(record, key);
  append_text(record, value);
  return record;
}

// The pause between two reads of the file. It is 1 ms at first, because most waits are short, and grows to 20 ms. A
// long wait then uses little processor time, and ends at most 20 ms late.
class Pause {
 public:
  void sleep(Deadline deadline) {
    std::this_thread::sleep_for(std::min<RunningTime::duration>(next_slice(deadline), length_));
    length_ = std::min(length_ * 2, milliseconds(20));
  }

 private:
  milliseconds length_{1};
};

}  // namespace

FileStore::FileStore(const Options& options) : options_(options) {
  const auto deadline = RunningTime::now() + options_.timeout;
  for (;;) {
    open();
    lock(LOCK_SH, deadline);
    // Between open() and lock(), a process of an earlier job may have ended and removed the file. This job then needs a
    // new file.
    struct stat mine {
    }, there{};
    const bool is_current = fstat(file_.get(), &mine) == 0 && lstat(options_.path.c_str(), &there) == 0 &&
                            mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
    if (is_current) break;
  }
  read_on();
  flock(file_.get(), LOCK_UN);
  // PyTorch makes its file readable for all users.
  TANDEM_CHECK(fchmod(file_.get(), 0600) == 0, "store: cannot make the file ", options_.path,
               " private (chmod 600): ", std::strerror(errno));
}

FileStore::~FileStore() {
  if (options_.removes_file) ::unlink(options_.path.c_str());
}

// A user who can write to the file can control the job. In a folder that is writable for all users, another user may
// have created a file, a link or a pipe under the store's name.
void FileStore::open() {
  file_ = FileDescriptor(::open(options_.path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  TANDEM_CHECK(file_.is_open() || errno != ELOOP, "store: ", options_.path,
               " is a symbolic link: give the file that it points to, or remove it");
  TANDEM_CHECK(file_.is_open(), "store: cannot open the file ", options_.path, ": ", std::strerror(errno));
  struct stat status {};
  TANDEM_CHECK(fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode), "store: ", options_.path,
               " is not a regular file");
  TANDEM_CHECK(status.st_uid == geteuid(), "store: the file ", options_.path, " belongs to the user ", status.st_uid,
               ", but this process runs as ", geteuid(), ": give a file in a folder that no other user can write to");
  TANDEM_CHECK((status.st_mode & (S_IWGRP | S_IWOTH)) == 0, "store: other users may write to the file ", options_.path,
               ": remove it, or revoke their permission (chmod 600)");
}

void FileStore::lock(int operation, Deadline deadline) const {
  for (Pause pause; flock(file_.get(), operation | LOCK_NB) != 0; pause.sleep(deadline)) {
    TANDEM_CHECK(errno == EWOULDBLOCK || errno == EINTR, "store: cannot lock the file ", options_.path, ": ",
                 std::strerror(errno), " (if the file system has no locks, choose another folder)");
    TANDEM_CHECK(RunningTime::now() < deadline, "store: ", lock_holder(options_.path), " keeps the file ",
                 options_.path, " locked: it may be stopped");
  }
}

// Reads the records that were written since the last call. It ignores an unfinished record at the end, because the
// process that wrote it has died.
void FileStore::read_on() {
  struct stat status {};
  TANDEM_CHECK(fstat(file_.get(), &status) == 0, "store: cannot read ", options_.path, ": ", std::strerror(errno));
  TANDEM_CHECK(status.st_size >= position_, "store: the file ", options_.path,
               " was truncated by something other than a store");
  while (read_piece(static_cast<std::size_t>(status.st_size - position_))) {
  }
}

// Reads at most `bytes_left` bytes. Returns whether the bytes that it did not read may hold more records.
bool FileStore::read_piece(std::size_t bytes_left) {
  std::string bytes(std::min(bytes_left, piece_bytes), '\0');
  for (std::size_t done = 0; done < bytes.size();) {
    const auto n =
        pread(file_.get(), bytes.data() + done, bytes.size() - done, position_ + static_cast<std::int64_t>(done));
    TANDEM_CHECK(n > 0 || (n < 0 && errno == EINTR), "store: cannot read ", options_.path, ": ",
                 n == 0 ? "it ends early" : std::strerror(errno));
    if (n > 0) done += static_cast<std::size_t>(n);
  }
  std::string_view rest = bytes;
  const auto take = [&](std::size_t limit) {
    std::uint32_t size = 0;
    if (rest.size() < sizeof size) throw protocol::Incomplete();
    std::memcpy(&size, rest.data(), sizeof size);
    TANDEM_CHECK(size <= limit, "store: the file ", options_.path,
                 " does not contain a store: give another file, or remove it");
    if (rest.size() - sizeof size < size) throw protocol::Incomplete();
    const auto text = rest.substr(sizeof size, size);
    rest.remove_prefix(sizeof size + size);
    return std::string(text);
  };
  try {
    while (!rest.empty()) {
      const auto before = rest.size();
      const auto key = take(max_key_bytes);
      TANDEM_CHECK(is_store_key(key), "store: the file ", options_.path,
                   " does not contain a store: give another file, or remove it");
      const auto value = take(protocol::max_value_bytes);
      apply(key, value);
      position_ += static_cast<std::int64_t>(before - rest.size());
    }
  } catch (const protocol::Incomplete&) {
  }
  return bytes.size() < bytes_left;
}

void FileStore::apply(const std::string& key, const std::string& value) {
  if (key == moved_mark) {
    (position_ == 0 ? identity_ : moved_to_) = value;
  } else if (key.front() == deleted_mark) {
    table_.erase(key.substr(1));
  } else {
    table_.set(key, value);
  }
}

// REQUIRES: the file is locked with LOCK_EX and has been read to its end.
void FileStore::write(const std::string& key, const std::string& value) {
  TANDEM_CHECK(value.size() <= protocol::max_value_bytes, "store: the value for key \"", key.substr(1), "\" has ",
               value.size(), " bytes, at most ", protocol::max_value_bytes, " are allowed");
  const std::string record = record_of(key, value);
  if (ftruncate(file_.get(), position_) != 0 ||
      write_all(file_.get(), record.data(), record.size(), position_) < record.size()) {
    const int reason = errno;
    [[maybe_unused]] const int undone = ftruncate(file_.get(), position_);
    table_ = {};  // table_ may hold a change that the file lacks, so the next call reads the whole file again
    position_ = 0;
    detail::fail("store: cannot write to the file ", options_.path, ": ", std::strerror(reason));
  }
  apply(key, value);
  position_ += static_cast<std::int64_t>(record.size());
  if (position_ >= next_look_) shorten();
}

// Rewrites the log without outdated records. If that fails, the log continues to grow, but no data is lost.
void FileStore::shorten() {
  next_look_ = 2 * position_;
  if (table_.contains(python_key)) return;
  const std::string identity = identity_.empty() ? random_text(4) : identity_;
  const std::string mark = record_of(moved_mark, identity);
  std::string log = mark;
  for (const auto& key : table_.keys()) log += record_of(key, table_.get(key));
  const auto size = static_cast<std::int64_t>(log.size());
  if (size > position_ / 2) return;
  std::filesystem::path temporary;
  FileDescriptor file(create_temporary(std::filesystem::absolute(options_.path).parent_path(), temporary));
  if (!file.is_open()) return;
  // Write the mark before the rename: a process that does not see the mark continues to write to this log.
  const bool is_done = fchmod(file.get(), 0600) == 0 &&
                       write_all(file.get(), log.data(), log.size(), 0) == log.size() &&
                       write_all(file_.get(), mark.data(), mark.size(), position_) == mark.size() &&
                       std::rename(temporary.c_str(), options_.path.c_str()) == 0;
  if (!is_done) {
    ::unlink(temporary.c_str());
    [[maybe_unused]] const int undone = ftruncate(file_.get(), position_);
    return;
  }
  file_ = std::move(file);  // closing the old file unlocks it
  position_ = size;
  identity_ = identity;
  next_look_ = std::max(options_.longest_log, 4 * size);
}

// Opens the log that replaced this one. Returns false if it no longer exists: the job has removed its file, and perhaps
// another job has created a new one. The remaining processes then continue with this log. Throws an Error if the file
// can't be read. The next call then tries again.
bool FileStore::follow() {
  const std::string mark = record_of(moved_mark, moved_to_);
  FileDescriptor file(::open(options_.path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::string begin(mark.size(), '\0');
  struct stat mine {
  }, there{};
  const bool is_known = file.is_open()
                            ? fstat(file_.get(), &mine) == 0 && fstat(file.get(), &there) == 0 &&
                                  (!S_ISREG(there.st_mode) || pread(file.get(), begin.data(), begin.size(), 0) >= 0)
                            : errno == ENOENT || errno == ELOOP;
  TANDEM_CHECK(is_known, "store: cannot read ", options_.path, ", which was rewritten: ", std::strerror(errno));
  moved_to_.clear();
  // If a process died before it renamed the new log, this log has the mark, but no log replaces it.
  if (begin != mark || (mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)) return false;
  file_ = std::move(file);
  position_ = 0;
  table_ = {};
  return true;
}

template <class Change>
auto FileStore::locked(int operation, Deadline deadline, Change&& change) {
  const std::lock_guard guard(mutex_);
  struct Unlock {
    const FileDescriptor& file;
    ~Unlock() { flock(file.get(), LOCK_UN); }
  } unlock{file_};
  do {
    lock(operation, deadline);
    read_on();
  } while (!moved_to_.empty() && follow());
  return change();
}

void FileStore::set(const std::string& key, const std::string& value) {
  locked(LOCK_EX, RunningTime::now() + timeout(), [&] { write(file_key(key), value); });
}

std::string FileStore::get(const std::string& key) {
  wait({key});
  return locked(LOCK_SH, RunningTime::now() + timeout(), [&] { return table_.get(file_key(key)); });
}

std::int64_t FileStore::add(const std::string& key, std::int64_t delta) {
  return locked(LOCK_EX, RunningTime::now() + timeout(), [&] {
    const auto sum = table_.add(file_key(key), delta);
    write(file_key(key), std::to_string(sum));
    return sum;
  });
}

void FileStore::append(const std::string& key, const std::string& value) {
  locked(LOCK_EX, RunningTime::now() + timeout(), [&] { write(file_key(key), table_.get(file_key(key)) + value); });
}

std::string FileStore::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  return locked(LOCK_EX, RunningTime::now() + timeout(), [&] {
    bool changed = false;
    const auto result = table_.compare_set(file_key(key), expected, desired, changed);
    if (changed) write(file_key(key), desired);
    return result;
  });
}

bool FileStore::delete_key(const std::string& key) {
  return locked(LOCK_EX, RunningTime::now() + timeout(), [&] {
    const auto name = file_key(key);
    const bool was_there = table_.contains(name);
    if (was_there) write(deleted_mark + name, "");
    return was_there;
  });
}

bool FileStore::check(const std::vector<std::string>& keys) {
  return locked(LOCK_SH, RunningTime::now() + timeout(), [&] {
    return std::all_of(keys.begin(), keys.end(), [&](const auto& key) { return table_.contains(file_key(key)); });
  });
}

void FileStore::wait(const std::vector<std::string>& keys, Timeout timeout) {
  const auto deadline = RunningTime::now() + timeout;
  for (Pause pause; !check(keys); pause.sleep(deadline)) {
    if (RunningTime::now() < deadline) continue;
    std::string missing;
    for (const auto& key : keys) {
      if (!check({key})) missing += (missing.empty() ? "\"" : ", \"") + key + "\"";
    }
    TANDEM_CHECK(missing.empty(), "store in the file ", options_.path, ": waited ",
                 std::chrono::duration<double>(timeout).count(), " s, but no process set ", missing);
  }
}

}  // namespace tandem::distributed

namespace tandem {

void add_file_store() {
  using namespace distributed;
  stores_at_paths.add([](std::filesystem::path path, std::string run_id, Store::Timeout timeout, bool is_owner) {
    if (std::filesystem::is_directory(path)) {
      auto name = run_id.empty() ? "store" : run_id;
      std::replace(name.begin(), name.end(), '/', '_');
      path /= "tandem_" + name;
    }
    return std::make_shared<FileStore>(FileStore::Options{path.string(), timeout, is_owner});
  });
}

}  // namespace tandem
