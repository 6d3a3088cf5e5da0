#include <tandem/core/base/deadline.h>
#include <tandem/distributed/groups/host/host_group.h>
#include <tandem/distributed/groups/host/host_peers.h>
#include <tandem/distributed/groups/host/host_transport.h>
#include <tandem/distributed/groups/host/peer_links.h>
#include <tandem/distributed/groups/host/reduce_function.h>
#include <tandem/distributed/groups/host/shared_messages.h>
#include <tandem/distributed/groups/host/shared_segment.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

// Every rank has a segment that all others map:
//
//   Control    progress, two headers, two slots for small arrays
//   mailboxes  one for each rank, for messages to it (shared_messages.h)
//   blocks     arrays in the group's memory, such as buckets of gradients; copies of arrays that lie elsewhere;
//              messages that have not been received yet
//
// docs/shared_memory.md follows an all_reduce through run(). The functions below run() are its steps, in order.
namespace tandem::distributed {
namespace {

using Kind = Operation::Kind;
// The size of a slot. A slot saves the second wait, but every rank then copies and reads the whole array. Without a
// slot, an array in the group's memory is not copied at all, and the ranks share the work of an all_reduce. Measured by
// bench/collectives with two processes on two cores of an AMD EPYC: all_reduce of 8 KB takes 7.9 us through slots and
// 2.7 us without; of 116 KB, 66 us and 9 us (16 us for arrays outside of the group's memory). So 8 KB is too large for
// a slot. The chosen size is half of that. The exact size from which a slot is slower was not measured.
constexpr std::size_t slot_bytes = 4096;

// A rank can write anything into its segment, at any time. For this reason, other ranks read each value there once, and
// check it before use.
struct Header {
  std::atomic<std::uint64_t> offset;  // of the array in the rank's segment
  char signature[248];
};

// The beginning of each segment. The mailboxes of its rank follow.
struct alignas(64) Control {
  // 2 * number: the header of that operation is written. 2 * number + 1: this rank has left the others' arrays.
  SharedCounter progress;
  Header headers[2];  // of operations with even and odd numbers
  alignas(64) char slots[2][slot_bytes];
};

// The size of a segment in address space. Only pages that are used take memory. All segments together are twice as
// large as the machine's memory, so the machine runs out of memory before a rank runs out of room.
std::size_t segment_bytes(int size) {
  const auto memory =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return 2 * memory / static_cast<std::size_t>(size) + sizeof(Control) + SharedMessages::bytes(size);
}

class SharedMemoryTransport : public HostTransport {
 public:
  SharedMemoryTransport(Store& store, const Members& members, const GroupOptions& options)
      : rank_(options.rank), size_(options.size) {
    TANDEM_CHECK(share_a_host(members), "the ranks are on several hosts and can't share memory: use --backend gloo");
    own_ = std::make_shared<SharedSegment>(segment_bytes(size_));
    // These two offsets are equal on all ranks, because they are the first two blocks of each segment.
    own_->allocate(sizeof(Control));
    const std::size_t mailboxes = own_->allocate(SharedMessages::bytes(size_));
    std::vector<FileDescriptor> sockets;
    auto links = link_peers(store, rank_, members, own_->file(), RunningTime::now() + options.timeout);
    for (int r = 0; r < size_; ++r) {
      PeerLink& link = links[static_cast<std::size_t>(r)];
      segments_.push_back(r == rank_
                              ? own_
                              : std::make_shared<SharedSegment>(
                                    std::move(link.file), mailboxes + SharedMessages::bytes(size_), members[r].name()));
      sockets.push_back(std::move(link.socket));
    }
    peers_.emplace(rank_, std::move(sockets));
    messages_.emplace(rank_, *peers_, segments_, mailboxes);
  }

  const char* name() const override { return "shm"; }

  // In a collective, all ranks wait for each other twice. First, each rank writes the offset of its array into its
  // header, and waits until all ranks have done so. Then it uses the data that it needs in the other segments, and
  // waits until no other rank uses its own segment. A small array is copied into one of two slots, which operations use
  // in turn. No rank can start the operation after the next one before all ranks have finished this one, so small
  // arrays need no second wait.
  void run(const Operation& operation, const Call& call) override {
    const auto ready = static_cast<std::uint32_t>(2 * call.sequence);
    const std::size_t bytes = published_bytes(operation);
    // In a reduction or a gather through slots, a rank reads the arrays of all ranks. With two ranks, that is at most
    // two full slots. With more ranks, the total may not exceed that.
    const bool fits_slot = bytes * static_cast<std::size_t>(size_) <= 2 * slot_bytes && bytes <= slot_bytes;
    const std::uint64_t offset =
        fits_slot ? copy_in(operation, control(rank_).slots[call.sequence % 2]) : publish(operation, bytes);
    Header& mine = header(rank_, call);
    std::snprintf(mine.signature, sizeof mine.signature, "%s", call.signature.c_str());
    mine.offset.store(offset, std::memory_order_relaxed);
    await_all(ready, call);
    for (int r = 0; r < size_; ++r) {
      const auto& theirs = header(r, call).signature;
      if (std::strncmp(theirs, mine.signature, sizeof theirs) != 0)
        throw PeerDiffers(r, std::string(theirs, strnlen(theirs, sizeof theirs)));
    }
    if (fits_slot) return read(operation, call);
    operation.kind == Kind::all_reduce ? reduce_part(operation, call) : read(operation, call);
    await_all(ready + 1, call);
    if (operation.kind == Kind::all_reduce) copy_out(offset, operation.outputs[0]);
  }

