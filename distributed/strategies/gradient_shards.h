// GradientShards: keeps only this rank's shard of each gradient (ZeRO-2).
#pragma once

#include <tandem/core/base/temporarily.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace tandem::distributed {

// In each backward pass, a bucket of gradients is reduce-scattered as soon as its last gradient is final, while the
// pass continues. The gradients are then freed, and their parameters have none. The shards of several passes add up
// until clear(). A pass inside ddp.no_sync() stores its gradients in the parameters, and the next pass outside of it
// averages them together with its own. A parameter that such a pass does not reach is an Error on all ranks, as with
// Unused::error.
//
// `ddp` must have been made while no parameter required a gradient, so that it has no buckets. It must outlive this
// object. The buckets keep their first order. Only the thread that runs backward may use the object.
class GradientShards : NoCopy {
 public:
  GradientShards(DistributedDataParallel& ddp, BucketSizes sizes);
  ~GradientShards();

  // Returns this rank's shard of the mean gradient of `parameter`, (n). Undefined if no pass has computed it since
  // clear(), or if the parameter requires no gradient.
  Array of(const Tensor& parameter) const;
  bool has_gradients() const { return has_gradients_; }
  void clear() { has_gradients_ = false; }

 private:
  struct Bucket {
    std::vector<std::size_t> parameters;
    std::vector<Array> shards;  // of their gradients
    std::size_t missing = 0;    // the number of gradients that are not final yet in this pass
  };

  void gradient_ready(std::size_t parameter);
  void begin_pass();
  void start_full_buckets();
  void start(const Bucket& bucket);
  void end_pass();

  DistributedDataParallel& ddp_;
  const int number_ = ddp_.group()->next_number();  // for the names of operations
  std::vector<NamedTensor> parameters_;             // of the model
  std::vector<HookHandle> hook_handles_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;                      // by parameter
  std::map<const autograd::TensorState*, Array> shard_of_;  // by parameter
  bool has_gradients_ = false;

  // The current pass:
  std::vector<char> reached_;                    // by parameter
  std::size_t started_ = 0;                      // the number of buckets that have been started
  std::deque<std::shared_ptr<Work>> in_flight_;  // see reduce_scatter_shards()
  std::weak_ptr<void> pass_;                     // expires when the pass has ended
};

}  // namespace tandem::distributed
