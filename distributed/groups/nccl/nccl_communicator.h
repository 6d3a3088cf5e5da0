// NcclCommunicator: NCCL's view of the ranks of a group. It ensures that no NCCL call blocks forever.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

namespace tandem::distributed {

// The constructor connects the ranks with non-blocking calls, and polls NCCL until the ranks are connected. Between two
// polls it calls `keep_waiting`, which throws to give up. Later calls block until NCCL has put an operation into its
// stream. The first operation of a kind may wait for peers there. Another thread can end such a call with abort(),
// which takes effect while a thread is in run() or close(). Failures of NCCL and of peers are Errors with NCCL's text.
// Any thread may call any method.
class NcclCommunicator {
 public:
  // Connects this thread's current GPU with the GPUs of the other ranks. `id` is the result of make_nccl_id() on one
  // rank.
  NcclCommunicator(int rank, int size, const ncclUniqueId& id, const std::function<void()>& keep_waiting);
  ~NcclCommunicator() { abort(); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // Calls `enqueue`, which issues one operation, or several between ncclGroupStart and ncclGroupEnd. When run()
  // returns, they are in their stream.
  void run(const char* what, const std::function<ncclResult_t(ncclComm_t)>& enqueue,
           const std::function<void()>& keep_waiting);

  // Returns NCCL's text for an error since the ranks were connected, or an empty string if there was none.
  std::string error();

  // Registers memory that will be used repeatedly. If the connection allows it, NCCL then saves a copy. Returns the
  // handle for forget(), or null if NCCL did not register the memory.
  void* remember(void* data, std::size_t bytes);
  void forget(void* handle) noexcept;

  // Ends the communicator in order, when no operation is running. Afterwards only the destructor may be called.
  void close(const std::function<void()>& keep_waiting);
  // Ends the communicator at once. Operations on the GPU stop, with undefined results, and run() throws an Error in a
  // thread that waits in it.
  void abort() noexcept;

 private:
  void become_blocking(int rank, ncclComm_t& blocking, const std::function<void()>& keep_waiting);
  ncclComm_t current(const char* what);
  void await(const char* what, const std::function<void()>& keep_waiting);

  std::timed_mutex calls_;             // NCCL allows one call at a time, except abort() and polls of its state
  std::mutex mutex_;                   // locked after calls_, and never for long
  ncclComm_t communicator_ = nullptr;  // guarded by mutex_; null once it has been aborted or closed
  bool blocks_ = false;                // guarded by mutex_; whether a call of the communicator may wait for peers
};

// Makes the id that one rank passes to all ranks.
ncclUniqueId make_nccl_id();

}  // namespace tandem::distributed
