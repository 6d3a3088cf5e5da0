// FileStore: a Store in a file that all ranks can open, for jobs without a server: one host, or a shared file system.
#pragma once

#include <tandem/distributed/store/store.h>
#include <tandem/distributed/store/table.h>
#include <tandem/distributed/system/socket.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace tandem::distributed {

// The file is a log of what was set and deleted. Its layout is that of PyTorch's FileStore, so that Python processes
// may join: the key as a u32 length and the bytes, then the value in the same form; a deleted key has a "-" in front. A
// process changes the file only under flock(2). If a process dies while it writes, the next writer cuts its unfinished
// record off. A log that has grown long is rewritten as another file that takes its name. Its first record is then a
// mark (a key that is deleted and never existed) with a random text. The old file ends with the same mark, so that
// processes that have it open look for the new one. A wait reads the file again after a pause of at most 20 ms. Keys of
// an earlier job stay until the file is removed; connect_store therefore puts a prefix before every key that no earlier
// job has used.
class FileStore final : public Store {
 public:
  struct Options {
    std::string path;  // the file is made if it does not exist; its folder must exist
    Timeout timeout = default_timeout;
    bool removes_file = false;  // when this store is destroyed; processes that have the file open may go on
    // From this size on, a log that is mostly out of date is rewritten, unless Python processes have joined, which
    // would not find the new one. Chosen: quick to read, and seldom reached.
    std::int64_t longest_log = 16 << 20;  // bytes
  };

  // Makes the file accessible to this user alone (mode 0600). Error when the file cannot be opened or holds something
  // else than a store, is a symbolic link, belongs to another user, or may be written to by other users.
  explicit FileStore(const Options& options);
  ~FileStore() override;

  using Store::wait;
  Timeout timeout() const override { return options_.timeout; }
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  void append(const std::string& key, const std::string& value) override;
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override;
  bool delete_key(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, Timeout timeout) override;

 private:
  void open();
  void lock(int operation, Deadline deadline) const;
  // All of these need mutex_ (but in the constructor) and a lock of the file; write() and shorten() need the exclusive
  // lock.
  void read_on();
  bool read_piece(std::size_t bytes_left);
  void apply(const std::string& key, const std::string& value);
  void write(const std::string& key, const std::string& value);
  void shorten();
  bool follow();
  // Locks mutex_ and the file (`operation` as in flock), reads the file to its end and returns change(). Error if the
  // file is not locked by the deadline.
  template <class Change>
  auto locked(int operation, Deadline deadline, Change&& change);

  const Options options_;
  std::mutex mutex_;
  // Guarded by mutex_.
  FileDescriptor file_;
  std::int64_t position_ = 0;  // table_ holds the file's records up to this offset
  StoreTable table_;           // with keys as they are in the file: with "/" in front
  std::string identity_;       // the text of the mark that the log begins with; empty: it was not rewritten
  std::string moved_to_;       // the identity of the log that took this one's place; empty: none did
  std::int64_t next_look_ = options_.longest_log;  // at this size write() looks whether the log can be shortened
};

}  // namespace tandem::distributed
