#include <tandem/core/base/check.h>
#include <tandem/distributed/groups/nccl/nccl_communicator.h>

#include <chrono>
#include <future>
#include <thread>
#include <utility>

namespace tandem::distributed {
namespace {

const char* advice(ncclResult_t result) {
  switch (result) {
    case ncclUnhandledCudaError: return ". NCCL_DEBUG=WARN shows the CUDA call";
    case ncclSystemError:
      return ". NCCL_DEBUG=WARN shows the system call; NCCL_SOCKET_IFNAME chooses the network interface, and "
             "containers need room in /dev/shm";
    case ncclInvalidUsage:
      return ". Two processes with one GPU need NCCL 2.30 and NCCL_MULTI_RANK_GPU_ENABLE=1; NCCL_DEBUG=WARN "
             "says more";
    case ncclRemoteError: return ": a peer or the connection to it is gone";
    default: return ". NCCL_DEBUG=WARN says more";
  }
}

std::string text_of(ncclComm_t communicator, ncclResult_t result) {
  std::string text = std::string("NCCL: ") + ncclGetErrorString(result);
  const char* last = ncclGetLastError(communicator);
  if (last && *last) text += std::string(" (") + last + ")";
  return text + advice(result);
}

bool is_error(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

}  // namespace

ncclUniqueId make_nccl_id() {
  ncclUniqueId id;
  const auto result = ncclGetUniqueId(&id);
  TANDEM_CHECK(!is_error(result), "ncclGetUniqueId: ", text_of(nullptr, result));
  return id;
}

NcclCommunicator::NcclCommunicator(int rank, int size, const ncclUniqueId& id,
                                   const std::function<void()>& keep_waiting) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const auto result = ncclCommInitRankConfig(&communicator_, size, id, rank, &config);
  ncclComm_t blocking = nullptr;  // NCCL may write it until the communicator that is being split has ended
  try {
    TANDEM_CHECK(!is_error(result), text_of(communicator_, result));
    await("connecting the GPUs", keep_waiting);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 0)
    become_blocking(rank, blocking, keep_waiting);
#endif
  } catch (...) {
    abort();  // a constructor that throws runs no destructor
    if (blocking) ncclCommAbort(blocking);
    throw;
  }
}

// A non-blocking communicator starts a host thread for each operation. That pays off only at the beginning, when peers
// may be missing. So the communicator is replaced by a blocking one. The split itself does not block, because the
// original communicator does not.
void NcclCommunicator::become_blocking([[maybe_unused]] int rank, [[maybe_unused]] ncclComm_t& blocking,
                                       [[maybe_unused]] const std::function<void()>& keep_waiting) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 0)
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  const auto result = ncclCommSplit(communicator_, 0, rank, &blocking, &config);
  TANDEM_CHECK(!is_error(result), text_of(communicator_, result));
  await("connecting the GPUs", keep_waiting);
  close(keep_waiting);
  const std::lock_guard lock(mutex_);
  communicator_ = std::exchange(blocking, nullptr);
  blocks_ = true;
#endif
}

void NcclCommunicator::run(const char* what, const std::function<ncclResult_t(ncclComm_t)>& enqueue,
                           const std::function<void()>& keep_waiting) {
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard one_call(calls_);
    result = enqueue(current(what));  // may wait for peers; abort() ends that wait
  }
  if (result == ncclInProgress) return await(what, keep_waiting);
  TANDEM_CHECK(!is_error(result), what, ": ", text_of(nullptr, result));
}

ncclComm_t NcclCommunicator::current(const char* what) {
  const std::lock_guard lock(mutex_);
  TANDEM_CHECK(communicator_, what, ": the communicator was aborted");
  return communicator_;
}

// NCCL is usually done within microseconds, but connecting takes long. The first polls therefore follow each other
// quickly.
void NcclCommunicator::await(const char* what, const std::function<void()>& keep_waiting) {
  constexpr int brief_looks = 200;
  for (int looks = 0;; ++looks) {
    {
      const std::lock_guard lock(mutex_);
      TANDEM_CHECK(communicator_, what, ": the communicator was aborted");
      ncclResult_t state = ncclSuccess;
      const auto result = ncclCommGetAsyncError(communicator_, &state);
      if (is_error(result)) state = result;
      TANDEM_CHECK(!is_error(state), what, ": ", text_of(communicator_, state));
      if (state == ncclSuccess) return;
    }
    keep_waiting();
    if (looks < brief_looks) std::this_thread::yield();
    else std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

std::string NcclCommunicator::error() {
  const std::lock_guard lock(mutex_);
  if (!communicator_) return "";
  ncclResult_t state = ncclSuccess;
  const auto result = ncclCommGetAsyncError(communicator_, &state);
  if (is_error(result)) state = result;
  return is_error(state) ? text_of(communicator_, state) : "";
}

void* NcclCommunicator::remember([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
  void* handle = nullptr;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
  const std::lock_guard one_call(calls_);
  const std::lock_guard lock(mutex_);
  // Registration only saves a copy, so a failure is not an error.
  if (communicator_ && is_error(ncclCommRegister(communicator_, data, bytes, &handle))) handle = nullptr;
#endif
  return handle;
}

void NcclCommunicator::forget([[maybe_unused]] void* handle) noexcept {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
  const std::lock_guard lock(mutex_);
  if (communicator_ && handle) ncclCommDeregister(communicator_, handle);
#endif
}

// ncclCommFinalize may wait for peers too. Another thread calls it, so this thread can give up.
void NcclCommunicator::close(const std::function<void()>& keep_waiting) {
  {
    auto finalized = std::async(std::launch::async, [this] {
      const std::lock_guard one_call(calls_);
      return ncclCommFinalize(current("leaving"));  // under the lock: abort() may have come first
    });
    try {
      while (finalized.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) keep_waiting();
    } catch (...) {
      abort();
      throw;
    }
    if (is_error(finalized.get())) return;
  }
  await("leaving", keep_waiting);
  const std::lock_guard lock(mutex_);
  if (communicator_) ncclCommDestroy(std::exchange(communicator_, nullptr));
}

// Another thread may be in a call that waits for peers, and ncclCommAbort frees memory that this call uses. If NCCL can
// revoke a communicator, abort() revokes it first. The call then ends, and abort() waits for that.
void NcclCommunicator::abort() noexcept {
  ncclComm_t communicator = nullptr;
  [[maybe_unused]] bool blocks = false;
  {
    const std::lock_guard lock(mutex_);
    communicator = std::exchange(communicator_, nullptr);
    blocks = blocks_;
  }
  if (!communicator) return;
  std::unique_lock left(calls_, std::defer_lock);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 9)
  if (blocks) ncclCommRevoke(communicator, NCCL_REVOKE_DEFAULT);
  static_cast<void>(left.try_lock_for(std::chrono::seconds(10)));  // fails only if NCCL hangs; aborting may end that
#endif
  ncclCommAbort(communicator);
}

}  // namespace tandem::distributed
