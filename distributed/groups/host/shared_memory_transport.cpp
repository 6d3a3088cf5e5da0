#include <tandem/distributed/groups/host/descriptor_exchange.h>
#include <tandem/distributed/groups/host/host_group.h>
#include <tandem/distributed/groups/host/host_transport.h>
#include <tandem/distributed/groups/host/reduce_function.h>
#include <tandem/distributed/groups/host/shared_segment.h>

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>

// Every rank has a segment that all others map. A collective takes two steps. First each rank writes into its header
// where its array lies in its segment, raises its progress, and waits for the others' progress. Then each rank reads
// what it needs from the others' segments, raises its progress again, and waits until no other rank reads from its
// segment. A small array is copied into one of two slots, which operations use in turn. No rank can start the operation
// after the next one before all ranks have finished this one, so small arrays need no second wait.
namespace tandem::distributed {
namespace {

using Kind = Operation::Kind;
using Clock = std::chrono::steady_clock;

// The size of a slot. Small arrays go through a slot, which saves the second wait. But then every rank copies and reads
// the whole array, where otherwise an array of the group's memory is not copied at all and the ranks share the work of
// an all_reduce. Measured by bench/collectives with two processes on two cores of an AMD EPYC: all_reduce of 8 KB takes
// 7.9 us through slots and 2.7 us without; of 116 KB 66 us and 9 us (16 us for arrays that are not the group's memory).
constexpr std::size_t slot_bytes = 4096;
constexpr std::size_t message_ring = 1024;  // messages from one rank to another that nobody has received yet
// How long a thread without other work watches for a peer before it sleeps: some skew between the ranks of a
// step, far more than it takes to wake a sleeping thread.
constexpr std::chrono::microseconds spin_time{2000};
constexpr std::chrono::milliseconds sleep_slice{20};  // between two looks at whether the peer is still there

// A number that one rank raises and others wait for.
struct alignas(64) Counter {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};

  bool reached(std::uint32_t target) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_acquire) - target) >= 0;
  }
  void raise(std::uint32_t to) {
    value.store(to);
    if (sleepers.load() > 0) syscall(SYS_futex, &value, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  // Returns when the value differs from `seen`, or after a while.
  void sleep(std::uint32_t seen) {
    const timespec time{0, std::chrono::nanoseconds(sleep_slice).count()};
    sleepers.fetch_add(1);
    syscall(SYS_futex, &value, FUTEX_WAIT, seen, &time, nullptr, 0);
    sleepers.fetch_sub(1);
  }
};

struct Header {
  std::uint64_t offset;  // of the array in the rank's segment
  char signature[248];
};

struct Message {
  std::uint64_t offset;
  std::uint64_t bytes;
  std::atomic<std::uint32_t> received;
};

struct Mailbox {
  Counter written;
  Message messages[message_ring];
};

// At the beginning of each segment; a mailbox for each rank follows.
struct alignas(64) Control {
  Counter progress;   // twice an operation's number: its header is there; one more: done with reading
  Header headers[2];  // of operations with even and odd numbers
  alignas(64) char slots[2][slot_bytes];
};

struct Segments {
  std::vector<std::shared_ptr<SharedSegment>> by_rank;

  char* base(int rank) const { return by_rank[static_cast<std::size_t>(rank)]->base(); }
  Control& control(int rank) const { return *reinterpret_cast<Control*>(base(rank)); }
  Mailbox& mailbox(int from, int to) const { return reinterpret_cast<Mailbox*>(base(from) + sizeof(Control))[to]; }
};

std::size_t control_bytes(int size) { return sizeof(Control) + sizeof(Mailbox) * static_cast<std::size_t>(size); }

// Twice what the ranks could use all together.
std::size_t segment_bytes(int size) {
  const auto memory =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return 2 * memory / static_cast<std::size_t>(size) + control_bytes(size);
}

void relax() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#endif
}

class SharedMemoryTransport : public HostTransport {
 public:
  SharedMemoryTransport(Store& store, const Members& members, const GroupOptions& options)
      : rank_(options.rank), size_(options.size) {
    TANDEM_CHECK(share_a_host(members), "the ranks are on several hosts and can't share memory: use --backend gloo");
    own_ = std::make_shared<SharedSegment>(segment_bytes(size_));
    own_->allocate(control_bytes(size_));
    links_ = exchange_descriptors(store, rank_, size_, own_->file(), Clock::now() + options.timeout);
    for (int r = 0; r < size_; ++r) {
      segments_.by_rank.push_back(r == rank_ ? own_ : std::make_shared<SharedSegment>(std::move(links_[r].file)));
    }
    outbox_.resize(size_);
    received_.resize(size_);
  }

  ~SharedMemoryTransport() override {
    if (staging_) own_->free(*staging_);
  }

  const char* name() const override { return "shm"; }

