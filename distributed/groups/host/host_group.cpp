#include <tandem/core/ops/create.h>
#include <tandem/distributed/groups/host/host_executor.h>
#include <tandem/distributed/groups/host/host_group.h>
#include <tandem/distributed/groups/host/host_transport.h>
#include <tandem/distributed/groups/signs_of_life.h>

#include <iostream>

namespace tandem::distributed {
namespace {

class HostGroup : public ProcessGroup {
 public:
  HostGroup(std::shared_ptr<Store> store, const GroupOptions& options, int job_rank)
      : store_(std::move(store)), options_(options) {
    leave_when_gone(*store_, options.rank);
    const bool may_share = chooses_ || options.backend == GroupBackend::shm;
    auto members = collect_members(*store_, options.rank, options.size,
                                   {.rank = job_rank,
                                    .backend = name_of(options.for_gpus ? GroupBackend::nccl : options.backend),
                                    .cannot_share = may_share ? shared_memory_problem(options.size) : ""},
                                   options.timeout);
    if (const auto problem = different_backends(members); !problem.empty()) give_up(problem);
    auto transport = connect(members);
    executor_ = std::make_shared<HostExecutor>(store_, std::move(members), options, std::move(transport));
    name_ = executor_->transport().name();
  }
  ~HostGroup() override {
    executor_->close();
    try {
      leave(*store_, rank());
    } catch (const std::exception&) {
      // The store is gone, so no other rank could read the key.
    }
  }

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  const char* backend() const override { return name_; }
  std::shared_ptr<Store> store() const override { return store_; }
  std::chrono::milliseconds timeout() const override { return options_.timeout; }
  Array allocate(const Shape& shape, DType dtype, Device device) override {
    return device.is_cpu() ? executor_->transport().allocate(shape, dtype) : ops::zeros(shape, dtype, device);
  }

  std::shared_ptr<ProcessGroup> subgroup(const std::vector<int>& ranks) override {
    GroupOptions options = options_;
    options.rank = -1;
    options.size = static_cast<int>(ranks.size());
    if (no_sharing_) options.backend = GroupBackend::gloo;
    std::vector<char> seen(static_cast<std::size_t>(size()));
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const int r = ranks[i];
      TANDEM_CHECK(r >= 0 && r < size(), "rank ", r, " of a subgroup is not in this group of ", size());
      TANDEM_CHECK(!seen[r]++, "rank ", r, " is named twice in a subgroup");
      if (r == rank()) options.rank = static_cast<int>(i);
    }
    const std::string list = rank_list(ranks, ranks.size());
    const std::string key = "subgroup/" + std::to_string(++subgroups_);
    const std::string agreed = store_->compare_set(key, "", list);
    TANDEM_CHECK(agreed == list, "rank ", rank(), " asks for a subgroup of ", list, ", another rank for one of ",
                 agreed, ": all ranks must make the same subgroups in the same order");
    if (options.rank < 0) return nullptr;
    return std::make_shared<HostGroup>(prefix_store(key, store_), options, executor_->members()[rank()].rank);
  }

  std::shared_ptr<Work> start(Operation operation) override { return executor_->start(std::move(operation)); }

 private:
  std::unique_ptr<HostTransport> connect(const Members& members) {
    for (const auto& kind : host_transports.entries()) {
      if (kind.backend == options_.backend) return kind.make(*store_, members, options_);
    }
    TANDEM_CHECK(options_.backend != GroupBackend::mpi,
                 "this build has no MPI: install libopenmpi-dev and build again, or use --backend gloo");
    bool shares = options_.backend == GroupBackend::shm || (chooses_ && share_a_host(members));
    for (const auto& member : members) {
      if (!shares || member.cannot_share.empty()) continue;
      const auto problem = member.name() + ": " + member.cannot_share;
      if (!chooses_) give_up(problem);
      shares = false;
      no_sharing_ = true;
      if (rank() == 0) std::cerr << "note: the ranks communicate over TCP: " << problem << std::endl;
    }
    return shares ? shared_memory_transport(*store_, members, options_) : gloo_transport(store_, members, options_);
  }

  [[noreturn]] void give_up(const std::string& problem) {  // all ranks find the same problem
    leave_together(*store_, rank(), size());
    detail::fail(problem);
  }

  const std::shared_ptr<Store> store_;  // rank 0 may be serving it while other ranks are still connecting
  const GroupOptions options_;
  const bool chooses_ = options_.backend == GroupBackend::automatic;  // whether the group chooses its transport itself
  std::shared_ptr<HostExecutor> executor_;
  const char* name_ = "";
  bool no_sharing_ = false;  // all ranks are on one host, but can't share memory
  int subgroups_ = 0;
};

}  // namespace

std::shared_ptr<ProcessGroup> host_group(std::shared_ptr<Store> store, const GroupOptions& options) {
  TANDEM_CHECK(options.size >= 1 && options.rank >= 0 && options.rank < options.size, "rank ", options.rank,
               " is not in a group of ", options.size);
  TANDEM_CHECK(options.backend != GroupBackend::nccl,
               "nccl is not a backend for a group on the host: init() makes NCCL "
               "groups; or choose auto, gloo, shm or mpi");
  TANDEM_CHECK(options.timeout > std::chrono::milliseconds::zero(), "a process group needs a timeout above 0");
  return std::make_shared<HostGroup>(std::move(store), options, options.rank);
}

}  // namespace tandem::distributed
