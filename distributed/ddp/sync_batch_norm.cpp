#include <tandem/distributed/ddp/sync_batch_norm.h>

#include <string>
#include <utility>
#include <vector>

namespace tandem::distributed {
namespace {

using functors::Add, functors::Div, functors::Mul, functors::Sub;

// Exchanges over a process group what batch norms need; the formulas stand in the header.
class GroupExchange : public BatchNormExchange {
 public:
  // `layer` appears in the errors of the group.
  GroupExchange(std::shared_ptr<ProcessGroup> group, const std::string& layer)
      : group_(std::move(group)), statistics_("statistics of " + layer), sums_("gradient sums of " + layer) {}

  // Forward: gathers every rank's (mean, m2, count) and combines them. mean and m2 are (C), count is ().
  ops::BatchNormStats combine(const ops::BatchNormStats& mine) override {
    const std::int64_t channels = mine.mean.numel();
    // The message is in f64: counts are exact there, and combining rounds far less than each rank's own sums did.
    const Device device = mine.mean.device();
    const Array message = Array::empty({2 * channels + 1}, DType::f64, device);
    message.slice(0, 0, channels).copy_from(mine.mean);
    message.slice(0, channels, 2 * channels).copy_from(mine.m2);
    message.slice(0, 2 * channels, 2 * channels + 1).copy_from(mine.count);

    const Array all = Array::empty({group_->size(), 2 * channels + 1}, DType::f64, device);
    std::vector<Array> rows;
    for (int r = 0; r < group_->size(); ++r) rows.push_back(all.select(0, r));
    group_->all_gather(rows, message, statistics_)->wait();

    // A rank's m2 around the common mean is its own m2 plus count * (its own mean - the common mean)^2. A rank without
    // images has count 0, so it adds nothing.
    const Array means = all.slice(1, 0, channels), m2s = all.slice(1, channels, 2 * channels);
    const Array counts = all.slice(1, 2 * channels, 2 * channels + 1);
    const Array count = ops::reduce(Reduction::sum, counts);
    const Array mean = ops::zip(Div{}, ops::reduce(Reduction::sum, ops::zip(Mul{}, means, counts), {0}), count);
    const Array off = ops::zip(Sub{}, means, mean);
    const Array between = ops::zip(Mul{}, ops::zip(Mul{}, off, off), counts);
    const Array m2 = ops::reduce(Reduction::sum, ops::zip(Add{}, m2s, between), {0});
    const DType dtype = mine.mean.dtype();
    return {mean.to(dtype), m2.to(dtype), count.to(dtype)};
  }

  // Backward: sums each channel's dy and dy * xhat over the ranks, in one message (2, C).
  ops::BatchNormSums sum_over_ranks(const ops::BatchNormSums& mine) override {
    const Array message = Array::empty({2, mine.dy.numel()}, mine.dy.dtype(), mine.dy.device());
    const ops::BatchNormSums sums{message.select(0, 0), message.select(0, 1)};
    Array(sums.dy).copy_from(mine.dy);
    Array(sums.dy_xhat).copy_from(mine.dy_xhat);
    group_->all_reduce(message, ReduceOp::sum, sums_)->wait();
    return sums;
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
                             const nn::BatchNormOptions& options)
    : BatchNorm2d(channels, options) {
  set_exchange(batch_norm_exchange(group, "batch norm"));
}

}  // namespace tandem::distributed
