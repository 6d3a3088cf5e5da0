// ZeroRedundancy: data parallelism in which each rank keeps the optimizer state, and on request the gradients, of its
// shard of the parameters only.
#pragma once

#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/strategies/gradient_shards.h>
#include <tandem/optim/optimizer.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::distributed {

struct ZeroRedundancyOptions {
  int stage = 1;  // 1 divides the optimizer state among the ranks, 2 also the gradients
  BucketSizes buckets = {};
  Unused unused = Unused::error;  // stage 2 has only this one
};

// ZeRO, stages 1 and 2 (Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", SC
// 2020):
//
//   ZeroRedundancy zero(model, group, {.stage = 2});   // every rank now holds rank 0's parameters and buffers
//   optim::Adam optimizer(model.parameters(), {.lr = 1e-3});
//   zero.use(optimizer);
//   zero.zero_grad();
//   loss(zero.ddp()(images), labels).backward();       // reduce-scatters gradients while it runs
//   zero.step();                                       // each rank updates its shards, then all ranks gather them
//
// Rank r of N has the elements n r / N to n (r + 1) / N of each parameter of n elements, in memory order. With f32 and
// Adam, a rank keeps 8 + 8 / N bytes for each element in stage 1, and 4 + 12 / N in stage 2, instead of 16. A step
// sends as many bytes as with DistributedDataParallel, and over shared memory the weights have the same bits, unless
// the gradients are clipped by their norm. (A norm adds up its shards in another order.)
//
// Accumulation: in stage 1, backward passes before the last one belong inside ddp().no_sync(). In stage 2, each pass
// averages, and the shards add up. Between backward() and step(), most elements of .grad are not averaged in stage 1,
// and .grad is undefined in stage 2. In join(), step() throws an Error.
//
// The model must outlive this object, and the optimizers must live until the last step. Only one thread may use it. The
// constructor, both step(), both norms and state_dict() are collective.
class ZeroRedundancy {
 public:
  ZeroRedundancy(nn::Module& model, std::shared_ptr<ProcessGroup> group, const ZeroRedundancyOptions& options = {});

  // Holds the model, its buffers and no_sync(). In stage 2 it averages nothing itself.
  DistributedDataParallel& ddp() { return *ddp_; }

  bool divides_gradients() const { return gradients_.has_value(); }

  // From now on, step() updates only this rank's shards of the optimizer's parameters. Throws an Error if the optimizer
  // has state already, if it has parameters that the model does not have or that another optimizer in use has, or if
  // its rule is not for single numbers. From now on, call optimizer.step() only within step().
  void use(optim::Optimizer& optimizer);
  // Returns whether the optimizer applies one rule to every number, as SGD and Adam do, so that a rank can update a
  // shard of a parameter by itself.
  static bool can_divide(const optim::Optimizer& optimizer);

  // Clears all gradients of the model. Call it before the first backward pass of each step.
  void zero_grad();
  // Makes a step of all optimizers. Throws an Error if no optimizer is in use.
  void step();
  // Calls `update` to make the step. During the call, the values and gradients of the optimizers' parameters are this
  // rank's shards of them, with one dimension, and the gradients are means over the ranks. `update` may clip them with
  // the functions below. If it throws, the parameters get their shapes back, and nothing is sent.
  void step(const std::function<void()>& update);

  // Call these two only from `update`. Both return the norm over the shards of all ranks, () f32 on the device of the
  // gradients, the same on all ranks. The host waits for it. Clipping is as in optim/clip.h.
  Array grad_norm(const std::vector<Tensor>& parameters, double norm_type = 2);
  Array clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2);

  // Returns on rank 0, in host memory, the state of an optimizer in use as Optimizer::state_dict() would return it
  // without shards. Any number of ranks can load it, and so can an optimizer without ZeroRedundancy. Returns nothing on
  // the other ranks.
  std::vector<NamedArray> state_dict(const optim::Optimizer& optimizer) const;
  // Loads such a state, which all ranks pass, or this rank's optimizer.state_dict(). Throws an Error and changes
  // nothing if the state does not fit.
  void load_state_dict(optim::Optimizer& optimizer, std::vector<NamedArray> state) const;
  // Returns the entries of an optimizer's state of which each rank has a shard, such as "fc.weight/exp_avg", and the
  // parameters that are divided in the same way. The other entries, such as "fc.weight/step", are the same on all
  // ranks.
  static std::map<std::string, Tensor> divided(const optim::Optimizer& optimizer, const std::vector<NamedArray>& state);

 private:
  class Scope;

  std::shared_ptr<Work> reduce_scatter(const GradBucket& bucket);
  bool has_gradients() const { return gradients_ ? gradients_->has_gradients() : has_gradients_; }
  void clear();

  const std::shared_ptr<ProcessGroup> group_;
  std::unique_ptr<DistributedDataParallel> ddp_;
  std::vector<std::vector<Tensor>> gathered_;    // the trained parameters, by the message that gathers them
  std::vector<optim::Optimizer*> optimizers_;    // in use
  std::optional<GradientShards> gradients_;      // in stage 2
  bool has_gradients_ = false;                   // in stage 1: since clear(), a pass has averaged gradients
  std::deque<std::shared_ptr<Work>> in_flight_;  // in stage 1: see reduce_scatter_shards()
};

}  // namespace tandem::distributed
