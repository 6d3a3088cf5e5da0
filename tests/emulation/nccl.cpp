#include <completion.h>
#include <nccl.h>
#include <tandem/core/base/check.h>
#include <tandem/distributed/groups/host/reduce_function.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace emulation {
namespace {

using tandem::DType;
using tandem::distributed::ReduceOp;

std::mutex nccl_mutex;
Nccl state;

// The part that one rank has in an operation.
struct Part {
  ncclComm_t communicator = nullptr;
  std::string call;  // "all_reduce 1000", equal on all ranks
  const void* from = nullptr;
  void* to = nullptr;
  std::shared_ptr<Completion> completion;
};

struct Collective {
  std::map<int, Part> parts;  // by rank
  std::function<void(const std::map<int, Part>&)> run;
};

struct World {
  int size = 0;
  int arrived = 0;
  std::map<std::uint64_t, Collective> collectives;  // by number
  // Messages whose other half has not come yet, by (from, to), in order.
  std::map<std::pair<int, int>, std::vector<Part>> sends, receives;
};

std::map<std::uint64_t, std::shared_ptr<World>> worlds;
std::uint64_t ids = 0;

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}

DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8: return DType::u8;
    case ncclFloat16: return DType::f16;
    case ncclBfloat16: return DType::bf16;
    case ncclInt32: return DType::i32;
    case ncclInt64: return DType::i64;
    case ncclFloat64: return DType::f64;
    default: return DType::f32;
  }
}

ReduceOp reduce_op_of(ncclRedOp_t op) {
  constexpr ReduceOp ops[] = {ReduceOp::sum, ReduceOp::product, ReduceOp::max, ReduceOp::min, ReduceOp::mean};
  return ops[op];
}

// Reduces `count` elements over all ranks. They begin `offset` bytes behind the `from` of each part.
std::vector<char> reduced(const std::map<int, Part>& parts, std::size_t offset, std::size_t count, ncclDataType_t type,
                          ncclRedOp_t op) {
  std::vector<const void*> sources;
  for (const auto& [rank, part] : parts) sources.push_back(static_cast<const char*>(part.from) + offset);
  std::vector<char> result(count * size_of(type));
  tandem::distributed::reduce_function(dtype_of(type), reduce_op_of(op))(result.data(), sources.data(),
                                                                         static_cast<int>(sources.size()), count);
  return result;
}

struct Issued {
  ncclComm_t communicator;
  cudaStream_t stream;
  std::function<void(std::shared_ptr<Completion>)> post;
};
thread_local int depth = 0;
thread_local std::vector<Issued> group;

}  // namespace
}  // namespace emulation

struct ncclComm {
  std::shared_ptr<emulation::World> world;
  int rank = 0;
  bool is_busy = false;  // the communicator says once after each call that it is busy
  std::uint64_t collectives = 0;
  std::vector<std::shared_ptr<emulation::Completion>> issued;
};

using namespace emulation;

namespace {

// Passes the calls that were issued to the peers as one. While a graph is recorded, that happens when the graph runs,
// and the graph then waits for them.
ncclResult_t flush() {
  auto calls = std::exchange(group, {});
  if (calls.empty()) return ncclSuccess;
  const ncclComm_t communicator = calls.front().communicator;
  const cudaStream_t stream = calls.front().stream;
  const auto post = [calls, communicator] {
    auto completion = std::make_shared<Completion>();
    completion->open = static_cast<int>(calls.size());
    const std::lock_guard lock(nccl_mutex);
    communicator->is_busy = true;
    communicator->issued.push_back(completion);
    for (const auto& call : calls) call.post(completion);
    return completion;
  };
  if (record([post] { wait_for(post()); })) return ncclInProgress;
  set_last(stream, post());
  return ncclInProgress;
}

ncclResult_t issue(ncclComm_t communicator, cudaStream_t stream,
                   std::function<void(std::shared_ptr<Completion>)> post) {
  group.push_back({communicator, stream, std::move(post)});
  return depth > 0 ? ncclSuccess : flush();
}

ncclResult_t issue_collective(std::string call, const void* from, void* to, ncclComm_t communicator,
                              cudaStream_t stream, std::function<void(const std::map<int, Part>&)> run) {
  return issue(communicator, stream, [=](std::shared_ptr<Completion> completion) {
    state.log.push_back(call + " on rank " + std::to_string(communicator->rank));
    World& world = *communicator->world;
    const auto number = ++communicator->collectives;
    auto& collective = world.collectives[number];
    for (const auto& [rank, part] : collective.parts) {
      // NCCL would hang here, or mix up numbers.
      TANDEM_CHECK(part.call == call, "emulated NCCL: rank ", rank, " issued ", part.call, ", rank ",
                   communicator->rank, " ", call);
    }
    collective.parts[communicator->rank] = {communicator, call, from, to, std::move(completion)};
    if (static_cast<int>(collective.parts.size()) < world.size) return;
    run(collective.parts);
    for (const auto& [rank, part] : collective.parts) complete(*part.completion);
    world.collectives.erase(number);
  });
}

ncclResult_t issue_message(bool sends, Part part, std::size_t bytes, int from, int to, cudaStream_t stream) {
  return issue(part.communicator, stream, [=](std::shared_ptr<Completion> completion) mutable {
    part.completion = std::move(completion);
    World& world = *part.communicator->world;
    auto& mine = (sends ? world.sends : world.receives)[{from, to}];
    auto& theirs = (sends ? world.receives : world.sends)[{from, to}];
    if (theirs.empty()) {
      mine.push_back(part);
      return;
    }
    const Part other = theirs.front();
    theirs.erase(theirs.begin());
    std::memcpy(sends ? other.to : part.to, sends ? part.from : other.from, bytes);
    complete(*part.completion);
    complete(*other.completion);
  });
}

std::string text(const char* name, std::size_t count) { return name + (" " + std::to_string(count)); }

void end(ncclComm_t communicator) {
  World& world = *communicator->world;
  for (auto& [number, collective] : world.collectives) collective.parts.erase(communicator->rank);
  for (auto* messages : {&world.sends, &world.receives}) {
    for (auto& [ends, parts] : *messages)
      std::erase_if(parts, [&](const Part& part) { return part.communicator == communicator; });
  }
  for (const auto& completion : communicator->issued) {
    while (!is_done(completion)) complete(*completion);
  }
  delete communicator;
}

}  // namespace

