// DataParallel: data parallelism in one process. It divides a batch over threads, each with its own copy of the model.
#pragma once

#include <tandem/data/dataset.h>
#include <tandem/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace tandem::distributed {

// DataParallel is called with a batch, as the model is, and autograd records it:
//
//   Net model;
//   DataParallel parallel(model, [] { return std::make_unique<Net>(); }, 4);
//   criterion(parallel(images), labels).backward();      // model has the gradients of the whole batch
//
// Forward: The parameters and buffers are copied from the model to the replicas. The batch (N, ...) is cut into pieces
// of ceil(N / replicas) rows. Every replica computes the output of its piece, and the outputs are put together.
// Backward: The gradient of the output is cut in the same way, and every replica runs a backward pass of its own. The
// gradients of the replicas are added to the model's, in the order of the replicas.
// The model itself is replica 0, so its buffers (running statistics of a batch norm) change with its own piece only.
// The changes of the other replicas' buffers are dropped, as in PyTorch. A batch norm sees its own piece only.
//
// Each replica lives on one thread. On the CPU, each thread is bound to its share of the cores that this process may
// use, and has its share of the caller's OpenMP threads. With GPUs, replica i lives on the i-th GPU. The pieces, the
// parameters and the gradients are copied between the GPUs, and the outputs are on the first.
//
//   model.to(Device::cuda(0));
//   DataParallel parallel(model, [] { return std::make_unique<Net>(); }, {Device::cuda(0), Device::cuda(1)});
//
// The replicas take over training mode and requires_grad from the model, and NoGrad and Autocast from the caller's
// thread. The random numbers of a replica's forward (dropout) are its own: they begin with a number that each
// forward draws from the caller's generator. Hooks of the model's parameters run on the thread of replica 0, before the
// gradients of the other replicas are added. Therefore DataParallel can't be combined with a DistributedDataParallel of
// several ranks. The model must outlive the DataParallel, which must
// outlive all graphs that it made. Between a forward and its backward, another forward with gradients is an Error,
// because it would change the copied parameters in place. For one thread.
class DataParallel {
 public:
  // Builds a model of the same structure as the one given. Its values do not matter, because they are overwritten.
  // Called once for each replica except the first.
  using Factory = std::function<std::unique_ptr<nn::Module>()>;

  // Error when the names, shapes or dtypes of a replica differ from those of the model.
  DataParallel(nn::Module& model, const Factory& make_replica, int replicas);
  // One replica on each of `devices`. Error when the model is not on the first.
  DataParallel(nn::Module& model, const Factory& make_replica, std::vector<Device> devices);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // Rethrows what a replica throws; if several throw, what the lowest of them threw.
  Tensor operator()(const Tensor& input);

  // The loss of a batch whose pieces' losses the replicas compute themselves: their mean by samples, one element. So a
  // loss may have several outputs of the model, and a replica's output never leaves its device. A loss that is a mean
  // over something else than samples (pixels that are not void) is a mean over a replica's own, as it is over a rank's
  // own with DistributedDataParallel.
  using LossOf = std::function<Tensor(nn::Module& replica, const data::Batch& piece)>;
  Tensor mean_loss(const data::Batch& batch, const LossOf& loss_of);

  int replicas() const { return static_cast<int>(replicas_.size()); }

 private:
  class Threads;
  using OnPiece = std::function<Tensor(nn::Module& replica, const Tensor& piece, std::int64_t begin)>;

  // The results (rows, ...) of `call` for all pieces, put together. `begin`: the piece's first row in `input`.
  Tensor on_pieces(const Tensor& input, const OnPiece& call);
  std::int64_t rows_of_a_piece(std::int64_t count) const;
  void copy_model(nn::Module& replica) const;
  void add_gradients(const nn::Module& replica);

  nn::Module& model_;
  const std::vector<Device> devices_;                // by replica
  std::vector<std::unique_ptr<nn::Module>> copies_;  // replicas 1, 2, ...
  std::vector<nn::Module*> replicas_;                // the model, then the copies
  Tensor differentiable_;  // an extra input, so that autograd records the output even if the batch needs no gradient
  std::unique_ptr<Threads> threads_;
};

}  // namespace tandem::distributed
