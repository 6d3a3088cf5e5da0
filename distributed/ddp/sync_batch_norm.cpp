#include <tandem/distributed/ddp/sync_batch_norm.h>

#include <string>
#include <utility>
#include <vector>

namespace tandem::distributed {
namespace {

// Exchanges the data of batch norms over a process group. The header has the formulas.
class GroupExchange : public BatchNormExchange {
 public:
  // `layer` appears in the errors of the group.
  GroupExchange(std::shared_ptr<ProcessGroup> group, const std::string& layer)
      : group_(std::move(group)), statistics_("statistics of " + layer), sums_("gradient sums of " + layer) {}

  Array gather(const Array& mine) override {
    const Array all = Array::empty({group_->size(), mine.numel()}, mine.dtype(), mine.device());
    std::vector<Array> rows;
    for (int r = 0; r < group_->size(); ++r) rows.push_back(all.select(0, r));
    group_->all_gather(rows, mine, statistics_)->wait();
    return all;
  }

  Array sum_over_ranks(const Array& mine) override {
    const Array message = mine.clone();
    group_->all_reduce(message, ReduceOp::sum, sums_)->wait();
    return message;
  }

 private:
  std::shared_ptr<ProcessGroup> group_;
  std::string statistics_, sums_;
};

void convert(nn::Module& module, const std::string& name, const std::shared_ptr<ProcessGroup>& group) {
  if (auto* norm = dynamic_cast<nn::BatchNorm2d*>(&module))
    norm->set_exchange(batch_norm_exchange(group, name.empty() ? "batch norm" : name));
  for (const auto& [child_name, child] : module.children())
    convert(*child, name.empty() ? child_name : name + '.' + child_name, group);
}

}  // namespace

std::shared_ptr<BatchNormExchange> batch_norm_exchange(const std::shared_ptr<ProcessGroup>& group,
                                                       const std::string& layer) {
  return required(group, "SyncBatchNorm")->size() > 1 ? std::make_shared<GroupExchange>(group, layer) : nullptr;
}

void convert_sync_batch_norm(nn::Module& model, const std::shared_ptr<ProcessGroup>& group) {
  convert(model, "", required(group, "convert_sync_batch_norm"));
}

SyncBatchNorm::SyncBatchNorm(std::int64_t channels, const std::shared_ptr<ProcessGroup>& group,
                             const nn::BatchNorm2dOptions& options)
    : BatchNorm2d(channels, options) {
  set_exchange(batch_norm_exchange(group, "batch norm"));
}

}  // namespace tandem::distributed
