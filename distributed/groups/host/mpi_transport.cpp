#include <tandem/core/base/check.h>
#include <tandem/core/base/deadline.h>
#include <tandem/core/base/thread.h>
#include <tandem/distributed/groups/executor.h>
#include <tandem/distributed/groups/host/host_group.h>
#include <tandem/distributed/groups/host/host_transport.h>
#include <tandem/distributed/groups/host/reduce_function.h>
#include <tandem/distributed/groups/host/spin.h>

#ifdef TANDEM_HAS_MPI
#include <tandem/distributed/groups/host/mpi_process.h>

#include <mpi.h>

#include <atomic>
#include <climits>
#include <cstdio>
#include <cstring>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

// The transport uses MPI's non-blocking collectives on a communicator of the group's ranks. MPI makes progress only
// inside its own calls. It can neither wait with a deadline nor cancel a collective, so waiting is a loop of MPI_Test.
namespace tandem::distributed {
namespace {

using Kind = Operation::Kind;
enum Tag { message_tag = 1, signature_tag, goodbye_tag };

// A thread sleeps this long between two tests if it may not spin or has already spun in vain.
constexpr std::chrono::microseconds nap{50};
constexpr int tests_before_nap = 16;  // each test moves the next pieces of a large array

// A rank's last message to each other rank of a group.
struct Goodbye {
  std::uint64_t collectives;  // the number that the sender has taken part in
  std::uint64_t messages;     // the number that it has sent to the receiver of this goodbye
};

class MpiTransport : public HostTransport {
 public:
  MpiTransport(Store& store, const Members& members, const GroupOptions& options)
      : mpi_(Mpi::get()),
        rank_(options.rank),
        size_(options.size),
        pending_(std::make_unique<Pending>()),
        left_(members.size()),
        sent_(members.size()),
        received_(members.size()) {
    int world_rank = 0, world_size = 0;
    {
      const std::lock_guard lock(mpi_.mutex);
      MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
      MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    }
    TANDEM_CHECK(world_size >= size_, "rank ", rank_, " of ", size_, " is one of ", world_size,
                 world_size == 1 ? " process" : " processes",
                 " to MPI: start the program with mpirun, or with srun and the --mpi that this MPI needs "
                 "(Open MPI: pmix)");
    // A rank of the job may have a different rank in MPI. Waiting for all ranks here also shortens the call below,
    // during which the other groups of this process can't use MPI.
    std::vector<int> world_ranks;
    for (const auto& text : exchange_texts(store, "mpi", rank_, size_, std::to_string(world_rank), options.timeout))
      world_ranks.push_back(std::stoi(text));
    comm_ = communicator_of(std::move(world_ranks), options.timeout);
    const std::lock_guard lock(mpi_.mutex);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    mpi_.add_group();
  }

  // The communicator is not freed. MPI could otherwise reuse its number for a new one while goodbyes are still in
  // transit.
  ~MpiTransport() override {
    try {
      const std::lock_guard lock(mpi_.mutex);
      say_goodbye();
      mpi_.remove_group(failed_ || broken_);
    } catch (const std::exception&) {  // a call of MPI never returned, and MPI may still write there
      [[maybe_unused]] const auto* still_used = pending_.release();
    }
  }

  const char* name() const override { return "mpi"; }

  void run(const Operation& operation, const Call& call) override {
    try {
      {
        const std::lock_guard lock(mpi_.mutex);
        compare_signatures(call.signature);
        check_mpi(start(operation), "start of a collective");
      }
      await([this] { return is_collective_done(); },
            [&](const Goodbye& last) { return last.collectives < call.sequence; }, call);
      finish(operation);
      const std::lock_guard lock(mpi_.mutex);
      ++collectives_;
    } catch (const std::exception&) {
      if (!mpi_.mutex.is_given_up()) {
        const std::lock_guard lock(mpi_.mutex);
        failed_ = true;
        mpi_.abandoned.push_back(std::move(pending_));
      }
      throw;
    }
    pending_->arrays.clear();
    pending_->joined = Array();
  }

  std::unique_ptr<Transfer> send(const void* data, std::size_t bytes, int to) override {
    check_count(bytes);
    const std::lock_guard lock(mpi_.mutex);
    mpi_.send(data, bytes, to, message_tag, comm_);
    ++sent_[to];
    return std::make_unique<Posted>();
  }

  std::unique_ptr<Transfer> receive(void* data, std::size_t bytes, int from) override {
    return std::make_unique<Receipt>(*this, data, bytes, from);
  }

