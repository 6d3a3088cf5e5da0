// Reducer: averages gradients over the ranks of a group while the backward pass is still running.
#pragma once

#include <tandem/distributed/process_group.h>
#include <tandem/nn/module.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace tandem::distributed {

struct BucketSizes {
  std::size_t first_bytes = std::size_t{1} << 20;  // small, so that communication starts early
  std::size_t bytes = std::size_t{25} << 20;
};

// Which parameters share a bucket: indices into `parameters`, buckets in the order in which they are reduced.
// Parameters are taken in reverse, because the last ones get their gradients first; a bucket is closed once
// it holds its size or more, and holds one dtype. Only parameters that require a gradient take part.
std::vector<std::vector<std::size_t>> assign_buckets(const std::vector<NamedTensor>& parameters,
                                                     BucketSizes sizes);

// Owns the memory of the gradients: each is a view of its bucket, so communication needs no copy. When the
// last gradient of a bucket is final, the mean over ranks starts, on the group's own thread, and backward
// goes on. Buckets start strictly in order, because the ranks must agree on the order while their gradients
// may become ready in different ones. At the end of backward all have arrived. A parameter without a gradient
// is an Error then, which names it; the gradients are not averaged in that case, and the group is out of step
// with the other ranks. Used by the thread that runs backward. (Li et al., "PyTorch Distributed", VLDB 2020,
// section 3.2.)
class Reducer {
 public:
  Reducer(std::vector<NamedTensor> parameters, std::shared_ptr<ProcessGroup> group, BucketSizes sizes);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

 private:
  struct Bucket {
    Array memory;  // (elements), every gradient at a multiple of 64 bytes, zeros between
    std::vector<std::size_t> parameters;
    std::size_t missing = 0;  // gradients that this backward pass still owes
    std::shared_ptr<Work> work;
  };

  void make_bucket(const std::vector<std::size_t>& indices);
  void begin_backward();
  void gradient_ready(std::size_t parameter);
  void end_backward();

  std::vector<NamedTensor> parameters_;
  std::shared_ptr<ProcessGroup> group_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<char> ready_;             // by parameter
  std::size_t started_ = 0;             // buckets
  std::weak_ptr<void> backward_;        // lives as long as the backward pass whose gradients are counted
  std::vector<HookHandle> hooks_;
};

}  // namespace tandem::distributed
