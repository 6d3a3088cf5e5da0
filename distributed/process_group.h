// ProcessGroup: the ranks of a job, and the operations they do together.
#pragma once

#include <tandem/core/array.h>

#include <memory>
#include <string>
#include <vector>

namespace tandem::distributed {

enum class ReduceOp { sum, mean, min, max, product };

// A collective that has been started. Any thread may ask it.
class Work {
 public:
  virtual ~Work() = default;
  virtual bool is_done() const = 0;
  // Waits until the operation is done; throws what went wrong (an Error that names the operation and the
  // peer, where it is known). The group's timeout bounds every operation, so wait() always returns.
  virtual void wait() = 0;
};

// Every rank must call the same operations in the same order, with arrays of the same shape and dtype. Each
// returns as soon as it is started; the arrays must stay untouched until the Work is done. `name` appears in
// errors
// ("gradient bucket 2"). Once an operation has failed the group is broken: all later ones fail at once with
// that first cause. One thread at a time may start operations on a group.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* backend() const = 0;  // "gloo", "local"

  // `array` of rank `root` overwrites that of all others. Any dtype, any strides.
  virtual std::shared_ptr<Work> broadcast(Array array, int root, std::string name = "broadcast") = 0;
  // Every rank ends with the reduction of all ranks' arrays, identical to the bit. mean is for floating
  // dtypes: each rank's array times 1/size, then the sum.
  virtual std::shared_ptr<Work> all_reduce(Array array, ReduceOp op = ReduceOp::sum,
                                           std::string name = "all_reduce") = 0;
  // The same, on `root` only; elsewhere `array` is left as it was.
  virtual std::shared_ptr<Work> reduce(Array array, int root, ReduceOp op = ReduceOp::sum,
                                       std::string name = "reduce") = 0;
  // `outputs[r]` ends as rank r's `input` (same shape and dtype on all ranks).
  virtual std::shared_ptr<Work> all_gather(std::vector<Array> outputs, Array input,
                                           std::string name = "all_gather") = 0;
  virtual std::shared_ptr<Work> barrier(std::string name = "barrier") = 0;

  // Each rank's bytes, by rank: for small descriptions (names, error texts), not for tensors. Blocks.
  std::vector<std::string> all_gather_strings(const std::string& mine, const std::string& name);

 protected:
  // Errors that every implementation reports alike, on the thread that starts the operation.
  void check_root(int root) const;
  void check_reduction(const Array& array, ReduceOp op) const;
  void check_gather(const std::vector<Array>& outputs, const Array& input) const;
};

}  // namespace tandem::distributed
