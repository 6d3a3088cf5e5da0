#include <tandem/core/backend/backend.h>
#include <tandem/core/cuda/runtime.h>
#include <tandem/distributed/groups/device_group.h>
#include <tandem/distributed/groups/executor.h>
#include <tandem/distributed/groups/forwarding_group.h>
#include <tandem/distributed/groups/nccl/nccl_executor.h>
#include <tandem/distributed/groups/nccl/nccl_group.h>
#include <tandem/distributed/system/host_identity.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

namespace tandem::distributed {
namespace {

using Kind = Operation::Kind;

// If two ranks use the same GPU, NCCL hangs, or fails with an error that names neither rank. This check throws the same
// Error on all ranks. The slices of a GPU (MIG) have the same bus id, but different UUIDs.
void check_own_gpu(ProcessGroup& host, const Members& members, Device device) {
  char bus_id[32] = "";
  TANDEM_CUDA(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device.index));
  cudaDeviceProp properties;
  TANDEM_CUDA(cudaGetDeviceProperties(&properties, device.index));
  const std::string uuid(properties.uuid.bytes, sizeof properties.uuid.bytes);
  const auto gpus = host.all_gather_strings(machine_identity() + uuid + '\n' + bus_id, "which GPU each rank has");
  const char* allowed = std::getenv("TANDEM_ALLOW_SHARED_GPU");
  if (allowed && std::strcmp(allowed, "1") == 0) return;
  std::map<std::string, std::size_t> owner;
  for (std::size_t r = 0; r < gpus.size(); ++r) {
    const auto [first, is_new] = owner.emplace(gpus[r], r);
    TANDEM_CHECK(is_new, members[first->second].name(), " and ", members[r].name(), " have the same GPU, ",
                 gpus[r].substr(gpus[r].rfind('\n') + 1),
                 ": start at most as many processes per host as it has GPUs, and give each its own "
                 "(LOCAL_RANK, or a CUDA_VISIBLE_DEVICES that differs from process to process)");
  }
}

class NcclGroup : public ForwardingGroup {
 public:
  NcclGroup(std::shared_ptr<ProcessGroup> host, Device device, int job_rank, const Observers& observers)
      : ForwardingGroup(std::move(host)), device_(device), observers_(observers) {
    tandem::backend(device_);  // makes it this thread's device
    auto store = prefix_store("nccl", group_->store());
    auto members = collect_members(*store, rank(), size(), {.rank = job_rank, .backend = "nccl"}, timeout());
    check_own_gpu(*group_, members, device_);
    ncclUniqueId id;
    const auto text = rank() == 0 ? make_nccl_id() : ncclUniqueId{};
    const auto agreed = group_->broadcast_string(std::string(text.internal, sizeof text.internal), 0, "NCCL's id");
    std::memcpy(id.internal, agreed.data(), sizeof id.internal);
    executor_ = std::make_shared<NcclExecutor>(group_, std::move(store), std::move(members), device_, observers_, id);
  }
  ~NcclGroup() override { executor_->close(); }

  const char* backend() const override { return "nccl"; }

  Array allocate(const Shape& shape, DType dtype, Device device) override {
    return device == device_ ? executor_->allocate(shape, dtype) : group_->allocate(shape, dtype, device);
  }

  std::shared_ptr<ProcessGroup> subgroup(const std::vector<int>& ranks) override {
    auto part = group_->subgroup(ranks);
    if (!part) return nullptr;
    return nccl_group(std::move(part), device_, executor_->members()[static_cast<std::size_t>(rank())].rank,
                      observers_);
  }

  std::shared_ptr<Work> start(Operation operation) override {
    const Array* one = !operation.outputs.empty()  ? &operation.outputs.front()
                       : !operation.inputs.empty() ? &operation.inputs.front()
                                                   : nullptr;
    const bool message = operation.kind == Kind::send || operation.kind == Kind::receive;
    if (one && !one->device().is_cpu() && !message) return executor_->start(std::move(operation));
    // Code that runs after a failure on the GPU, such as a checkpoint, must not use the undefined numbers in its
    // memory.
    const auto failure = executor_->failure();
    if (!failure.empty()) throw PeerError(broken_text(operation.what(), failure));
    return group_->start(std::move(operation));
  }

 private:
  const Device device_;
  const Observers observers_;
  std::shared_ptr<NcclExecutor> executor_;
};

}  // namespace

std::shared_ptr<ProcessGroup> nccl_group(std::shared_ptr<ProcessGroup> host, Device device, int job_rank,
                                         const Observers& observers) {
  TANDEM_CHECK(!device.is_cpu(), "a group over NCCL needs a GPU, got the device ", device);
  return std::make_shared<NcclGroup>(std::move(host), device, job_rank, observers);
}

}  // namespace tandem::distributed

namespace tandem {

void add_nccl_group() { distributed::device_groups.add(distributed::nccl_group); }

}  // namespace tandem