  std::unique_ptr<Transfer> send(const void* data, std::size_t bytes, int to) override {
    return messages_->send(data, bytes, to);
  }
  std::unique_ptr<Transfer> receive(void* data, std::size_t bytes, int from) override {
    return messages_->receive(data, bytes, from);
  }

  void break_off() noexcept override { peers_->break_off(); }

  Array allocate(const Shape& shape, DType dtype) override {
    const auto bytes = static_cast<std::size_t>(shape.product()) * size_of(dtype);
    const std::size_t offset = own_->allocate(bytes);
    void* data = own_->base() + offset;
    std::memset(data, 0, bytes);
    auto storage =
        std::make_shared<Storage>(data, bytes, Device{}, [segment = own_, offset] { segment->free(offset); });
    return Array(std::move(storage), shape, contiguous_strides(shape), 0, dtype);
  }

 private:
  Control& control(int rank) const {
    return *reinterpret_cast<Control*>(segments_[static_cast<std::size_t>(rank)]->base());
  }
  Header& header(int rank, const Call& call) const { return control(rank).headers[call.sequence % 2]; }

  // --- The steps of run() ---

  // Returns the number of bytes that this rank publishes for the others to read. It is the same on all ranks.
  std::size_t published_bytes(const Operation& operation) const {
    switch (operation.kind) {
      case Kind::barrier: return 0;
      case Kind::broadcast:
      case Kind::all_reduce:
      case Kind::reduce: return operation.outputs[0].bytes();
      case Kind::all_gather:
      case Kind::gather: return operation.inputs[0].bytes();
      case Kind::reduce_scatter:
      case Kind::scatter:
      case Kind::all_to_all: return operation.outputs[0].bytes() * static_cast<std::size_t>(size_);
      case Kind::send:
      case Kind::receive: break;
    }
    detail::fail("shm: ", operation.what(), " is not a collective");
  }

  std::uint64_t copy_in(const Operation& operation, char* to) const {
    char* next = to;
    for (const auto& array : published(operation)) {
      std::memcpy(next, array.raw(), array.bytes());
      next += array.bytes();
    }
    return offset_of(to);
  }

  std::uint64_t publish(const Operation& operation, std::size_t bytes) {
    const auto arrays = published(operation);
    if (arrays.empty()) return 0;  // nobody reads anything of this rank
    if (arrays.size() == 1 && own_->contains(arrays[0].raw(), bytes)) return offset_of(arrays[0].raw());
    if (!staging_.defined() || staging_.bytes() < bytes) {
      staging_ = {};  // free it first: its memory may be part of the larger block
      staging_ = allocate({static_cast<std::int64_t>(bytes)}, DType::u8);
    }
    return copy_in(operation, static_cast<char*>(staging_.raw()));
  }

  // Raises this rank's progress to `target` and waits until all ranks have done so.
  void await_all(std::uint32_t target, const Call& call) {
    control(rank_).progress.raise(target);
    try {
      for (int r = 0; r < size_; ++r) peers_->await(r, control(r).progress, target, call);
    } catch (const PeersLate&) {
      std::vector<int> late;
      for (int r = 0; r < size_; ++r) {
        if (!control(r).progress.reached(target)) late.push_back(r);
      }
      throw PeersLate(late);
    }
  }

