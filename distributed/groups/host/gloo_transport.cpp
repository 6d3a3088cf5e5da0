#include <tandem/core/base/deadline.h>
#include <tandem/core/base/standard_output.h>
#include <tandem/core/base/thread.h>
#include <tandem/distributed/groups/host/gloo_alarm.h>
#include <tandem/distributed/groups/host/host_group.h>
#include <tandem/distributed/groups/host/host_transport.h>
#include <tandem/distributed/groups/host/reduce_function.h>
#include <tandem/distributed/system/host_address.h>

#include <gloo/allreduce.h>
#include <gloo/broadcast.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <future>
#include <optional>
#include <system_error>

namespace tandem::distributed {
namespace {

using Kind = Operation::Kind;
using Milliseconds = std::chrono::milliseconds;

// If all peers together send at most this many bytes, every rank sends its array to every other rank, and each rank
// reduces all arrays itself. That takes one message each way instead of the ring's 2 (size - 1) rounds. Measured with
// two processes on two cores: 0.10 ms instead of 0.14 for 4 bytes, and 0.20 ms instead of 0.36 for 116 KB (a small
// network's gradients). From 1 MB on, the ring is faster.
constexpr std::size_t direct_bytes = 256 * 1024;

// Messages between two ranks and rounds of messages use slots above those of Gloo's own algorithms.
constexpr std::uint64_t transfer_slot = 0x7dull << 56;
constexpr std::uint64_t round_slot = 0x7eull << 56;
constexpr std::uint64_t probe_slot = 0x7full << 56;

class StoreAdapter : public gloo::rendezvous::Store {
 public:
  StoreAdapter(distributed::Store& store, Milliseconds timeout) : store_(store), timeout_(timeout) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    store_.set(key, std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    store_.wait({key}, timeout_);
    const std::string value = store_.get(key);
    return {value.begin(), value.end()};
  }
  // Gloo waits for a key before it gets the key, but get() waits too. Each rank gets the addresses of every other rank,
  // so one wait less saves many queries in a large job.
  void wait(const std::vector<std::string>&) override {}
  void wait(const std::vector<std::string>&, const Milliseconds&) override {}

 private:
  distributed::Store& store_;
  Milliseconds timeout_;
};

// Gloo's own timeouts also count the time during which this process is stopped, so a GlooAlarm ends the waits instead.
constexpr Milliseconds for_ever = std::chrono::hours(24 * 365);

using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

std::string address_of_this_rank(Store& store, const Members& members, const std::string& interface) {
  if (interface.empty() && share_a_host(members)) return "127.0.0.1";
  const auto choices = addresses_for_other_hosts.entries();
  TANDEM_CHECK(!choices.empty(), "this build leaves out the annex for ",
               interface.empty() ? "" : "--interface and for ", "ranks on several hosts");
  return choices.front()(interface, store.local_address());
}

class GlooTransport : public HostTransport {
 public:
  GlooTransport(std::shared_ptr<Store> store, const Members& members, const GroupOptions& options)
      : rank_(options.rank), size_(options.size), sent_(options.size), received_(options.size) {
    ignore_write_signals();  // Gloo writes to sockets whose other end may be gone
    const std::string address = address_of_this_rank(*store, members, options.interface);
    try {
      auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()));
      auto context = std::make_shared<gloo::rendezvous::Context>(rank_, size_);
      // While connecting, Gloo waits five times the context's timeout for each peer.
      context->setTimeout(std::max(options.timeout / 5, Milliseconds(1)));
      StoreAdapter adapter(*store, options.timeout);
      context->connectFullMesh(adapter, device);
      context->setTimeout(options.timeout);
      context_ = context;
      alarm_ = std::make_shared<GlooAlarm>(context_);
    } catch (const std::exception& error) {
      const std::string reason = error.what();
      const bool is_out_of_files = reason.find(std::strerror(EMFILE)) != std::string::npos;
      detail::fail(members[rank_].name(), " at ", address, " could not connect to all other ranks: ", reason,
                   is_out_of_files
                       ? ": raise the limit (ulimit -n)"
                       : ". Check whether the hosts can reach each other's addresses (--interface chooses "
                         "the network), and whether a firewall lets all ports through: Gloo uses any free port");
    }
  }

  const char* name() const override { return "gloo"; }

