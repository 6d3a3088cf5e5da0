// Ring all-reduce, written out with messages between neighbours, and training with it.
#pragma once

#include <tandem/distributed/strategies/flat_parameters.h>

#include <memory>
#include <vector>

namespace tandem::distributed {

// Does what group.all_reduce(array, op)->wait() does, for op sum or mean. Each rank sends only to the next rank, and
// receives only from the rank before it. Any group size, any number of elements, any strides. The result is identical
// to the bit on all ranks. For an array of n bytes on W ranks, each rank sends 2 (W - 1) / W n bytes and receives as
// many: always less than 2 n. Collective; blocks. (Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for
// clusters of workstations", 2009.)
void ring_all_reduce(ProcessGroup& group, const Array& array, ReduceOp op = ReduceOp::sum);

// Data parallelism with ring_all_reduce. Communication does not overlap with computation: the gradients go round the
// ring after backward has ended.
//
//   RingDataParallel ring(model, group);      // every rank now holds rank 0's parameters and buffers
//   loss(model(images), labels).backward();
//   ring.average_gradients();                 // every rank now holds the mean gradients
//   optimizer.step();
//
// Owns the memory of the gradients of all parameters that require one. The model must outlive the RingDataParallel. For
// one thread.
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
