// ProcessGroup: the ranks of a job, and the operations they do together.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/distributed/groups/operation.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {

class Store;

// An operation failed because of another rank, which failed, went away or did not come in time. Nothing is wrong with
// this rank itself.
struct PeerError : Error {
  using Error::Error;
};

// An operation that has been started. Any thread may call its methods.
//
// An operation of an NCCL group runs on the GPU, and wait() orders the GPU's work: whatever this thread starts there
// afterwards runs after the operation. The host itself goes on at once. is_done() and wait(timeout) do ask, from the
// host, whether the GPU has finished the operation. When an operation fails after wait() has returned, the error comes
// when something is read from the GPU, or with the next operation.
class Work {
 public:
  virtual ~Work() = default;
  virtual bool is_done() const = 0;
  // Waits until the operation is done; throws what went wrong (a PeerError that names the operation and the
  // peer, or another Error). The group's timeout bounds every operation, so wait() always returns.
  virtual void wait() = 0;
  // The same for at most `timeout`: an Error after that, and the operation continues.
  virtual void wait(std::chrono::milliseconds timeout) = 0;
  // The error. Null while the operation runs and when it succeeded.
  virtual std::exception_ptr exception() const = 0;
};

// Every rank must call the same collectives in the same order, with arrays of the same shape and dtype. When a rank
// does not, an Error on all ranks names it. A call returns as soon as the operation is started; the arrays must stay
// untouched until the Work is done: call its wait(). The arrays may have any dtype and any strides. Once an operation
// has failed, the group is broken: all later operations fail at once with that first cause.
//
// `name` appears in errors, and the ranks compare it: if two operations of one shape come in a different order on a
// rank, that is an Error if they have names. Several threads may start operations that have names. The program must
// make sure that they start in the same order on all ranks. Only one thread may start collectives without a name.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* backend() const = 0;  // "gloo", "shm", "mpi", "nccl", "local"

  // `array` of rank `root` overwrites that of all others.
  [[nodiscard]] std::shared_ptr<Work> broadcast(Array array, int root, std::string name = {});
  // Every rank ends with the reduction of all ranks' arrays, bitwise identical. mean is for floating dtypes: each
  // rank's array times 1/size, then the sum.
  [[nodiscard]] std::shared_ptr<Work> all_reduce(Array array, ReduceOp op = ReduceOp::sum, std::string name = {});
  // The same, on `root` only; elsewhere `array` is left as it was.
  [[nodiscard]] std::shared_ptr<Work> reduce(Array array, int root, ReduceOp op = ReduceOp::sum, std::string name = {});
  // `outputs[r]` ends as rank r's `input`.
  [[nodiscard]] std::shared_ptr<Work> all_gather(std::vector<Array> outputs, Array input, std::string name = {});
  // `output` of rank r ends as the reduction of all ranks' `inputs[r]`.
  [[nodiscard]] std::shared_ptr<Work> reduce_scatter(Array output, std::vector<Array> inputs,
                                                     ReduceOp op = ReduceOp::sum, std::string name = {});
  // On `root`, `outputs[r]` ends as rank r's `input`; the others give no outputs.
  [[nodiscard]] std::shared_ptr<Work> gather(std::vector<Array> outputs, Array input, int root, std::string name = {});
  // `output` of rank r ends as `inputs[r]` of `root`; the others give no inputs.
  [[nodiscard]] std::shared_ptr<Work> scatter(Array output, std::vector<Array> inputs, int root, std::string name = {});
  // Every rank sends one array to every rank: rank s ends with `inputs[s]` of rank r in its `outputs[r]`. All arrays
  // have one shape.
  [[nodiscard]] std::shared_ptr<Work> all_to_all(std::vector<Array> outputs, std::vector<Array> inputs,
                                                 std::string name = {});
  // Done on each rank when all ranks have started it.
  [[nodiscard]] std::shared_ptr<Work> barrier(std::string name = {});

  // A message from one rank to another. The sender names the receiver, and the receiver the sender. Messages of one
  // direction between two ranks arrive in the order in which they were sent, whatever collectives run meanwhile. The
  // array that is sent may be changed as soon as send() has returned.
  [[nodiscard]] std::shared_ptr<Work> send(Array array, int to, std::string name = {});
  [[nodiscard]] std::shared_ptr<Work> receive(Array array, int from, std::string name = {});

  // Both calls are for small texts (names, settings as JSON, errors), not for tensors. The texts of the ranks may
  // differ in length. Both calls are collective, and return when the operation is done.
  std::string broadcast_string(const std::string& text, int root, const std::string& name = {});
  std::vector<std::string> all_gather_strings(const std::string& mine, const std::string& name = {});

  // One number made of the numbers that the ranks give: their sum, their mean (the sum divided by size()) and the
  // largest of them. For figures such as counts and losses, in f64. Collective, like every operation: all ranks call
  // the same function, in the same order. The call returns when the operation is done, with the same bits on every
  // rank. The largest is NaN when a rank gives a NaN.
  double sum(double mine, const std::string& name = {});
  double mean(double mine, const std::string& name = {});
  double max(double mine, const std::string& name = {});

  // A group of `ranks` of this one, in that order. Collective over all ranks of this group, which must give
  // the same list; null on those that are not in it.
  virtual std::shared_ptr<ProcessGroup> subgroup(const std::vector<int>& ranks) = 0;

  // Zeros on `device`, in memory that this group's operations can use without a copy: for gradients and other arrays
  // that are reduced again and again. The array may outlive the group.
  virtual Array allocate(const Shape& shape, DType dtype, Device device = {}) = 0;

  // The longest wait for a peer in an operation.
  virtual std::chrono::milliseconds timeout() const = 0;

  // The store at which the ranks met. Null in a group of one that no launcher started.
  virtual std::shared_ptr<Store> store() const = 0;

  // Starts an operation. The functions above check their arguments, put them into an Operation and call this one. Its
  // other callers are groups that hand such an operation on to another group.
  virtual std::shared_ptr<Work> start(Operation operation) = 0;

 private:
  std::shared_ptr<Work> begin(Operation operation);
  void check_rank(const char* role, int rank) const;
  void check_equal(const char* kind, const std::vector<Array>& list, const Array& one) const;
  double reduced(double mine, ReduceOp op, const std::string& name);

  std::atomic<std::thread::id> unnamed_by_;  // the thread that starts collectives without a name; at first none
};

// `group`. Error when it is null; `who` needs it.
std::shared_ptr<ProcessGroup> required(std::shared_ptr<ProcessGroup> group, const char* who);

}  // namespace tandem::distributed