  void run(const Operation& operation, const Call& call) override {
    // Ranks whose operations differ must not receive each other's bytes. The tag contains 16 bits of a hash of the
    // signature, so such messages do not match (except by chance, 1 in 65,536), and the watchdog explains why.
    const auto fingerprint = static_cast<std::uint16_t>(std::hash<std::string>{}(call.signature));
    const auto tag = static_cast<std::uint32_t>(call.sequence << 16) | fingerprint;
    try {
      const auto until = GlooAlarm::set(alarm_, call.deadline);
      dispatch(operation, tag);
    } catch (const PeersLate&) {
      throw;
    } catch (const std::exception& exception) {
      explain(exception);
      throw;
    }
  }

  std::unique_ptr<Transfer> send(const void* data, std::size_t bytes, int to) override {
    const auto* first = static_cast<const char*>(data);
    std::vector<char> copy(first, first + bytes);
    auto buffer = context_->createUnboundBuffer(copy.data(), bytes);
    auto refused = refusal([&] { buffer->send(to, transfer_slot | sent_[to]++); });
    return std::make_unique<GlooTransfer>(*this, std::move(buffer), to, std::move(refused), std::move(copy));
  }

  std::unique_ptr<Transfer> receive(void* data, std::size_t bytes, int from) override {
    auto buffer = context_->createUnboundBuffer(data, bytes);
    auto refused = refusal([&] { buffer->recv(from, transfer_slot | received_[from]++); });
    return std::make_unique<GlooTransfer>(*this, std::move(buffer), from, std::move(refused));
  }

  void break_off() noexcept override { alarm_->ring(); }

 private:
  class GlooTransfer : public Transfer {
   public:
    GlooTransfer(GlooTransport& transport, Buffer buffer, int peer, std::exception_ptr refused,
                 std::optional<std::vector<char>> sent = {})
        : transport_(transport),
          sent_(std::move(sent)),
          buffer_(std::move(buffer)),
          peer_(peer),
          refused_(std::move(refused)) {}
    // The group may already be destroyed, and with it the thread that could wake this one.
    ~GlooTransfer() override {
      if (waiter_.valid()) sent_ ? buffer_->abortWaitSend() : buffer_->abortWaitRecv();
    }

    // Gloo can wait but not poll, so another thread waits in the meantime.
    bool is_done() override {
      if (refused_) return true;
      if (!waiter_.valid()) {
        try {
          waiter_ = std::async(std::launch::async,
                               [this, alarm = transport_.alarm_, end = RunningTime::now() + transport_.timeout()] {
                                 wait_in_gloo(alarm, end);
                               });
        } catch (const std::system_error& error) {
          detail::fail_without_thread("the thread that waits for a message", error.code());
        }
      }
      return waiter_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    }

    void wait(Deadline deadline) override {
      bool is_late = false;
      try {
        if (waiter_.valid()) {
          // The thread may have started to wait after the message was started. Its deadline may then be later than this
          // one.
          is_late = !wait_until(waiter_, deadline);
          if (is_late) transport_.break_off();
          waiter_.get();
        } else {
          wait_in_gloo(transport_.alarm_, deadline);
        }
      } catch (const std::exception& exception) {
        if (is_late || transport_.alarm_->has_rung()) throw PeersLate({peer_});
        if (refused_) throw PeerGone(peer_, exception.what());
        transport_.explain(exception);
        throw;
      }
    }

   private:
    // `alarm` belongs to the transport, which may already be destroyed.
    void wait_in_gloo(const std::shared_ptr<GlooAlarm>& alarm, Deadline deadline) {
      if (refused_) std::rethrow_exception(refused_);
      const auto until = GlooAlarm::set(alarm, deadline);
      if (sent_) {
        buffer_->waitSend(for_ever);
      } else {
        buffer_->waitRecv(for_ever);
      }
    }

    GlooTransport& transport_;
    std::optional<std::vector<char>> sent_;  // the bytes of a send
    Buffer buffer_;
    const int peer_;
    const std::exception_ptr refused_;
    std::future<void> waiter_;
  };

  // Gloo throws as soon as a message is started if the peer's connection is closed. The wait later reports which peer
  // it was.
  template <class Start>
  static std::exception_ptr refusal(const Start& start) {
    try {
      start();
    } catch (const std::exception&) {
      return std::current_exception();
    }
    return nullptr;
  }

  Milliseconds timeout() const { return context_->getTimeout(); }

