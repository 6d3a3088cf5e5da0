// FileStore: a Store in a file that all ranks can open, for jobs without a server: one host, or a shared file system.
#pragma once

#include <tandem/distributed/store/store.h>
#include <tandem/distributed/store/table.h>
#include <tandem/distributed/system/socket.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace tandem::distributed {

// The file is a log of what was set and deleted, in the layout of PyTorch's FileStore (u32 length and bytes of the key,
// then of the value; a deleted key has a "-" in front), so that Python processes may join. Every change is made under
// flock(2); what a process was writing when it died is cut off by the next writer. Values are found by reading on from
// time to time: a wait sees a new value within 20 ms. Keys of an earlier job stay until somebody removes the file:
// connect_store puts a prefix before every key that no earlier job has used.
class FileStore final : public Store {
 public:
  struct Options {
    std::string path;  // made where it does not exist; its folder must
    Timeout timeout = default_timeout;
    bool removes_file = false;  // when this store is destroyed; those that have it open may go on
  };

  // Error when the file cannot be opened, or holds something else than a store.
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
  void read_on();
  void apply(const std::string& key, const std::string& value);
  void write(const std::string& key, const std::string& value);
  // change() with the file locked and read to its end. Until the deadline for a lock.
  template <class Change>
  auto locked(int operation, Deadline deadline, Change&& change);

  const Options options_;
  std::mutex mutex_;
  FileDescriptor file_;
  std::int64_t position_ = 0;  // up to which table_ knows the file
  StoreTable table_;           // keys as in the file, with "/" in front
};

}  // namespace tandem::distributed
