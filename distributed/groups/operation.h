// Operation: what the ranks of a process group do together, once.
#pragma once

#include <tandem/core/array/array.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tandem::distributed {

enum class ReduceOp { sum, mean, min, max, product };

// How many arrays each kind has. A kind without inputs changes its output in place.
//   broadcast, all_reduce, reduce    1 output
//   all_gather                       1 input, an output for each rank
//   reduce_scatter                   an input for each rank, 1 output
//   gather                           1 input; on the root an output for each rank, elsewhere none
//   scatter                          on the root an input for each rank, elsewhere none; 1 output
//   all_to_all                       an input and an output for each rank
//   barrier                          none
//   send                             1 input
//   receive                          1 output
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
  // What all ranks must have in common: "all_reduce(sum) of f32 (100, 10)".
  std::string signature() const;
  // The size of all arrays together.
  std::size_t bytes() const;
  // Lets go of the arrays. kind_name() and what() stay as they are; signature() and bytes() need the arrays.
  void release_arrays();
};

}  // namespace tandem::distributed