  void dispatch(const Operation& operation, std::uint32_t tag) {
    const auto& in = operation.inputs;
    const auto& out = operation.outputs;
    const int root = operation.root;
    switch (operation.kind) {
      case Kind::broadcast: return broadcast(out[0], root, tag);
      case Kind::all_reduce: return all_reduce(out[0], operation.reduce_op, tag);
      case Kind::reduce: return reduce(out[0], root, operation.reduce_op, tag);
      case Kind::all_gather: return send_and_receive(std::vector<Array>(size_, in[0]), out, tag);
      case Kind::all_to_all: return send_and_receive(in, out, tag);
      case Kind::reduce_scatter: return reduce_scatter(in, out[0], operation.reduce_op, tag);
      case Kind::gather: {
        std::vector<Array> mine(size_);
        mine[root] = in[0];
        return send_and_receive(mine, rank_ == root ? out : std::vector<Array>(size_), tag);
      }
      case Kind::scatter: {
        std::vector<Array> theirs(size_);
        theirs[root] = out[0];
        return send_and_receive(rank_ == root ? in : std::vector<Array>(size_), theirs, tag);
      }
      case Kind::barrier: {
        const auto token = Array::empty({1}, DType::u8);
        std::vector<Array> tokens(size_);
        for (auto& t : tokens) t = Array::empty({1}, DType::u8);
        return send_and_receive(std::vector<Array>(size_, token), tokens, tag);
      }
      case Kind::send:
      case Kind::receive: break;
    }
    detail::fail("gloo: ", operation.what(), " is not a collective");
  }

  // Runs one round of messages: sends outgoing[r] to rank r, and receives incoming[r] from it. An undefined array means
  // that there is no message.
  void send_and_receive(const std::vector<Array>& outgoing, const std::vector<Array>& incoming, std::uint32_t tag) {
    const std::uint64_t slot = round_slot | tag;
    std::vector<Buffer> out(size_), in(size_);
    for (int step = 1; step < size_; ++step) {
      const int to = (rank_ + step) % size_, from = (rank_ + size_ - step) % size_;
      if (incoming[from].defined()) {
        in[from] = context_->createUnboundBuffer(incoming[from].raw(), incoming[from].bytes());
        in[from]->recv(from, slot);
      }
      if (outgoing[to].defined()) {
        out[to] = context_->createUnboundBuffer(outgoing[to].raw(), outgoing[to].bytes());
        out[to]->send(to, slot);
      }
    }
    // An array must not be copied onto itself, because Gloo's thread may be reading it.
    if (incoming[rank_].defined() && incoming[rank_].raw() != outgoing[rank_].raw())
      std::memmove(incoming[rank_].raw(), outgoing[rank_].raw(), outgoing[rank_].bytes());

    // The first timeout closes all connections. Data that had arrived by then still counts. All other ranks are
    // missing.
    std::vector<int> missing;
    const auto wait = [&](int peer, const auto& wait_for) {
      try {
        wait_for();
      } catch (const std::exception&) {
        if (!alarm_->has_rung()) throw;
        missing.push_back(peer);
      }
    };
    for (int r = 0; r < size_; ++r) {
      if (in[r]) wait(r, [&] { in[r]->waitRecv(for_ever); });
    }
    // Even after a timeout, wait for the sends: Gloo's thread may still be reading their arrays.
    const std::size_t late = missing.size();
    for (int r = 0; r < size_; ++r) {
      if (out[r]) wait(r, [&] { out[r]->waitSend(for_ever); });
    }
    if (late > 0) missing.resize(late);
    if (!missing.empty()) throw PeersLate(missing);
  }

  void broadcast(const Array& array, int root, std::uint32_t tag) {
    gloo::BroadcastOptions options(context_);
    options.setOutput(static_cast<char*>(array.raw()), array.bytes());
    options.setRoot(root);
    options.setTag(tag);
    options.setTimeout(for_ever);
    late_as_all([&] { gloo::broadcast(options); });
  }

  void all_reduce(const Array& array, ReduceOp op, std::uint32_t tag) {
    // Every rank reduces a small array in rank order, so the results are bitwise identical.
    if (array.bytes() * static_cast<std::size_t>(size_ - 1) <= direct_bytes)
      return reduce_scatter(std::vector<Array>(size_, array), array, op, tag);
    // Each part of the array is reduced along one path around the ring and then copied, so the results are bitwise
    // identical on all ranks.
    scale_for_mean(array, op);
    gloo::AllreduceOptions options(context_);
    set_elements(options, array);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setReduceFunction(reduce_two(array.dtype(), op));
    options.setTag(tag);
    options.setTimeout(for_ever);
    late_as_all([&] { gloo::allreduce(options); });
  }

