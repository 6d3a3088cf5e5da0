#include <tandem/core/ops.h>
#include <tandem/distributed/reducer.h>

#include <map>

namespace tandem::distributed {
namespace {

constexpr std::size_t alignment = 64;  // bytes: a cache line, and the widest vector register

}  // namespace

std::vector<std::vector<std::size_t>> assign_buckets(const std::vector<NamedTensor>& parameters,
                                                     BucketSizes sizes) {
  struct Open {
    std::size_t bucket;
    std::size_t bytes;
  };
  std::vector<std::vector<std::size_t>> buckets;
  std::map<DType, Open> open;
  std::map<DType, bool> first_closed;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const Array& value = parameters[i].tensor.value();
    if (!parameters[i].tensor.requires_grad()) continue;
    auto [entry, fresh] = open.try_emplace(value.dtype(), Open{buckets.size(), 0});
    if (fresh) buckets.emplace_back();
    buckets[entry->second.bucket].push_back(i);
    entry->second.bytes += value.bytes();
    bool& after_first = first_closed[value.dtype()];
    if (entry->second.bytes >= (after_first ? sizes.bytes : sizes.first_bytes)) {
      after_first = true;
      open.erase(entry);
    }
  }
  return buckets;
}

Reducer::Reducer(std::vector<NamedTensor> parameters, std::shared_ptr<ProcessGroup> group, BucketSizes sizes)
    : parameters_(std::move(parameters)),
      group_(std::move(group)),
      bucket_of_(parameters_.size()),
      ready_(parameters_.size()) {
  for (const auto& indices : assign_buckets(parameters_, sizes)) make_bucket(indices);
  for (const auto& bucket : buckets_) {
    for (const std::size_t i : bucket.parameters) {
      hooks_.push_back(parameters_[i].tensor.on_grad_ready([this, i] { gradient_ready(i); }));
    }
  }
}

Reducer::~Reducer() {
  for (auto& hook : hooks_) hook.remove();
}

void Reducer::make_bucket(const std::vector<std::size_t>& indices) {
  std::size_t bytes = 0;
  std::vector<std::size_t> offsets;
  for (const std::size_t i : indices) {
    offsets.push_back(bytes);
    bytes += (parameters_[i].tensor.value().bytes() + alignment - 1) / alignment * alignment;
  }
  const DType dtype = parameters_[indices[0]].tensor.dtype();
  Bucket bucket;
  bucket.memory = group_->allocate({static_cast<std::int64_t>(bytes / size_of(dtype))}, dtype);
  bucket.parameters = indices;
  for (std::size_t k = 0; k < indices.size(); ++k) {
    Tensor& parameter = parameters_[indices[k]].tensor;
    const Array& value = parameter.value();
    // A storage of its own, so that autograd counts the writes of each gradient apart.
    auto storage = storage_slice(bucket.memory.storage(), offsets[k], value.bytes());
    parameter.set_grad_buffer(
        Array(std::move(storage), value.shape(), contiguous_strides(value.shape()), 0, dtype));
    bucket_of_[indices[k]] = buckets_.size();
  }
  buckets_.push_back(std::move(bucket));
}

void Reducer::begin_backward() {
  started_ = 0;
  ready_.assign(ready_.size(), 0);
  for (auto& bucket : buckets_) {
    bucket.missing = bucket.parameters.size();
    bucket.work = nullptr;
  }
  // A backward pass that fails drops its callbacks and this token with them; the next one then starts afresh.
  auto token = std::make_shared<char>();
  backward_ = token;
  after_backward([this, token = std::move(token)] { end_backward(); });
}

void Reducer::gradient_ready(std::size_t parameter) {
  if (backward_.expired()) begin_backward();
  Tensor& tensor = parameters_[parameter].tensor;
  // Used, but nothing came back through it: its gradient is zero, and the other ranks expect one.
  if (!tensor.grad().defined()) tensor.set_grad(ops::zeros(tensor.shape(), tensor.dtype(), tensor.device()));
  ready_[parameter] = 1;
  --buckets_[bucket_of_[parameter]].missing;
  while (started_ < buckets_.size() && buckets_[started_].missing == 0) {
    Bucket& bucket = buckets_[started_];
    bucket.work =
        group_->all_reduce(bucket.memory, ReduceOp::mean, "gradient bucket " + std::to_string(started_));
    ++started_;
  }
}

void Reducer::end_backward() {
  backward_.reset();
  if (started_ < buckets_.size()) {
    std::string names;
    std::size_t count = 0;
    for (const auto& bucket : buckets_) {
      for (const std::size_t i : bucket.parameters) {
        if (ready_[i]) continue;
        names += (count++ ? ", " : "") + parameters_[i].name;
      }
    }
    detail::fail("rank ", group_->rank(), ": ", count, " of ", hooks_.size(),
                 " parameters got no gradient in this backward pass: ", names,
                 ". Every parameter must take part in the loss; call set_requires_grad(false) on one that is "
                 "not meant to, "
                 "before DistributedDataParallel is made");
  }
  for (auto& bucket : buckets_) bucket.work->wait();
}

}  // namespace tandem::distributed
