// DistributedDataParallel: the same model on every rank, each rank's gradients averaged with the others'.
#pragma once

#include <tandem/distributed/process_group.h>
#include <tandem/distributed/reducer.h>
#include <tandem/nn/module.h>

#include <memory>

namespace tandem::distributed {

// Observes a model, does not wrap it: the model's names and its state dict stay as they are.
//
//   Net model;
//   DistributedDataParallel ddp(model, group);      // every rank now holds rank 0's parameters and buffers
//   loss(ddp(images), labels).backward();           // every rank now holds the mean gradients
//
// The model must outlive it. With a group of one it changes nothing.
// Construction is collective: it compares the models of all ranks (Error on every rank: the first difference
// and whose it is), then copies rank 0's values to all. Buffers (a batch norm's running statistics) are rank
// 0's on every rank wherever their values count; see sync_buffers().
class DistributedDataParallel {
 public:
  DistributedDataParallel(nn::Module& model, std::shared_ptr<ProcessGroup> group, BucketSizes sizes = {});

  // The model's forward. After training, the first one in evaluation mode shares the buffers (sync_buffers).
  Tensor operator()(const Tensor& input);

  void train() { model_.train(); }
  // Evaluation mode, with rank 0's buffers on every rank. Collective.
  void eval();
  // Copies rank 0's buffers to all ranks. Collective. Needed only by those who call the model directly.
  void sync_buffers();

 private:
  nn::Module& model_;
  std::shared_ptr<ProcessGroup> group_;
  bool buffers_read_in_training_;
  bool buffers_changed_ = false;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace tandem::distributed