  void run(const Operation& operation, const Call& call) override {
    const auto step = static_cast<std::uint32_t>(2 * call.sequence);
    Control& mine = segments_.control(rank_);
    Header& header = mine.headers[call.sequence % 2];
    std::snprintf(header.signature, sizeof header.signature, "%s", call.signature.c_str());

    const std::size_t bytes = published_bytes(operation);
    const bool small = bytes * static_cast<std::size_t>(size_) <= 2 * slot_bytes && bytes <= slot_bytes;
    header.offset = small ? copy_in(operation, mine.slots[call.sequence % 2]) : publish(operation, bytes);
    mine.progress.raise(step);
    await_all(step, call);
    for (int r = 0; r < size_; ++r) {
      const Header& theirs = segments_.control(r).headers[call.sequence % 2];
      if (std::strncmp(theirs.signature, header.signature, sizeof header.signature) != 0)
        throw PeerDiffers(r, theirs.signature);
    }

    if (!small && operation.kind == Kind::all_reduce) {
      all_reduce_in_place(operation, call);
    } else {
      read(operation, call);
    }
    if (small) return;
    mine.progress.raise(step + 1);
    await_all(step + 1, call);
    if (operation.kind == Kind::all_reduce) copy_out(operation.outputs[0], header.offset);
  }

  std::unique_ptr<Transfer> send(const void* data, std::size_t bytes, int to) override;
  std::unique_ptr<Transfer> receive(void* data, std::size_t bytes, int from) override;

  void break_off() noexcept override { broken_ = true; }

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
  class Receipt;
  struct Sent {
    std::uint32_t index;
    std::size_t offset;
  };
  struct Outbox {
    std::uint32_t written = 0;
    std::deque<Sent> unread;
  };

  // --- Waiting ---

  // Waits until `counter` of `peer` has reached `target`.
  void await(int peer, Counter& counter, std::uint32_t target, const Call& call) const {
    if (counter.reached(target)) return;
    if (call.may_spin) {
      const auto until = Clock::now() + spin_time;
      do {
        for (int i = 0; i < 64; ++i) {
          if (counter.reached(target)) return;
          relax();
        }
        sched_yield();  // to a rank that has to share this core
      } while (Clock::now() < until);
    }
    for (;;) {
      const std::uint32_t seen = counter.value.load();
      if (counter.reached(target)) return;
      counter.sleep(seen);
      if (counter.reached(target)) return;
      if (broken_) throw Error("broken off");
      // What a rank did before it went still counts.
      if (is_gone(peer) && !counter.reached(target)) throw PeerGone(peer, "gone");
      if (Clock::now() >= call.deadline) throw PeersLate({peer});
    }
  }

  // Waits until the progress of all ranks has reached `target`.
  void await_all(std::uint32_t target, const Call& call) const {
    try {
      for (int r = 0; r < size_; ++r) await(r, segments_.control(r).progress, target, call);
    } catch (const PeersLate&) {
      std::vector<int> late;
      for (int r = 0; r < size_; ++r) {
        if (!segments_.control(r).progress.reached(target)) late.push_back(r);
      }
      throw PeersLate(late);
    }
  }

  bool is_gone(int peer) const {
    if (peer == rank_) return false;
    pollfd entry{links_[peer].socket.get(), POLLIN | POLLRDHUP, 0};
    return poll(&entry, 1, 0) > 0;
  }

  // --- Where arrays lie ---

  // What this rank lets the others read, the same size on all ranks.
  std::size_t published_bytes(const Operation& operation) const {
    switch (operation.kind) {
      case Kind::barrier: return 0;
      case Kind::broadcast:
      case Kind::all_reduce:
      case Kind::reduce: return operation.outputs[0].bytes();
      case Kind::all_gather:
      case Kind::gather: return operation.inputs[0].bytes();
      default: return operation.outputs[0].bytes() * static_cast<std::size_t>(size_);
    }
  }

  // The arrays that the other ranks read; copy_in() puts them in a row.
  std::vector<Array> published(const Operation& operation) const {
    if (operation.kind == Kind::broadcast && operation.root != rank_) return {};
    return operation.inputs.empty() ? operation.outputs : operation.inputs;
  }

  std::uint64_t offset_of(const void* address) const {
    return static_cast<std::uint64_t>(static_cast<const char*>(address) - own_->base());
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
    if (arrays.size() == 1 && own_->contains(arrays[0].raw(), bytes)) return offset_of(arrays[0].raw());
    if (staging_bytes_ < bytes) {
      if (staging_) own_->free(*staging_);
      staging_.reset();
      staging_ = own_->allocate(bytes);
      staging_bytes_ = bytes;
    }
    return copy_in(operation, own_->base() + *staging_);
  }

  void copy_out(const Array& array, std::uint64_t offset) const {
    const char* data = own_->base() + offset;
    if (data != array.raw()) std::memcpy(array.raw(), data, array.bytes());
  }

  char* array_of(int rank, const Call& call) const {
    return segments_.base(rank) + segments_.control(rank).headers[call.sequence % 2].offset;
  }

  // --- Reading ---