  // Reduces this rank's part of all arrays, and writes the result to that part of every array. It works one block at a
  // time, so the data is read from memory once.
  void reduce_part(const Operation& operation, const Call& call) const {
    const Array& array = operation.outputs[0];
    const std::size_t element = size_of(array.dtype());
    const auto count = static_cast<std::size_t>(array.numel());
    const std::size_t ranks = static_cast<std::size_t>(size_), rank = static_cast<std::size_t>(rank_);
    const std::size_t part = (count / ranks + 15) / 16 * 16;
    const std::size_t begin = std::min(count, rank * part);
    const std::size_t end = rank + 1 == ranks ? count : std::min(count, begin + part);
    const auto function = reduce_function(array.dtype(), operation.reduce_op);
    constexpr std::size_t block = 8192;
    std::vector<char*> arrays;
    for (int r = 0; r < size_; ++r) arrays.push_back(array_of(r, operation, call, element));
    std::vector<const void*> sources(ranks);
    for (std::size_t first = begin; first < end; first += block) {
      const std::size_t n = std::min(block, end - first);
      for (std::size_t r = 0; r < ranks; ++r) sources[r] = arrays[r] + first * element;
      char* result = arrays[rank] + first * element;
      function(result, sources.data(), size_, n);
      for (std::size_t r = 0; r < ranks; ++r) {
        if (r != rank) std::memcpy(arrays[r] + first * element, result, n * element);
      }
    }
  }

  void copy_out(std::uint64_t offset, const Array& array) const {
    const char* data = own_->base() + offset;
    if (data != array.raw()) std::memcpy(array.raw(), data, array.bytes());
  }

  // --- Small arrays and the other collectives ---

  void read(const Operation& operation, const Call& call) const {
    const auto& out = operation.outputs;
    const auto copy = [&](const Array& to, int from, std::size_t offset) {
      std::memcpy(to.raw(), array_of(from, operation, call) + offset, to.bytes());
    };
    const auto rank = static_cast<std::size_t>(rank_);
    switch (operation.kind) {
      case Kind::barrier: return;
      case Kind::broadcast:
        if (rank_ != operation.root) copy(out[0], operation.root, 0);
        return;
      case Kind::reduce:
        if (rank_ == operation.root) reduce(operation, call, 0);
        return;
      case Kind::all_reduce: return reduce(operation, call, 0);
      case Kind::reduce_scatter: return reduce(operation, call, rank * out[0].bytes());
      case Kind::scatter: return copy(out[0], operation.root, rank * out[0].bytes());
      case Kind::all_gather:
      case Kind::gather:
        for (std::size_t r = 0; r < out.size(); ++r) copy(out[r], static_cast<int>(r), 0);
        return;
      case Kind::all_to_all:
        for (std::size_t r = 0; r < out.size(); ++r) copy(out[r], static_cast<int>(r), rank * out[r].bytes());
        return;
      case Kind::send:
      case Kind::receive: return;
    }
  }

  // Reduces in rank order, whichever rank does it, so the result is bitwise identical on all ranks.
  void reduce(const Operation& operation, const Call& call, std::size_t offset) const {
    const Array& out = operation.outputs[0];
    std::vector<const void*> sources;
    for (int r = 0; r < size_; ++r) sources.push_back(array_of(r, operation, call, size_of(out.dtype())) + offset);
    reduce_function(out.dtype(), operation.reduce_op)(out.raw(), sources.data(), size_,
                                                      static_cast<std::size_t>(out.numel()));
  }

  // --- Where arrays lie ---

  // Returns the arrays of `operation` that the other ranks read. copy_in() copies them one after the other.
  std::vector<Array> published(const Operation& operation) const {
    const bool of_root = operation.kind == Kind::broadcast || operation.kind == Kind::scatter;
    if (of_root && operation.root != rank_) return {};
    return operation.inputs.empty() ? operation.outputs : operation.inputs;
  }

  std::uint64_t offset_of(const void* address) const {
    return static_cast<std::uint64_t>(static_cast<const char*>(address) - own_->base());
  }

  // Returns the address of the bytes that a rank publishes.
  char* array_of(int rank, const Operation& operation, const Call& call, std::size_t alignment = 1) const {
    const std::uint64_t offset = header(rank, call).offset.load(std::memory_order_relaxed);
    return segments_[static_cast<std::size_t>(rank)]->at(offset, published_bytes(operation), alignment);
  }

  const int rank_;
  const int size_;
  std::shared_ptr<SharedSegment> own_;
  std::vector<std::shared_ptr<SharedSegment>> segments_;  // by rank
  std::optional<HostPeers> peers_;
  std::optional<SharedMessages> messages_;
  Array staging_;  // in this rank's segment, for copies of arrays that lie elsewhere
};

}  // namespace

std::string shared_memory_problem(int size) try {
  const SharedSegment all(segment_bytes(size) * static_cast<std::size_t>(size));
  return "";
} catch (const Error& error) {
  return error.what();
}

std::unique_ptr<HostTransport> shared_memory_transport(Store& store, const Members& members,
                                                       const GroupOptions& options) {
  return std::make_unique<SharedMemoryTransport>(store, members, options);
}

}  // namespace tandem::distributed
