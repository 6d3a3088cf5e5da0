// DataParallel: data parallelism in one process. It splits a batch over threads, each with its own copy of the model.
#pragma once

#include <tandem/data/dataset.h>
#include <tandem/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace tandem::distributed {

// A program calls DataParallel with a batch, like the model, and autograd records the call:
//
//   Net model;
//   DataParallel parallel(model, [] { return std::make_unique<Net>(); }, 4);
//   criterion(parallel(images), labels).backward();      // model has the gradients of the whole batch
//
// Forward: DataParallel copies the parameters and buffers from the model to the replicas, and splits the batch (N, ...)
// into pieces of ceil(N / replicas) rows. Every replica computes the output of its piece, and DataParallel concatenates
// the outputs. Backward: DataParallel splits the gradient of the output in the same way, and every replica runs its own
// backward pass. Then it adds the gradients of the replicas to the model's, in the order of the replicas. The model
// itself is replica 0, so its buffers (running statistics of a batch norm) change with its own piece only. The changes
// of the other replicas' buffers are dropped, as in PyTorch. A batch norm sees only the piece of its replica.
//
// Each replica has its own thread. On the CPU, each thread is bound to its share of the cores that this process may
// use, and has its share of the caller's OpenMP threads. With GPUs, replica i is on the i-th GPU. DataParallel copies
// the pieces, the parameters and the gradients between the GPUs. The outputs are on the first GPU.
//
//   model.to(Device::cuda(0));
//   DataParallel parallel(model, [] { return std::make_unique<Net>(); }, {Device::cuda(0), Device::cuda(1)});
//
// The replicas inherit training mode and requires_grad from the model, and NoGrad and Autocast from the caller's
// thread. Each replica has its own random numbers in forward (for dropout). Each forward draws their seed from the
// caller's generator. Hooks of the model's parameters run on the thread of replica 0, before the gradients of the other
// replicas are added. For this reason, DataParallel can't be combined with a DistributedDataParallel of several ranks.
// The model must outlive the DataParallel, which must outlive all graphs that it made. Another forward with gradients
// between a forward and its backward is an Error, because it would change the copied parameters in place. Only one
// thread may use a DataParallel.
class DataParallel {
 public:
  // Builds a model with the same structure as the given model. DataParallel overwrites its values. It calls the factory
  // once for each replica except the first.
  using Factory = std::function<std::unique_ptr<nn::Module>()>;

  // Throws an Error if the names, shapes or dtypes of a replica differ from those of the model.
  DataParallel(nn::Module& model, const Factory& make_replica, int replicas);
  // Puts one replica on each of `devices`. Throws an Error if the model is not on the first device.
  DataParallel(nn::Module& model, const Factory& make_replica, std::vector<Device> devices);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // Rethrows the exception of a replica. If several replicas throw, it rethrows the exception of the lowest.
  Tensor operator()(const Tensor& input);

  // Returns the loss of a batch, one element. Each replica computes the loss of its piece, and the result is their
  // mean, weighted by samples. The loss may therefore use several outputs of the model, and a replica's output never
  // leaves its device. If the loss is a mean over something other than samples, such as pixels that are not void, each
  // replica averages over its own pixels, as each rank does with DistributedDataParallel.
  using LossOf = std::function<Tensor(nn::Module& replica, const data::Batch& piece)>;
  Tensor mean_loss(const data::Batch& batch, const LossOf& loss_of);

  int replicas() const { return static_cast<int>(replicas_.size()); }

 private:
  class Threads;
  using OnPiece = std::function<Tensor(nn::Module& replica, const Tensor& piece, std::int64_t begin)>;

  // Returns the concatenated results (rows, ...) of `call` for all pieces. `begin` is the piece's first row in `input`.
  Tensor on_pieces(const Tensor& input, const OnPiece& call);
  std::int64_t rows_of_a_piece(std::int64_t count) const;
  void copy_model(nn::Module& replica) const;
  void add_gradients(const nn::Module& replica);

  nn::Module& model_;
  const std::vector<Device> devices_;                // by replica
  std::vector<std::unique_ptr<nn::Module>> copies_;  // replicas 1, 2, ...
  std::vector<nn::Module*> replicas_;                // the model, then the copies
  Tensor differentiable_;  // an extra input: with it, autograd records the output even if the batch needs no gradient
  std::unique_ptr<Threads> threads_;
};

}  // namespace tandem::distributed