  void read(const Operation& operation, const Call& call) const {
    const auto& out = operation.outputs;
    const auto copy = [&](const Array& to, int from, std::size_t offset) {
      std::memcpy(to.raw(), array_of(from, call) + offset, to.bytes());
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
      case Kind::receive: break;
    }
    detail::fail("shm: ", operation.what(), " is not a collective");
  }

  // Reduces in rank order, on whatever rank it is done, so that the bits depend on nothing else.
  void reduce(const Operation& operation, const Call& call, std::size_t offset) const {
    const Array& out = operation.outputs[0];
    std::vector<const void*> sources;
    for (int r = 0; r < size_; ++r) sources.push_back(array_of(r, call) + offset);
    reduce_function(out.dtype(), operation.reduce_op)(out.raw(), sources.data(), size_,
                                                      static_cast<std::size_t>(out.numel()));
  }

  // Each rank reduces its part of the arrays, and puts the result in the place of all of them; a block at a time, so
  // that it is read from memory once.
  void all_reduce_in_place(const Operation& operation, const Call& call) const {
    const Array& array = operation.outputs[0];
    const std::size_t element = size_of(array.dtype());
    const auto count = static_cast<std::size_t>(array.numel());
    const std::size_t ranks = static_cast<std::size_t>(size_), rank = static_cast<std::size_t>(rank_);
    const std::size_t share = (count / ranks + 15) / 16 * 16;
    const std::size_t begin = std::min(count, rank * share);
    const std::size_t end = rank + 1 == ranks ? count : std::min(count, begin + share);
    const auto function = reduce_function(array.dtype(), operation.reduce_op);
    constexpr std::size_t block = 8192;
    std::vector<char*> arrays;
    for (int r = 0; r < size_; ++r) arrays.push_back(array_of(r, call));
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

  const int rank_;
  const int size_;
  std::atomic<bool> broken_ = false;
  std::shared_ptr<SharedSegment> own_;
  Segments segments_;
  std::vector<PeerLink> links_;
  std::optional<std::size_t> staging_;  // the offset of a block for copies of arrays that lie in no segment
  std::size_t staging_bytes_ = 0;

  std::mutex outbox_mutex_;
  std::vector<Outbox> outbox_;           // guarded by outbox_mutex_; by peer
  std::vector<std::uint32_t> received_;  // messages asked for, by peer
};

// --- Messages ---

class SharedMemoryTransport::Receipt : public Transfer {
 public:
  Receipt(SharedMemoryTransport& transport, int from, std::uint32_t index, void* data, std::size_t bytes)
      : transport_(transport), segments_(transport.segments_), from_(from), index_(index), data_(data), bytes_(bytes) {}

  bool is_done() override { return mailbox().written.reached(index_ + 1); }

  void wait(Clock::time_point deadline) override {
    transport_.await(from_, mailbox().written, index_ + 1, {0, "", deadline, true});
    Message& message = mailbox().messages[index_ % message_ring];
    const std::uint64_t sent = message.bytes;
    if (sent == bytes_) std::memcpy(data_, segments_.base(from_) + message.offset, bytes_);
    message.received.store(1, std::memory_order_release);
    TANDEM_CHECK(sent == bytes_, "it has ", sent, " bytes, the array that is to receive it ", bytes_);
  }

 private:
  Mailbox& mailbox() const { return segments_.mailbox(from_, transport_.rank_); }

  SharedMemoryTransport& transport_;
  Segments segments_;
  const int from_;
  const std::uint32_t index_;
  void* data_;
  const std::size_t bytes_;
};

// A message that lies in the sender's segment is as good as sent.
class Posted : public Transfer {
 public:
  bool is_done() override { return true; }
  void wait(Clock::time_point) override {}
};

std::unique_ptr<Transfer> SharedMemoryTransport::send(const void* data, std::size_t bytes, int to) {
  const std::lock_guard lock(outbox_mutex_);
  Outbox& outbox = outbox_[to];
  Mailbox& mailbox = segments_.mailbox(rank_, to);
  while (!outbox.unread.empty() &&
         mailbox.messages[outbox.unread.front().index % message_ring].received.load(std::memory_order_acquire) != 0) {
    own_->free(outbox.unread.front().offset);
    outbox.unread.pop_front();
  }
  TANDEM_CHECK(outbox.unread.size() < message_ring, "rank ", to, " has not received the last ", message_ring,
               " messages that rank ", rank_, " sent it");
  const std::size_t offset = own_->allocate(bytes);
  std::memcpy(own_->base() + offset, data, bytes);
  Message& message = mailbox.messages[outbox.written % message_ring];
  message.offset = offset;
  message.bytes = bytes;
  message.received.store(0, std::memory_order_relaxed);
  outbox.unread.push_back({outbox.written, offset});
  mailbox.written.raise(++outbox.written);
  return std::make_unique<Posted>();
}

std::unique_ptr<Transfer> SharedMemoryTransport::receive(void* data, std::size_t bytes, int from) {
  return std::make_unique<Receipt>(*this, from, received_[from]++, data, bytes);
}

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
