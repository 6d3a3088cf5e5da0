#include <tandem/core/base/check.h>
#include <tandem/core/base/thread.h>
#include <tandem/distributed/launch/coordinator.h>
#include <tandem/distributed/launch/node_messages.h>
#include <tandem/distributed/launch/node_rendezvous.h>
#include <tandem/distributed/store/tcp_store.h>
#include <tandem/distributed/system/host_identity.h>
#include <tandem/distributed/system/socket.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

namespace tandem::distributed {
namespace {

using State = NodeStatus::State;
using Action = JobAssignment::Action;

// Returns whether `host` is an address of this machine, which is the case if a socket can listen there.
bool is_local(const std::string& host) {
  try {
    listen_on(host, 0);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The keys are "nodes" (the number of nodes that have joined), "node/<id>" (a status) and "assignment". Every node
// writes its status and reads the assignment. The node that serves the store also reads every status and writes the
// assignment.
class ManyNodes final : public NodeRendezvous {
 public:
  ManyNodes(const LaunchOptions& options, const std::string& token, const NodeStatus& status)
      : options_(options), token_(token), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), status_(status) {
    TANDEM_CHECK(wake_.is_open(), "launcher: cannot create an event: ", errno_text());
    serve_if_ours();
    thread_ = start_thread("the thread that meets the other nodes", [this] { run(); });
  }

  ~ManyNodes() override {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  int port() const override { return options_.master_port; }
  int fd() const override { return wake_.get(); }
  int refused_clients() const override { return server_ ? server_->refused_clients() : 0; }

  int id() const override {
    const std::lock_guard lock(mutex_);
    return id_;
  }

  JobAssignment assignment() override {
    std::uint64_t count;
    [[maybe_unused]] const auto n = ::read(wake_.get(), &count, sizeof count);
    const std::lock_guard lock(mutex_);
    return assignment_;
  }

  void report(const NodeStatus& status) override {
    {
      const std::lock_guard lock(mutex_);
      status_ = status;
      is_news_ = true;
    }
    changed_.notify_all();
  }

  bool is_released() override {
    const std::lock_guard lock(mutex_);
    return is_released_ || id_ < 0;  // other nodes don't know a node that has never joined
  }

 private:
  void serve_if_ours();
  void run();
  void connect();
  void exchange(const NodeStatus& status);
  bool decide();  // returns whether every other node has left or is lost
  void publish(const JobAssignment& assignment);
  bool is_over() const {
    const std::lock_guard lock(mutex_);
    return is_over_;
  }

  const LaunchOptions& options_;
  const std::string token_;
  const FileDescriptor wake_;
  std::unique_ptr<TcpStoreServer> server_;

  // Only thread_ uses these members.
  std::shared_ptr<Store> store_;
  std::unique_ptr<Coordinator> coordinator_;
  std::int64_t beats_ = 0;       // how many statuses this node has published
  std::string assignment_text_;  // the last assignment that was read, as stored
  // The last status of another node, as stored, and when it changed.
  struct Heard {
    std::string text;
    Deadline when;
  };
  std::map<int, Heard> heard_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_. Only thread_ writes id_, so it reads id_ without the mutex.
  NodeStatus status_;
  bool is_news_ = false;  // whether status_ has not been published yet
  JobAssignment assignment_;
  int id_ = -1;
  bool is_released_ = false;
  bool is_over_ = false;

  std::thread thread_;
};

void ManyNodes::serve_if_ours() {
  const bool is_ours = options_.serves_store ? *options_.serves_store
                       : options_.node_rank  ? *options_.node_rank == 0
                                             : is_local(options_.master_addr);
  if (!is_ours) return;
  try {
    // If the launchers expect the store at a loopback address, they are all on this host.
    const std::string host = is_loopback(options_.master_addr) ? options_.master_addr : "";
    server_ = std::make_unique<TcpStoreServer>(TcpStoreServer::Options{host, options_.master_port, token_});
  } catch (const Error&) {
    // The port is in use, probably by another launcher of this job on this host, which then serves the store. If
    // another program listens there, connect() will report that.
    if (options_.node_rank || options_.serves_store) throw;
  }
}

void ManyNodes::run() {
  try {
    connect();
    auto next = RunningTime::now();
    for (;;) {
      NodeStatus status;
      {
        std::unique_lock lock(mutex_);
        wait_until(changed_, lock, next, [this] { return is_over_ || is_news_; });
        if (is_over_) return;
        is_news_ = false;
        status = status_;
      }
      next = RunningTime::now() + options_.monitor_interval;
      exchange(status);
    }
  } catch (const std::exception& error) {
    JobAssignment assignment;
    {
      const std::lock_guard lock(mutex_);
      assignment = assignment_;
      is_released_ = true;
    }
    assignment.action = Action::failed;
    assignment.failures.clear();
    assignment.reason = error.what();
    assignment.exit_code = 1;
    publish(assignment);
  }
}

void ManyNodes::connect() {
  // The node that serves the store may start much later, and the user may stop this launcher until then. An attempt
  // takes at most 1 s, so the launcher notices a stop within that time.
  const auto deadline = RunningTime::now() + options_.join_timeout;
  const auto name = endpoint_name(options_.master_addr, options_.master_port);
  for (bool is_reachable = false; !is_reachable && !is_over();) {
    try {
      connect_to(options_.master_addr, options_.master_port,
                 std::min(deadline, RunningTime::now() + std::chrono::seconds(1)));
      is_reachable = true;
    } catch (const CannotConnect& error) {
      TANDEM_CHECK(RunningTime::now() < deadline, "waited ",
                   std::chrono::duration<double>(options_.join_timeout).count(), " s for the node that serves ", name,
                   " in vain: check whether tandemrun is running there, whether this is its address (--master-addr and "
                   "--master-port, or --rdzv-endpoint), and whether a firewall blocks this port. The last attempt: ",
                   error.what());
    }
  }
  if (is_over()) return;
  const auto store = std::make_shared<TcpStore>(
      TcpStore::Options{options_.master_addr, options_.master_port, options_.silence_allowed, token_});
  store_ = prefix_store("tandemrun/" + options_.run_id, store);
  const auto id = static_cast<int>(store_->add("nodes", 1)) - 1;
  const std::lock_guard lock(mutex_);
  id_ = id;
}

void ManyNodes::exchange(const NodeStatus& status) try {
  auto mine = status;
  mine.id = id_;
  mine.serves_store = server_ != nullptr;
  // The leading number makes every text differ from the previous text, which shows that this node is alive.
  store_->set("node/" + std::to_string(id_), std::to_string(beats_++) + " " + encode(mine));
  // The node that serves the store must not end before the other nodes have left, because they would mistake that for a
  // failure.
  const bool is_alone = !server_ || decide();
  if (store_->check({"assignment"})) {
    auto text = store_->get("assignment");
    if (text != assignment_text_) {
      auto assignment = decode_assignment(text);
      if (std::ranges::count(assignment.refused, id_) > 0)
        assignment.fail("the job continues without this node", usage_exit_code);
      publish(assignment);
    }
    assignment_text_ = std::move(text);
  }
  if (status.state != State::left || !is_alone) return;
  const std::lock_guard lock(mutex_);
  is_released_ = true;
} catch (const ForeignText&) {
  throw;  // the node that serves the store is still there
} catch (const Error& error) {
  detail::fail("lost the node that serves the store at ", endpoint_name(options_.master_addr, options_.master_port),
               "; the job cannot continue without it: ", error.what());
}

bool ManyNodes::decide() {
  const auto now = RunningTime::now();
  if (!coordinator_) coordinator_ = std::make_unique<Coordinator>(options_, now);
  const auto count = static_cast<int>(store_->add("nodes", 0));
  std::vector<NodeStatus> nodes;
  std::string foreign;
  bool is_alone = true;
  for (int id = 0; id < count; ++id) {
    const auto key = "node/" + std::to_string(id);
    if (!store_->check({key})) continue;  // the node has joined, but has not published its status yet
    auto text = store_->get(key);
    auto& heard = heard_[id];
    if (heard.text != text) heard = {std::move(text), now};
    NodeStatus status;
    try {
      status = decode_status(heard.text.substr(heard.text.find(' ') + 1));
    } catch (const ForeignText& error) {
      // All nodes must read this reason, so this node keeps serving the store until they have left.
      foreign = error.what();
      continue;
    }
    status.silence = std::chrono::duration_cast<std::chrono::milliseconds>(now - heard.when);
    is_alone = is_alone && (id == id_ || status.state == State::left || status.silence > options_.silence_allowed);
    nodes.push_back(std::move(status));
  }
  store_->set("assignment",
              encode(foreign.empty() ? coordinator_->decide(nodes, now) : coordinator_->give_up(foreign)));
  return is_alone;
}

void ManyNodes::publish(const JobAssignment& assignment) {
  {
    const std::lock_guard lock(mutex_);
    assignment_ = assignment;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(wake_.get(), &one, sizeof one);
}

}  // namespace

}  // namespace tandem::distributed

namespace tandem {

void add_many_nodes() {
  using namespace distributed;
  rendezvous_of_many_nodes.add([](const LaunchOptions& options, const std::string& token, const NodeStatus& status) {
    return std::make_unique<ManyNodes>(options, token, status);
  });
}

}  // namespace tandem
