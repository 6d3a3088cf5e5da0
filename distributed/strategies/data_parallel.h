// DataParallel: one process; a batch divided over threads, each with a copy of the model and cores of its own.
#pragma once

#include <tandem/nn/module.h>

#include <functional>
#include <memory>
#include <vector>

namespace tandem::distributed {

// A function of a batch like the model itself, and differentiable like it:
//
//   Net model;
//   DataParallel parallel(model, [] { return std::make_unique<Net>(); }, 4);
//   criterion(parallel(images), labels).backward();      // model has the gradients of the whole batch
//
// forward: parameters and buffers are copied from the model to the replicas, the batch (N, ...) is cut into pieces of
// ceil(N / replicas), every replica computes the output of its piece, and the outputs are put together.
// backward: the output's gradient is cut alike, every replica runs its own backward pass, and their gradients are added
// to the model's, in the order of the replicas. The model itself is replica 0: what its piece does to its buffers (a
// batch norm's running statistics) stays, what the other pieces do to theirs is dropped, as in PyTorch. A batch norm
// sees its own piece only.
//
// Each replica lives on one thread. On the CPU that is bound to its share of the cores this process may use, with its
// share of the caller's OpenMP threads. With GPUs, replica i lives on the i-th of them, the model on the first: pieces,
// parameters and gradients are copied from one to another; outputs are on the first.
//
//   model.to(Device::cuda(0));
//   DataParallel parallel(model, [] { return std::make_unique<Net>(); }, {Device::cuda(0), Device::cuda(1)});
//
// Training mode, requires_grad, NoGrad and Autocast are the model's and the caller's. The random numbers of
// forward (dropout) come from the replica's own generator. Hooks of the model's parameters run on replica 0's thread
// before the other gradients are added: not to be combined with DistributedDataParallel. The model must outlive this,
// and this all graphs that it made. Between a forward and its backward there must be no other forward with gradients
// (the copied parameters are changed in place: an Error that says so). One thread uses it.
class DataParallel {
 public:
  // Builds a model like the one given; its values don't count. Called for each replica but the first.
  using Factory = std::function<std::unique_ptr<nn::Module>()>;

  // Error when a replica's names, shapes or dtypes are not the model's.
  DataParallel(nn::Module& model, const Factory& make_replica, int replicas);
  // One replica on each of `devices`. Error when the model is not on the first.
  DataParallel(nn::Module& model, const Factory& make_replica, std::vector<Device> devices);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // What a replica throws reaches the caller, the first replica's first.
  Tensor operator()(const Tensor& input);

 private:
  class Threads;

  void copy_model(nn::Module& replica) const;
  void add_gradients(const nn::Module& replica);

  nn::Module& model_;
  const std::vector<Device> devices_;                // by replica
  std::vector<std::unique_ptr<nn::Module>> copies_;  // replicas 1, 2, ...
  std::vector<nn::Module*> replicas_;                // the model, then the copies
  Tensor differentiable_;  // makes autograd record an output even if its input needs no gradient
  std::unique_ptr<Threads> threads_;
};

}  // namespace tandem::distributed
