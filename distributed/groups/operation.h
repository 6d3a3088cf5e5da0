// Operation: what the ranks of a process group do together, once.
#pragma once

#include <tandem/core/array/array.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tandem::distributed {

enum class ReduceOp { sum, mean, min, max, product };

// Arrays by kind, in place where only `outputs` is named:
//   broadcast, all_reduce, reduce    outputs: 1
//   all_gather                       inputs: 1, outputs: one a rank
//   reduce_scatter                   inputs: one a rank, outputs: 1
//   gather                           inputs: 1, outputs: one a rank on the root, else none
//   scatter                          inputs: one a rank on the root, else none; outputs: 1
//   all_to_all                       inputs and outputs: one a rank
//   send, receive                    inputs: 1; outputs: 1
struct Operation {
  enum class Kind {
    broadcast,
    all_reduce,
    reduce,
    all_gather,
    reduce_scatter,
    gather,
    scatter,
    all_to_all,
    barrier,
    send,
    receive
  };
  Kind kind;
  std::string name;  // for errors: "gradient bucket 2"
  std::vector<Array> inputs{};
  std::vector<Array> outputs{};
  int root = 0;  // of broadcast, reduce, gather and scatter; the other rank of send and receive
  ReduceOp reduce_op = ReduceOp::sum;

  const char* kind_name() const;
  // "all_reduce 'gradient bucket 2'"
  std::string what() const;
  // What all ranks must have in common: "all_reduce(sum) of f32 (29034)".
  std::string signature() const;
  // Of all its arrays together.
  std::size_t bytes() const;
  // Lets go of the arrays; the texts above but the signature stay.
  void release_arrays();
};

}  // namespace tandem::distributed
