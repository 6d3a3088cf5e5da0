// NCCL over threads of one process, whose GPUs are emulated. This header stands in for that of NCCL, as far as
// distributed/groups/nccl/ uses it. A stream comes to an operation, and waits there until the streams of all other
// ranks have come to theirs.
//
// Tests with this emulation show whether all ranks issue the same calls in the same order with the right arrays, what
// happens when a rank fails or does not come, and what is asked of NCCL and when. They can't show NCCL itself.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <vector>

#define NCCL_VERSION(X, Y, Z) ((X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE NCCL_VERSION(2, 28, 9)

struct ncclComm;
using ncclComm_t = ncclComm*;
struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t {
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { 1 }

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum ncclRedOp_t { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg };
enum ncclDataType_t {
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt64 = 4,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9
};

ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* communicator, ncclConfig_t* config);
ncclResult_t ncclCommFinalize(ncclComm_t communicator);
ncclResult_t ncclCommDestroy(ncclComm_t communicator);
ncclResult_t ncclCommAbort(ncclComm_t communicator);
#define NCCL_REVOKE_DEFAULT 0x00
ncclResult_t ncclCommRevoke(ncclComm_t communicator, int flags);
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t communicator);
ncclResult_t ncclCommRegister(ncclComm_t communicator, void* data, std::size_t bytes, void** handle);
ncclResult_t ncclCommDeregister(ncclComm_t communicator, void* handle);

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream);
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t communicator, cudaStream_t stream);
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t communicator, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t communicator,
                           cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t communicator, cudaStream_t stream);
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();

namespace emulation {

// The state that a test can see and set.
struct Nccl {
  std::vector<std::string> log;  // "all_reduce 1000 on rank 0", "register", "abort"
  int failing_rank = -1;         // the communicator of this rank reports `failure` from now on; -1: none
  ncclResult_t failure = ncclRemoteError;
  // A communicator that does not block starts a thread for each operation, or for several of a group. So many so far.
  int threads_started = 0;
  int absent_rank = -1;             // this rank does not arrive when communicators are made; -1: none
  bool absent_from_splits = false;  // it is there at first, and does not arrive when they are split
};
// A copy of the state, made under the lock of the emulation.
Nccl nccl_state();
void set_nccl_absent(int rank, bool from_splits = false);  // -1: none
void set_nccl_failure(int rank, ncclResult_t failure);     // rank -1: none
void clear_nccl_log();

}  // namespace emulation
