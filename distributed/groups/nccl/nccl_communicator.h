// NcclCommunicator: NCCL's view of the ranks of a group, used so that no call of it can block forever.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

namespace tandem::distributed {

// The ranks are connected without blocking, and looked after here until that is done: `keep_waiting` is called between
// two looks and throws to give up. From then on calls block, as long as NCCL takes to put an operation into its stream;
// the first operation of a kind may wait for peers there. A thread that gives up such a call from outside calls
// abort(), which takes effect while another thread is in run() or close(). NCCL's own mistakes and those of peers are
// Errors with NCCL's words. Any thread may call any method.
class NcclCommunicator {
 public:
  // Connects this thread's current GPU with those of the other ranks. `id` is ncclGetUniqueId's of one of them.
  NcclCommunicator(int rank, int size, const ncclUniqueId& id, const std::function<void()>& keep_waiting);
  ~NcclCommunicator() { abort(); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // Calls `enqueue`, which issues one operation, or several between ncclGroupStart and ncclGroupEnd. On return it is in
  // its stream.
  void run(const char* what, const std::function<ncclResult_t(ncclComm_t)>& enqueue,
           const std::function<void()>& keep_waiting);

  // The error since the ranks were connected, in NCCL's words. Empty if there was none.
  std::string error();

  // Tells NCCL that this memory will be used again and again, which saves it a copy where the connection allows that.
  // Returns what forget() wants; null where there is nothing to gain.
  void* remember(void* data, std::size_t bytes);
  void forget(void* handle) noexcept;

  // The orderly end, when no operation is under way. Then nothing but the destructor may be called.
  void close(const std::function<void()>& keep_waiting);
  // Ends it at once: what runs on the GPU stops, with undefined results, and a thread that waits in run() gets an
  // Error.
  void abort() noexcept;

 private:
  void become_blocking(int rank, ncclComm_t& blocking, const std::function<void()>& keep_waiting);
  ncclComm_t current(const char* what);
  void await(const char* what, const std::function<void()>& keep_waiting);

  std::timed_mutex calls_;             // NCCL allows one call at a time, beside abort() and looks at its state
  std::mutex mutex_;                   // taken after calls_, and never for long
  ncclComm_t communicator_ = nullptr;  // guarded by mutex_; null once it has been aborted or closed
  bool blocks_ = false;                // guarded by mutex_; whether a call of the communicator may wait for peers
};

// For the rank that makes the id for all.
ncclUniqueId make_nccl_id();

}  // namespace tandem::distributed