  void reduce(const Array& array, int root, ReduceOp op, std::uint32_t tag) {
    // Gloo uses the output of every rank as its workspace, but only the root may change the caller's array.
    const Array workspace = rank_ == root ? array : array.clone();
    scale_for_mean(workspace, op);
    gloo::ReduceOptions options(context_);
    set_elements(options, workspace);
    options.setReduceFunction(reduce_two(array.dtype(), op));
    options.setRoot(root);
    options.setTag(tag);
    options.setTimeout(for_ever);
    late_as_all([&] { gloo::reduce(options); });
  }

  void reduce_scatter(const std::vector<Array>& inputs, const Array& output, ReduceOp op, std::uint32_t tag) {
    std::vector<Array> theirs(size_);
    for (int r = 0; r < size_; ++r) theirs[r] = r == rank_ ? inputs[r] : Array::empty(output.shape(), output.dtype());
    send_and_receive(inputs, theirs, tag);
    reduce_all(theirs, output, op);
  }

  static void reduce_all(const std::vector<Array>& sources, const Array& output, ReduceOp op) {
    std::vector<const void*> pointers;
    for (const auto& source : sources) pointers.push_back(source.raw());
    reduce_function(output.dtype(), op)(output.raw(), pointers.data(), static_cast<int>(pointers.size()),
                                        static_cast<std::size_t>(output.numel()));
  }

  void scale_for_mean(const Array& array, ReduceOp op) const {
    if (op == ReduceOp::mean) scale(array.raw(), array.dtype(), static_cast<std::size_t>(array.numel()), 1.0 / size_);
  }

  // Gloo's own algorithms don't report which rank they wait for. If one times out, all other ranks count as late.
  template <class Run>
  void late_as_all(const Run& run) {
    try {
      run();
    } catch (const std::exception&) {
      if (!alarm_->has_rung()) throw;
      std::vector<int> others;
      for (int r = 0; r < size_; ++r) {
        if (r != rank_) others.push_back(r);
      }
      throw PeersLate(others);
    }
  }

  // Gloo knows connections, not ranks. Using the broken connection again throws the same exception, which identifies
  // its rank.
  void explain(const std::exception& exception) {
    const std::string text = exception.what();
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      try {
        char probe = 0;
        context_->createUnboundBuffer(&probe, 0)->send(r, probe_slot);
      } catch (const std::exception& broken) {
        if (broken.what() == text) throw PeerGone(r, text);
      }
    }
  }

  // Gloo uses the C++ type only for its size.
  template <class GlooOptionsType>
  static void set_elements(GlooOptionsType& options, const Array& array) {
    const auto n = static_cast<std::size_t>(array.numel());
    switch (size_of(array.dtype())) {
      case 1: return options.setOutput(static_cast<std::uint8_t*>(array.raw()), n);
      case 2: return options.setOutput(static_cast<std::uint16_t*>(array.raw()), n);
      case 4: return options.setOutput(static_cast<std::uint32_t*>(array.raw()), n);
      default: return options.setOutput(static_cast<std::uint64_t*>(array.raw()), n);
    }
  }

  static std::function<void(void*, const void*, const void*, std::size_t)> reduce_two(DType dtype, ReduceOp op) {
    // The arrays have already been scaled for a mean, so it is a sum here.
    return [f = reduce_function(dtype, op == ReduceOp::mean ? ReduceOp::sum : op)](void* out, const void* a,
                                                                                   const void* b, std::size_t n) {
      const void* sources[] = {a, b};
      f(out, sources, 2, n);
    };
  }

  const int rank_;
  const int size_;
  std::shared_ptr<gloo::Context> context_;
  std::shared_ptr<GlooAlarm> alarm_;
  std::vector<std::uint64_t> sent_, received_;  // messages, by peer
};

}  // namespace

std::unique_ptr<HostTransport> gloo_transport(std::shared_ptr<Store> store, const Members& members,
                                              const GroupOptions& options) {
  return std::make_unique<GlooTransport>(std::move(store), members, options);
}

}  // namespace tandem::distributed
