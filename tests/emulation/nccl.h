// Emulates NCCL with ranks that are threads of one process with emulated GPUs. This header replaces NCCL's, as far as
// distributed/groups/nccl/ uses it. A stream that reaches an operation waits until the streams of all other ranks have
// reached theirs.
//
// Tests with this emulation check whether all ranks issue the same calls in the same order with the right arrays, what
// happens if a rank fails or does not arrive, and which calls of NCCL are made and when. They can't test NCCL itself.
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

// The state, which a test can read and change.
struct Nccl {
  std::vector<std::string> log;  // such as "all_reduce 1000 on rank 0", "register", "abort"
  int failing_rank = -1;         // from now on, this rank's communicator reports `failure`; -1: none
  ncclResult_t failure = ncclRemoteError;
  // The number of threads so far. A communicator that does not block starts one for each operation, or for each group
  // of operations.
  int threads_started = 0;
  int absent_rank = -1;             // this rank does not arrive at new communicators; -1: none
  bool absent_from_splits = false;  // the rank arrives at first, but not when communicators are split
};
// Returns a copy of the state, made under the emulation's lock.
Nccl nccl_state();
void set_nccl_absent(int rank, bool from_splits = false);  // -1: none
void set_nccl_failure(int rank, ncclResult_t failure);     // rank -1: none
void clear_nccl_log();

}  // namespace emulation
