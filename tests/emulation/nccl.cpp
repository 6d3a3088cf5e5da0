#include "device_memory.h"
#include "streams.h"

#include <nccl.h>
#include <tandem/core/base/check.h>
#include <tandem/distributed/groups/host/reduce_function.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

namespace emulation {
namespace {

using tandem::DType;
using tandem::distributed::ReduceOp;

std::mutex nccl_mutex;
std::condition_variable arrivals;
Nccl state;

struct World;

// The state of a communicator. Queued work keeps it alive.
struct Member {
  std::shared_ptr<World> world;
  int rank = 0;
  bool is_blocking = true;
  bool has_ended = false;  // or was revoked
  int callers = 0;         // threads in a call that may wait
  bool has_issued = false;
  bool is_busy = false;  // a communicator that does not block reports once after each call that it is busy
  std::uint64_t collectives = 0, splits = 0;
  std::vector<std::shared_ptr<Completion>> issued;
  std::atomic<int> recorded{0};  // the number of its operations in graphs
  // A split in progress: the new communicator, and the caller's pointer to it. NCCL sets the pointer when all ranks
  // have arrived, or when this communicator is aborted.
  ncclComm_t part = nullptr, *wanted_at = nullptr;

  void hand_over() {
    if (wanted_at) *std::exchange(wanted_at, nullptr) = part;
  }
};

// One rank's part of an operation.
struct Part {
  const Member* member = nullptr;
  std::string call;  // such as "all_reduce 1000"; equal on all ranks
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
  int arrived = 0;                                  // ranks that have made the communicator
  int connected = 0;                                // ranks that have issued an operation
  std::map<std::uint64_t, Collective> collectives;  // by number
  // Messages whose other side has not arrived yet, by (from, to), in order.
  std::map<std::pair<int, int>, std::vector<Part>> sends, receives;
};

std::map<std::uint64_t, std::shared_ptr<World>> worlds;
// The worlds that result from the n-th split of a world, by colour.
std::map<std::tuple<World*, std::uint64_t, int>, std::shared_ptr<World>> parts_of_worlds;
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

// NCCL's reduce_kernel.h uses fmax and fmin for floats, so a NaN is lost if the other operand is a number.
template <class C>
C extreme_of(C a, C b, ncclRedOp_t op) {
  if constexpr (std::is_floating_point_v<C>) return op == ncclMax ? std::fmax(a, b) : std::fmin(a, b);
  else return op == ncclMax ? std::max(a, b) : std::min(a, b);
}

// Reduces `count` elements over all ranks. They begin `offset` bytes after the `from` of each part.
std::vector<char> reduced(const std::map<int, Part>& parts, std::size_t offset, std::size_t count, ncclDataType_t type,
                          ncclRedOp_t op) {
  std::vector<const void*> sources;
  for (const auto& [rank, part] : parts) sources.push_back(static_cast<const char*>(part.from) + offset);
  std::vector<char> result(count * size_of(type));
  if (op == ncclMax || op == ncclMin) {
    tandem::dispatch(dtype_of(type), [&]<class T>(T) {
      using C = tandem::compute_t<T>;
      for (std::size_t i = 0; i < count; ++i) {
        C extreme = static_cast<C>(static_cast<const T*>(sources[0])[i]);
        for (const void* source : sources)
          extreme = extreme_of(extreme, static_cast<C>(static_cast<const T*>(source)[i]), op);
        reinterpret_cast<T*>(result.data())[i] = static_cast<T>(extreme);
      }
    });
    return result;
  }
  tandem::distributed::reduce_function(dtype_of(type), reduce_op_of(op))(result.data(), sources.data(),
                                                                         static_cast<int>(sources.size()), count);
  return result;
}

struct Issued {
  std::shared_ptr<Member> member;
  cudaStream_t stream;
  std::function<void(std::shared_ptr<Completion>)> post;
};
thread_local int depth = 0;
thread_local std::vector<Issued> group;

}  // namespace
}  // namespace emulation

struct ncclComm {
  std::shared_ptr<emulation::Member> member;
};

using namespace emulation;

