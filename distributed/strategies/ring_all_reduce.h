// Ring all-reduce, written out with messages between neighbours, and training with it.
#pragma once

#include <tandem/distributed/strategies/flat_parameters.h>

#include <memory>
#include <vector>

namespace tandem::distributed {

// What group.all_reduce(array, op)->wait() does, for op sum or mean: each rank sends to the next one only and receives
// from the one before it only. Any group size, any number of elements, any strides; the result is identical to the bit
// on all ranks. Of n bytes a rank sends and receives 2 (W - 1) / W n: hardly more however many ranks there are, and no
// rank more than another. Collective; blocks. (Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters
// of workstations", 2009.)
void ring_all_reduce(ProcessGroup& group, const Array& array, ReduceOp op = ReduceOp::sum);

// Data parallelism with it, and without overlap: all gradients go round the ring when backward has ended.
//
//   RingDataParallel ring(model, group);      // every rank now holds rank 0's parameters and buffers
//   loss(model(images), labels).backward();
//   ring.average_gradients();                 // every rank now holds the mean gradients
//   optimizer.step();
//
// Owns the memory of the gradients of all parameters that require one. The model must outlive it. One thread.
class RingDataParallel {
 public:
  RingDataParallel(nn::Module& model, std::shared_ptr<ProcessGroup> group);

  // Collective. Error when a parameter has no gradient.
  void average_gradients();

 private:
  std::shared_ptr<ProcessGroup> group_;
  std::vector<NamedTensor> parameters_;
  FlatParameters gradients_;
};

}  // namespace tandem::distributed