  void break_off() noexcept override { broken_ = true; }

 private:
  // MPI already has a copy of the message, so the transfer is done from the start.
  class Posted : public Transfer {
   public:
    bool is_done() override { return true; }
    void wait(RunningTime::time_point) override {}
  };

  // A receive that outlives the transport if the program does not wait for it in time.
  class Receipt : public Transfer {
   public:
    Receipt(MpiTransport& transport, void* data, std::size_t bytes, int from)
        : transport_(transport), mpi_(transport.mpi_), data_(data), bytes_(bytes), from_(from) {
      check_count(bytes);
      message_.bytes = std::make_unique_for_overwrite<char[]>(bytes);
      const std::lock_guard lock(mpi_.mutex);
      index_ = transport_.received_[from]++;
      check_mpi(MPI_Irecv(message_.bytes.get(), static_cast<int>(bytes), MPI_BYTE, from, message_tag, transport_.comm_,
                          &message_.request),
                "receive");
    }
    ~Receipt() override {
      try {
        const std::lock_guard lock(mpi_.mutex);
        if (done_) return;
        MPI_Cancel(&message_.request);
        mpi_.in_flight.push_back(std::move(message_));
      } catch (const std::exception&) {  // a call of MPI never returned, and MPI may still write there
        [[maybe_unused]] const auto* still_used = message_.bytes.release();
      }
    }

    bool is_done() override {
      const std::lock_guard lock(mpi_.mutex);
      return test();
    }

    void wait(RunningTime::time_point deadline) override {
      try {
        transport_.await([this] { return test(); }, [this](const Goodbye& last) { return last.messages <= index_; },
                         {0, "", deadline, true}, from_);
        int error = MPI_SUCCESS, sent = 0;
        MPI_Error_class(code_, &error);
        TANDEM_CHECK(error != MPI_ERR_TRUNCATE, "it has more than the ", bytes_,
                     " bytes of the array that is to receive it");
        check_mpi(code_, "receive");
        MPI_Get_count(&status_, MPI_BYTE, &sent);
        TANDEM_CHECK(static_cast<std::size_t>(sent) == bytes_, "it has ", sent,
                     " bytes, the array that is to receive it ", bytes_);
      } catch (const std::exception&) {
        const std::lock_guard lock(mpi_.mutex);
        transport_.failed_ = true;
        throw;
      }
      std::memcpy(data_, message_.bytes.get(), bytes_);
    }

   private:
    bool test() {
      if (!done_) {
        int flag = 0;
        code_ = MPI_Test(&message_.request, &flag, &status_);
        done_ = flag != 0 || code_ != MPI_SUCCESS;
      }
      return done_;
    }

    MpiTransport& transport_;
    Mpi& mpi_;
    Message message_;
    void* data_;
    const std::size_t bytes_;
    const int from_;
    std::uint64_t index_ = 0;
    MPI_Status status_{};
    int code_ = MPI_SUCCESS;
    bool done_ = false;
  };

