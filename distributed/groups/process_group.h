// ProcessGroup: some ranks of a job, and the operations that they do together.
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

// Thrown when an operation fails because another rank failed, left or did not arrive in time. Nothing is wrong with
// this rank itself.
struct PeerError : Error {
  using Error::Error;
};

// An operation that has been started. Any thread may call its methods.
//
// An operation of an NCCL group runs on the GPU. There, wait() only orders the GPU's work: GPU work that this thread
// starts afterwards runs after the operation. The host itself continues at once. In contrast, is_done() and
// wait(timeout) check on the host whether the GPU has finished the operation. If an operation fails after wait() has
// returned, the next read from the GPU or the next operation throws the error.
class Work {
 public:
  virtual ~Work() = default;
  virtual bool is_done() const = 0;
  // Waits until the operation is done. If it failed, throws a PeerError that names the operation and the peer, or
  // another Error. The group's timeout bounds every operation, so wait() never blocks forever.
  virtual void wait() = 0;
  // Waits for at most `timeout`, and then throws an Error. The operation continues.
  virtual void wait(std::chrono::milliseconds timeout) = 0;
  // Returns the error. Null while the operation runs and after it has succeeded.
  virtual std::exception_ptr exception() const = 0;
};

// Every rank must call the same collectives in the same order, with arrays of the same shape and dtype. If a rank does
// not, all ranks throw an Error that names it. A call returns as soon as the operation is started. The program must not
// touch the arrays until the Work is done, so it must call wait() first. The arrays may have any dtype and any strides.
// Once an operation has failed, the group is broken: all later operations fail at once with that first error.
//
// `name` appears in errors, and the ranks compare it. Without names, the group can't notice that a rank starts two
// operations of the same kind and shape in a different order. With names, that is an Error. Several threads may start
// operations that have names, but the program must ensure that they start in the same order on all ranks. Only one
// thread may start collectives without a name.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* backend() const = 0;  // "gloo", "shm", "mpi", "nccl", "local"

  // Overwrites `array` on all other ranks with the array of rank `root`.
  [[nodiscard]] std::shared_ptr<Work> broadcast(Array array, int root, std::string name = {});
  // Replaces `array` on every rank by the reduction of all ranks' arrays, bitwise identical. mean needs a floating
  // dtype. It multiplies each rank's array by 1/size, and then sums them.
  [[nodiscard]] std::shared_ptr<Work> all_reduce(Array array, ReduceOp op = ReduceOp::sum, std::string name = {});
  // Does the same on `root` only. On other ranks, `array` does not change.
  [[nodiscard]] std::shared_ptr<Work> reduce(Array array, int root, ReduceOp op = ReduceOp::sum, std::string name = {});
  // Writes rank r's `input` to `outputs[r]` on every rank.
  [[nodiscard]] std::shared_ptr<Work> all_gather(std::vector<Array> outputs, Array input, std::string name = {});
  // Writes the reduction of all ranks' `inputs[r]` to `output` on rank r.
  [[nodiscard]] std::shared_ptr<Work> reduce_scatter(Array output, std::vector<Array> inputs,
                                                     ReduceOp op = ReduceOp::sum, std::string name = {});
  // Writes rank r's `input` to `outputs[r]` on `root`. Other ranks pass no outputs.
  [[nodiscard]] std::shared_ptr<Work> gather(std::vector<Array> outputs, Array input, int root, std::string name = {});
  // Writes `inputs[r]` of `root` to `output` on rank r. Other ranks pass no inputs.
  [[nodiscard]] std::shared_ptr<Work> scatter(Array output, std::vector<Array> inputs, int root, std::string name = {});
  // Sends one array from every rank to every rank: writes `inputs[s]` of rank r to `outputs[r]` of rank s. All arrays
  // have the same shape.
  [[nodiscard]] std::shared_ptr<Work> all_to_all(std::vector<Array> outputs, std::vector<Array> inputs,
                                                 std::string name = {});
  // Is done when all ranks have started it.
  [[nodiscard]] std::shared_ptr<Work> barrier(std::string name = {});

  // Send a message from one rank to another. The sender names the receiver, and the receiver names the sender. Messages
  // from one rank to another arrive in the order in which they were sent, whatever collectives run in the meantime. The
  // sender may change the array as soon as send() has returned.
  [[nodiscard]] std::shared_ptr<Work> send(Array array, int to, std::string name = {});
  [[nodiscard]] std::shared_ptr<Work> receive(Array array, int from, std::string name = {});

  // Both functions are for small texts (names, settings as JSON, errors), not for tensors. The ranks' texts may differ
  // in length. Both functions are collective, and return when the operation is done.
  std::string broadcast_string(const std::string& text, int root, const std::string& name = {});
  std::vector<std::string> all_gather_strings(const std::string& mine, const std::string& name = {});

  // Return the sum, the mean (the sum divided by size()) or the maximum of the ranks' numbers, computed in f64. They
  // are for figures such as counts and losses. They are collective: all ranks must call the same functions in the same
  // order. They return when the operation is done, with a bitwise identical result on every rank. The maximum is NaN if
  // any rank's number is NaN.
  double sum(double mine, const std::string& name = {});
  double mean(double mine, const std::string& name = {});
  double max(double mine, const std::string& name = {});

  // Returns 0, then 1 and so on: a number for an object whose operations must not be confused with those of another
  // object, such as a Reducer. All ranks must make these objects in the same order.
  int next_number() { return next_number_++; }

  // Returns a group of these ranks of this group, in the given order. All ranks of this group must call it with the
  // same list. Returns null on ranks that are not in the list.
  virtual std::shared_ptr<ProcessGroup> subgroup(const std::vector<int>& ranks) = 0;

  // Returns zeros on `device`, in memory that this group's operations can use without a copy. It is for gradients and
  // other arrays that are reduced repeatedly. The array may outlive the group.
  virtual Array allocate(const Shape& shape, DType dtype, Device device = {}) = 0;

  // Returns the longest time that an operation waits for a peer.
  virtual std::chrono::milliseconds timeout() const = 0;

  // Returns the store through which the ranks connected. Null in a group of one rank that no launcher started.
  virtual std::shared_ptr<Store> store() const = 0;

  // Starts an operation. The functions above check their arguments, put them into an Operation and call start(). Groups
  // also call it to forward an operation to another group.
  virtual std::shared_ptr<Work> start(Operation operation) = 0;

 private:
  std::shared_ptr<Work> begin(Operation operation);
  void check_rank(const char* role, int rank) const;
  void check_equal(const char* kind, const std::vector<Array>& list, const Array& one) const;
  double reduced(double mine, ReduceOp op, const std::string& name);

  std::atomic<int> next_number_ = 0;
  std::atomic<std::thread::id> unnamed_by_;  // the thread that starts collectives without a name; none at first
};

// Returns `group`. Throws an Error that names the caller, `who`, if `group` is null.
std::shared_ptr<ProcessGroup> required(std::shared_ptr<ProcessGroup> group, const char* who);

}  // namespace tandem::distributed