namespace {

std::set<ncclComm_t> communicators;  // guarded by nccl_mutex; those that have not been freed

// The caller holds nccl_mutex. On hardware, a call of a communicator that has been freed corrupts memory.
std::shared_ptr<Member> member_of(ncclComm_t communicator, const char* call) {
  if (!communicators.contains(communicator)) die("%s: the communicator has been freed", call);
  return communicator->member;
}

// While an object exists, a thread is in a call of a communicator. The caller must hold nccl_mutex when it creates and
// destroys the object.
class InCall {
 public:
  explicit InCall(Member& member) : member_(member) { ++member_.callers; }
  ~InCall() { --member_.callers; }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  Member& member_;
};

// Returns the result of a successful call of a communicator.
ncclResult_t begun(const Member& member) { return member.is_blocking ? ncclSuccess : ncclInProgress; }

// Submits the calls issued so far as one operation. When their stream reaches it, the calls are passed to the peers,
// and the stream waits for the peers. A graph that contains the calls keeps the communicator in use.
ncclResult_t flush() {
  auto calls = std::exchange(group, {});
  if (calls.empty()) return ncclSuccess;
  const auto member = calls.front().member;
  const cudaStream_t stream = calls.front().stream;
  {
    std::unique_lock lock(nccl_mutex);
    const InCall call(*member);
    member->is_busy = !member->is_blocking;
    if (!member->is_blocking) ++state.threads_started;
    if (!std::exchange(member->has_issued, true)) ++member->world->connected;
    arrivals.notify_all();
    // The first operation connects the GPUs.
    if (member->is_blocking)
      arrivals.wait(lock, [&] { return member->world->connected == member->world->size || member->has_ended; });
    if (member->has_ended) return ncclInternalError;
  }
  std::shared_ptr<void> held;
  if (is_captured(stream)) {
    ++member->recorded;
    held = std::shared_ptr<void>(member.get(), [member](void*) { --member->recorded; });
  }
  submit(
      stream,
      [calls, member]() -> std::shared_ptr<Completion> {
        const std::lock_guard lock(nccl_mutex);
        if (member->has_ended) return nullptr;
        auto completion = std::make_shared<Completion>();
        completion->open = static_cast<int>(calls.size());
        member->issued.push_back(completion);
        for (const auto& call : calls) call.post(completion);
        return completion;
      },
      std::move(held));
  return begun(*member);
}

ncclResult_t issue(ncclComm_t communicator, cudaStream_t stream,
                   std::function<void(std::shared_ptr<Completion>)> post) {
  {
    const std::lock_guard lock(nccl_mutex);
    group.push_back({member_of(communicator, "an operation"), stream, std::move(post)});
  }
  return depth > 0 ? ncclSuccess : flush();
}

void check_arrays(const void* from, const void* to) {
  for (const void* array : {from, to})
    if (array && place_of(array) != Place::gpu) die("NCCL is given memory of the host");
}

ncclResult_t issue_collective(std::string call, const void* from, void* to, ncclComm_t communicator,
                              cudaStream_t stream, std::function<void(const std::map<int, Part>&)> run) {
  check_arrays(from, to);
  return issue(communicator, stream, [=, member = communicator->member](std::shared_ptr<Completion> completion) {
    state.log.push_back(call + " on rank " + std::to_string(member->rank));
    World& world = *member->world;
    const auto number = ++member->collectives;
    auto& collective = world.collectives[number];
    for (const auto& [rank, part] : collective.parts) {
      // NCCL would hang here, or compute wrong numbers.
      TANDEM_CHECK(part.call == call, "emulated NCCL: rank ", rank, " issued ", part.call, ", rank ", member->rank, " ",
                   call);
    }
    collective.parts[member->rank] = {member.get(), call, from, to, std::move(completion)};
    if (static_cast<int>(collective.parts.size()) < world.size) return;
    run(collective.parts);
    for (const auto& [rank, part] : collective.parts) complete(*part.completion);
    world.collectives.erase(number);
  });
}

ncclResult_t issue_message(bool sends, Part part, std::size_t bytes, int peer, ncclComm_t communicator,
                           cudaStream_t stream) {
  check_arrays(part.from, part.to);
  const int from = sends ? communicator->member->rank : peer, to = sends ? peer : communicator->member->rank;
  return issue(communicator, stream,
               [=, member = communicator->member](std::shared_ptr<Completion> completion) mutable {
                 part.member = member.get();
                 part.completion = std::move(completion);
                 World& world = *member->world;
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

// Waits until no graph holds operations of the communicator. NCCL itself would wait forever.
void wait_for_graphs(const Member& member, const char* call) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (member.recorded > 0) {
    if (std::chrono::steady_clock::now() > until)
      die("%s waits forever: a graph holds operations of this communicator", call);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// Ends everything of the communicator that waits. The caller holds nccl_mutex.
void stop(const std::shared_ptr<Member>& member) {
  World& world = *member->world;
  for (auto& [number, collective] : world.collectives) collective.parts.erase(member->rank);
  for (auto* messages : {&world.sends, &world.receives}) {
    for (auto& [ends, parts] : *messages)
      std::erase_if(parts, [&](const Part& part) { return part.member == member.get(); });
  }
  member->has_ended = true;
  member->hand_over();
  for (const auto& completion : member->issued) {
    while (!is_done(completion)) complete(*completion);
  }
  arrivals.notify_all();
}

void end(ncclComm_t communicator, const char* call) {
  std::shared_ptr<Member> member;
  {
    const std::lock_guard lock(nccl_mutex);
    member = member_of(communicator, call);
    state.log.push_back(call);
    if (member->callers > 0) die("%s frees a communicator while another thread is in a call of it", call);
    stop(member);
  }
  wait_for_graphs(*member, call);
  const std::lock_guard lock(nccl_mutex);
  communicators.erase(communicator);
  delete communicator;
}

// Joins a world as one of its ranks. Blocks until all ranks have arrived if the configuration says so.
ncclResult_t join(ncclComm_t* communicator, std::shared_ptr<World> world, int rank, const ncclConfig_t* config,
                  bool is_split, bool may_block, std::unique_lock<std::mutex>& lock) {
  if (rank != state.absent_rank || is_split != state.absent_from_splits) ++world->arrived;
  arrivals.notify_all();
  auto member = std::make_shared<Member>();
  member->world = world;
  member->rank = rank;
  member->is_blocking = config->blocking != 0;
  *communicator = new ncclComm{member};
  communicators.insert(*communicator);
  if (!member->is_blocking || !may_block) return ncclInProgress;
  arrivals.wait(lock, [&] { return world->arrived == world->size; });
  return ncclSuccess;
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
void set_nccl_absent(int rank, bool from_splits) {
  const std::lock_guard lock(nccl_mutex);
  state.absent_rank = rank;
  state.absent_from_splits = from_splits;
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
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  std::unique_lock lock(nccl_mutex);
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  auto& world = worlds[number];
  if (!world) world = std::make_shared<World>();
  world->size = size;
  return join(communicator, world, rank, config, false, true, lock);
}
// The parent's configuration decides whether this call blocks, and the child's configuration applies to later calls.
ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* communicator, ncclConfig_t* config) {
  std::unique_lock lock(nccl_mutex);
  Member& member = *member_of(parent, "split");
  auto& world = parts_of_worlds[{member.world.get(), ++member.splits, color}];
  if (!world) world = std::make_shared<World>();
  world->size = member.world->size;  // sufficient here, because all ranks have the same colour
  if (key != member.rank) die("ncclCommSplit with another order of the ranks is not emulated");
  member.is_busy = !member.is_blocking;
  *communicator = nullptr;
  member.wanted_at = communicator;
  const auto result = join(&member.part, world, key, config, true, member.is_blocking, lock);
  if (result == ncclSuccess) member.hand_over();
  return result;
}
ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  std::shared_ptr<Member> member;
  {
    const std::lock_guard lock(nccl_mutex);
    member = member_of(communicator, "finalize");
  }
  wait_for_graphs(*member, "ncclCommFinalize");
  return begun(*member);
}
ncclResult_t ncclCommRevoke(ncclComm_t communicator, int flags) {
  const std::lock_guard lock(nccl_mutex);
  if (flags != NCCL_REVOKE_DEFAULT) die("ncclCommRevoke: flags must be 0");
  stop(member_of(communicator, "revoke"));
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  end(communicator, "destroy");
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  end(communicator, "abort");
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* result) {
  const std::lock_guard lock(nccl_mutex);
  const auto all_have_come = [](const Member& one) { return one.world->arrived == one.world->size; };
  Member& member = *member_of(communicator, "asking for an error");
  if (member.rank == state.failing_rank) *result = state.failure;
  else if (!all_have_come(member) || (member.wanted_at && !all_have_come(*member.part->member)))
    *result = ncclInProgress;
  else *result = std::exchange(member.is_busy, false) ? ncclInProgress : ncclSuccess;
  if (*result == ncclSuccess) member.hand_over();
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
  part.from = from;
  return issue_message(true, part, count * size_of(type), peer, communicator, stream);
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  Part part;
  part.to = to;
  return issue_message(false, part, count * size_of(type), peer, communicator, stream);
}
ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() { return --depth > 0 ? ncclSuccess : flush(); }