  // MPI_Comm_create_group has no deadline. It opens MPI's first connections, which a firewall may silently drop, so a
  // separate thread calls it.
  MPI_Comm communicator_of(std::vector<int> world_ranks, std::chrono::milliseconds timeout) {
    const auto deadline = RunningTime::now() + timeout;
    std::promise<MPI_Comm> promise;
    auto made = promise.get_future();
    start_thread("the thread that makes MPI's communicator", [ranks = std::move(world_ranks),
                                                              promise = std::move(promise)]() mutable {
      try {
        const std::lock_guard lock(Mpi::get().mutex);
        MPI_Group world{}, group{};
        MPI_Comm comm{};
        check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "group");
        check_mpi(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group), "group");
        check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &comm), "communicator");
        MPI_Group_free(&group);
        MPI_Group_free(&world);
        promise.set_value(comm);
      } catch (const std::exception&) {
        promise.set_exception(std::current_exception());
      }
    }).detach();
    if (!wait_until(made, deadline)) {
      mpi_.mutex.give_up();
      detail::fail("rank ", rank_, ": MPI has not connected the ", size_, " ranks of a group within ",
                   seconds_text(timeout), ", though all of them have come: is one of them stopped, or does a firewall ",
                   "stand between their hosts?");
    }
    return made.get();
  }

  static void check_count(std::size_t count) {
    TANDEM_CHECK(count <= INT_MAX, "MPI moves at most ", INT_MAX, " elements at once, got ", count);
  }

  // --- Waiting ---

  // Waits until is_done() returns true. is_missed(goodbye) returns whether the rank that sent this goodbye left before
  // it did its part. `from` is the rank to wait for, or -1 for all other ranks.
  template <class IsDone, class IsMissed>
  void await(const IsDone& is_done, const IsMissed& is_missed, const Call& call, int from = -1) {
    Spin spin(call.may_spin);
    for (;;) {
      const bool spins = spin.goes_on();
      {
        const std::lock_guard lock(mpi_.mutex);
        for (int i = 0; i < tests_before_nap; ++i) {
          if (is_done()) return;
        }
        if (!spins) hear_goodbyes();
        for (int r = 0; r < size_; ++r) {
          if (left_[r] && (from < 0 || r == from) && is_missed(*left_[r])) throw PeerGone(r, "gone");
        }
      }
      if (broken_) throw Error("broken off");
      if (RunningTime::now() >= call.deadline) throw PeersLate(from < 0 ? others() : std::vector<int>{from});
      if (!spins) std::this_thread::sleep_for(nap);
    }
  }

  void say_goodbye() {
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      const Goodbye goodbye{collectives_, sent_[r]};
      try {
        mpi_.send(&goodbye, sizeof goodbye, r, goodbye_tag, comm_);
      } catch (const std::exception&) {  // the peer is gone as well
      }
    }
  }

  void hear_goodbyes() {
    for (;;) {
      int there = 0;
      MPI_Status status{};
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, goodbye_tag, comm_, &there, &status), "probe");
      if (there == 0) return;
      Goodbye goodbye{};
      check_mpi(MPI_Recv(&goodbye, sizeof goodbye, MPI_BYTE, status.MPI_SOURCE, goodbye_tag, comm_, MPI_STATUS_IGNORE),
                "receive");
      left_[static_cast<std::size_t>(status.MPI_SOURCE)] = goodbye;
    }
  }

  std::vector<int> others() const {
    std::vector<int> ranks;
    for (int r = 0; r < size_; ++r) {
      if (r != rank_) ranks.push_back(r);
    }
    return ranks;
  }

  // --- Whether the ranks run the same operation ---

  // MPI itself would mix up the bytes of different operations. Each rank therefore sends its signature to the next rank
  // while the collective runs. If every rank agrees with the previous rank, all ranks agree.
  void compare_signatures(const std::string& signature) {
    if (size_ == 1) return;
    Pending& p = *pending_;
    const int next = (rank_ + 1) % size_, previous = (rank_ + size_ - 1) % size_;
    std::snprintf(p.mine.data(), p.mine.size(), "%s", signature.c_str());
    check_mpi(MPI_Irecv(p.theirs.data(), p.theirs.size(), MPI_BYTE, previous, signature_tag, comm_, &p.from_previous),
              "receive");
    check_mpi(MPI_Isend(p.mine.data(), p.mine.size(), MPI_BYTE, next, signature_tag, comm_, &p.to_next), "send");
  }

  bool is_collective_done() {
    Pending& p = *pending_;
    const auto is_done = [](MPI_Request& request, int& code) {
      int flag = 0;
      if (code == MPI_SUCCESS) code = MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
      return flag != 0 || code != MPI_SUCCESS;
    };
    int code = MPI_SUCCESS, signature_code = MPI_SUCCESS;
    const bool collective_done = is_done(p.collective, code);
    const bool heard = is_done(p.from_previous, signature_code);
    check_mpi(signature_code, "receive");
    if (heard && std::strncmp(p.mine.data(), p.theirs.data(), p.mine.size()) != 0)
      throw PeerDiffers((rank_ + size_ - 1) % size_,
                        std::string(p.theirs.data(), strnlen(p.theirs.data(), p.theirs.size())));
    // Keep the error for now. If the operations differ, that explains the error better.
    if (code != MPI_SUCCESS) failed_collective_ = code;
    if (!heard || !is_done(p.to_next, signature_code)) return false;
    check_mpi(failed_collective_, "collective");
    return collective_done;
  }

  // --- The collectives ---

  int start(const Operation& operation) {
    Pending& p = *pending_;
    const auto& in = operation.inputs;
    const auto& out = operation.outputs;
    const int root = operation.root;
    if (operation.kind == Kind::barrier) return MPI_Ibarrier(comm_, &p.collective);

    p.arrays = in;
    p.arrays.insert(p.arrays.end(), out.begin(), out.end());
    const Array one = p.arrays.front();  // a copy, because all_to_all appends to p.arrays
    check_count(static_cast<std::size_t>(one.numel()));
    const int n = static_cast<int>(one.numel());
    const MPI_Datatype type = mpi_.type(one.dtype());
    const MPI_Op op = mpi_.op(operation.reduce_op);
    switch (operation.kind) {
      case Kind::broadcast: return MPI_Ibcast(out[0].raw(), n, type, root, comm_, &p.collective);
      case Kind::all_reduce:
        scale_for_mean(out[0], operation.reduce_op);
        return MPI_Iallreduce(MPI_IN_PLACE, out[0].raw(), n, type, op, comm_, &p.collective);
      case Kind::reduce: {
        if (rank_ != root) p.joined = out[0].clone();  // a mean scales it, but `outputs` must not change on this rank
        const Array& array = rank_ == root ? out[0] : p.joined;
        scale_for_mean(array, operation.reduce_op);
        return MPI_Ireduce(rank_ == root ? MPI_IN_PLACE : array.raw(), array.raw(), n, type, op, root, comm_,
                           &p.collective);
      }
      case Kind::all_gather:
        p.joined = room_for_all(one);
        return MPI_Iallgather(in[0].raw(), n, type, p.joined.raw(), n, type, comm_, &p.collective);
      case Kind::gather:
        p.joined = room_for_all(one);
        return MPI_Igather(in[0].raw(), n, type, p.joined.raw(), n, type, root, comm_, &p.collective);
      case Kind::scatter:
        p.joined = room_for_all(one);
        join(in);
        return MPI_Iscatter(p.joined.raw(), n, type, out[0].raw(), n, type, root, comm_, &p.collective);
      case Kind::all_to_all: {
        p.joined = room_for_all(one);
        join(in);
        p.arrays.push_back(p.joined);
        p.joined = room_for_all(one);
        return MPI_Ialltoall(p.arrays.back().raw(), n, type, p.joined.raw(), n, type, comm_, &p.collective);
      }
      case Kind::reduce_scatter:
        p.joined = room_for_all(one);
        join(in);
        scale_for_mean(p.joined, operation.reduce_op);
        return MPI_Ireduce_scatter_block(p.joined.raw(), out[0].raw(), n, type, op, comm_, &p.collective);
      default: detail::fail("mpi: ", operation.what(), " is not a collective");
    }
  }

  // Copies the arrays that MPI has written one after the other, one for each rank, to the outputs.
  void finish(const Operation& operation) const {
    const bool joins =
        operation.kind == Kind::all_gather || operation.kind == Kind::gather || operation.kind == Kind::all_to_all;
    if (!joins) return;
    const auto* next = static_cast<const char*>(pending_->joined.raw());
    for (const auto& array : operation.outputs) {
      std::memcpy(array.raw(), next, array.bytes());
      next += array.bytes();
    }
  }

  Array room_for_all(const Array& one) const { return Array::empty({size_ * one.numel()}, one.dtype()); }

  void join(const std::vector<Array>& inputs) {
    auto* next = static_cast<char*>(pending_->joined.raw());
    for (const auto& array : inputs) {
      std::memcpy(next, array.raw(), array.bytes());
      next += array.bytes();
    }
  }

  void scale_for_mean(const Array& array, ReduceOp op) const {
    if (op == ReduceOp::mean) scale(array.raw(), array.dtype(), static_cast<std::size_t>(array.numel()), 1.0 / size_);
  }

  Mpi& mpi_;
  const int rank_;
  const int size_;
  std::atomic<bool> broken_ = false;
  // Guarded by Mpi::mutex, except for the contents of `pending_`, which belong to the thread in run().
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::unique_ptr<Pending> pending_;
  int failed_collective_ = MPI_SUCCESS;
  bool failed_ = false;
  std::uint64_t collectives_ = 0;
  std::vector<std::optional<Goodbye>> left_;    // by rank
  std::vector<std::uint64_t> sent_, received_;  // messages, by rank
};

}  // namespace

}  // namespace tandem::distributed

#endif

namespace tandem {

void add_mpi_transport() {
#ifdef TANDEM_HAS_MPI
  using namespace distributed;
  host_transports.add({GroupBackend::mpi, [](Store& store, const Members& members, const GroupOptions& options) {
                         return std::make_unique<MpiTransport>(store, members, options);
                       }});
#endif
}

}  // namespace tandem
