// FileStore: a Store in a file that all ranks can open, on one host or on a shared file system. It needs no server.
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

// The file is a log of all keys that were set or deleted. It has the format of PyTorch's FileStore, so Python processes
// can join. A record is the key, as a u32 length and the bytes, followed by the value in the same form. A deleted key
// is prefixed with "-". A process changes the file only under flock(2). If a process dies while it writes, the next
// writer truncates its unfinished record. A process rewrites a log that has grown long as a new file, which replaces
// the old one. The first record of the new file is a mark: the deletion of a key that never existed, with a random
// text. The old file ends with the same mark, so processes that still have it open look for the new file. A wait reads
// the file repeatedly, with pauses of at most 20 ms. Keys of an earlier job stay until the file is removed. For this
// reason, connect_store() prefixes every key with a text that no earlier job has used.
class FileStore final : public Store {
 public:
  struct Options {
    std::string path;  // the file is created if it does not exist, but its folder must exist
    Timeout timeout = default_timeout;
    bool removes_file = false;  // when this store is destroyed; processes that have the file open can continue
    // From this size on, a log that is mostly outdated is rewritten. That does not happen if Python processes have
    // joined, because they would not find the new file. A log of this size is quick to read, and seldom reached.
    std::int64_t longest_log = 16 << 20;  // bytes
  };

  // Makes the file accessible to this user only (mode 0600). Throws an Error if the file can't be opened, does not
  // contain a store, is a symbolic link, belongs to another user, or is writable for other users.
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
  // REQUIRES, for all of these: mutex_ is locked (except in the constructor), and the file is locked. write() and
  // shorten() require the exclusive lock.
  void read_on();
  bool read_piece(std::size_t bytes_left);
  void apply(const std::string& key, const std::string& value);
  void write(const std::string& key, const std::string& value);
  void shorten();
  bool follow();
  // Locks mutex_ and the file (`operation` as in flock), reads the file to its end, and returns change(). Throws an
  // Error if the file can't be locked by the deadline.
  template <class Change>
  auto locked(int operation, Deadline deadline, Change&& change);

  const Options options_;
  std::mutex mutex_;
  // Guarded by mutex_.
  FileDescriptor file_;
  std::int64_t position_ = 0;  // table_ holds the file's records up to this offset
  StoreTable table_;           // its keys are prefixed with "/", as in the file
  std::string identity_;       // the text of the mark at the beginning of the log; empty: the log was not rewritten
  std::string moved_to_;       // the identity of the log that replaced this one; empty: it was not replaced
  std::int64_t next_look_ = options_.longest_log;  // at this size, write() checks whether the log can be shortened
};

}  // namespace tandem::distributed
