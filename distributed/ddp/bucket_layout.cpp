#include <tandem/distributed/ddp/bucket_layout.h>

#include <algorithm>
#include <map>

namespace tandem::distributed {

std::vector<std::size_t> reverse_registration_order(const std::vector<NamedTensor>& parameters) {
  std::vector<std::size_t> order;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    if (parameters[i].tensor.requires_grad()) order.push_back(i);
  }
  return order;
}

BucketLayout assign_buckets(const std::vector<NamedTensor>& parameters, const std::vector<std::size_t>& order,
                            BucketSizes sizes) {
  struct Open {
    std::vector<std::size_t> parameters;
    std::size_t bytes = 0;
    std::size_t limit;
    std::size_t last = 0;  // position in `order`
  };
  std::map<DType, Open> open;
  std::vector<Open> buckets;
  for (std::size_t position = 0; position < order.size(); ++position) {
    const Array& value = parameters[order[position]].tensor.value();
    Open& bucket = open.try_emplace(value.dtype(), Open{{}, 0, sizes.first_bytes}).first->second;
    bucket.parameters.push_back(order[position]);
    bucket.bytes += value.bytes();
    bucket.last = position;
    if (bucket.bytes >= bucket.limit) buckets.push_back(std::exchange(bucket, Open{{}, 0, sizes.bytes}));
  }
  for (auto& [dtype, bucket] : open) {
    if (!bucket.parameters.empty()) buckets.push_back(std::move(bucket));
  }
  std::sort(buckets.begin(), buckets.end(), [](const Open& a, const Open& b) { return a.last < b.last; });
  BucketLayout layout;
  for (auto& bucket : buckets) layout.push_back(std::move(bucket.parameters));
  return layout;
}

}  // namespace tandem::distributed
