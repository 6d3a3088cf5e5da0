// Operation: one operation of a process group, with its arrays.
#pragma once

#include <tandem/core/array/array.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tandem::distributed {

enum class ReduceOp { sum, mean, min, max, product };

// The table lists the number of arrays in `inputs` and `outputs` for each kind of operation. Broadcast, all_reduce and
// reduce work in place: they read and write the single array in `outputs`.
//   broadcast, all_reduce, reduce    outputs: 1
//   all_gather                       inputs: 1; outputs: one for each rank
//   reduce_scatter                   inputs: one for each rank; outputs: 1
//   gather                           inputs: 1; outputs: on the root one for each rank, elsewhere none
//   scatter                          inputs: on the root one for each rank, elsewhere none; outputs: 1
//   all_to_all                       inputs: one for each rank; outputs: one for each rank
//   barrier                          none
//   send                             inputs: 1
//   receive                          outputs: 1
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
  // Returns "all_reduce 'gradient bucket 2'", in one line. Control characters of the name become question marks.
  std::string what() const;
  // Returns a text that must be equal on all ranks. It does not contain the name. Example: "all_reduce(sum) of f32 (64,
  // 10)" for the sum of f32 arrays of shape (64, 10).
  std::string signature() const;
  // Returns the same text from its parts. `dtype` and `shape` are those of the first output, or of the first input if
  // there are no outputs.
  static std::string signature(Kind kind, ReduceOp reduce_op, DType dtype, const Shape& shape, int root);
  // Returns the size of all inputs and outputs together.
  std::size_t bytes() const;
  // Releases the arrays. Afterwards, kind_name() and what() still return their texts, but signature() must not be
  // called.
  void release_arrays();
};

}  // namespace tandem::distributed