namespace emulation {

Nccl nccl_state() {
  const std::lock_guard lock(nccl_mutex);
  return state;
}
void set_nccl_failure(int rank, ncclResult_t failure) {
  const std::lock_guard lock(nccl_mutex);
  state.failing_rank = rank;
  state.failure = failure;
}
void set_nccl_absent(int rank) {
  const std::lock_guard lock(nccl_mutex);
  state.absent_rank = rank;
}
void clear_nccl_log() {
  const std::lock_guard lock(nccl_mutex);
  state.log.clear();
}

}  // namespace emulation

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(nccl_mutex);
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, &++ids, sizeof ids);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id, int rank, ncclConfig_t*) {
  const std::lock_guard lock(nccl_mutex);
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  auto& world = worlds[number];
  if (!world) world = std::make_shared<World>();
  world->size = size;
  if (rank != state.absent_rank) ++world->arrived;
  *communicator = new ncclComm;
  (*communicator)->world = world;
  (*communicator)->rank = rank;
  return ncclInProgress;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclInProgress; }
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  const std::lock_guard lock(nccl_mutex);
  state.log.push_back("destroy");
  end(communicator);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  const std::lock_guard lock(nccl_mutex);
  state.log.push_back("abort");
  end(communicator);
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* result) {
  const std::lock_guard lock(nccl_mutex);
  if (communicator->rank == state.failing_rank) *result = state.failure;
  else if (communicator->world->arrived < communicator->world->size) *result = ncclInProgress;
  else *result = std::exchange(communicator->is_busy, false) ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited" : "as the test wished";
}
const char* ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclCommRegister(ncclComm_t communicator, void*, std::size_t, void** handle) {
  const std::lock_guard lock(nccl_mutex);
  state.log.push_back("register");
  *handle = communicator;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t, void*) {
  const std::lock_guard lock(nccl_mutex);
  state.log.push_back("deregister");
  return ncclSuccess;
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  return issue_collective(text("broadcast", count), from, to, communicator, stream, [=](const auto& parts) {
    for (const auto& [rank, part] : parts) std::memmove(part.to, parts.at(root).from, count * size_of(type));
  });
}
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t communicator, cudaStream_t stream) {
  return issue_collective(text("all_reduce", count), from, to, communicator, stream, [=](const auto& parts) {
    const auto result = reduced(parts, 0, count, type, op);
    for (const auto& [rank, part] : parts) std::memcpy(part.to, result.data(), result.size());
  });
}
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t communicator, cudaStream_t stream) {
  return issue_collective(text("reduce", count), from, to, communicator, stream, [=](const auto& parts) {
    const auto result = reduced(parts, 0, count, type, op);
    std::memcpy(parts.at(root).to, result.data(), result.size());
  });
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t communicator,
                           cudaStream_t stream) {
  return issue_collective(text("all_gather", count), from, to, communicator, stream, [=](const auto& parts) {
    const std::size_t bytes = count * size_of(type);
    for (const auto& [rank, part] : parts) {
      for (const auto& [other, theirs] : parts)
        std::memmove(static_cast<char*>(part.to) + static_cast<std::size_t>(other) * bytes, theirs.from, bytes);
    }
  });
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t communicator, cudaStream_t stream) {
  return issue_collective(text("reduce_scatter", count), from, to, communicator, stream, [=](const auto& parts) {
    const std::size_t bytes = count * size_of(type);
    for (const auto& [rank, part] : parts) {
      const auto result = reduced(parts, static_cast<std::size_t>(rank) * bytes, count, type, op);
      std::memcpy(part.to, result.data(), bytes);
    }
  });
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  Part part;
  part.communicator = communicator;
  part.from = from;
  return issue_message(true, part, count * size_of(type), communicator->rank, peer, stream);
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  Part part;
  part.communicator = communicator;
  part.to = to;
  return issue_message(false, part, count * size_of(type), peer, communicator->rank, stream);
}
ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() { return --depth > 0 ? ncclSuccess : flush(); }
