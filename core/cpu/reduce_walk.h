// Walks over an array for a reduction: by rows if the numbers of one output are neighbours in memory, and by columns if
// the numbers of different outputs are. The work is cut into parts of a fixed size, which are merged in order: the
// result does not depend on the number of threads.
#pragma once

#include <tandem/core/array/array.h>

#include <array>

namespace tandem::cpu {

// The dimensions of x that are kept, and those that are reduced. Each of the two lists is joined where possible, and
// sorted so that the smallest stride comes last.
struct ReduceWalk {
  struct Dimension {
    std::int64_t size, stride, out_stride;  // out_stride is the stride in y, whose own strides are row-major
  };
  struct List {
    std::array<Dimension, Dims::max_ndim> dims;
    int ndim = 0;
    std::int64_t count = 1;  // elements in all dimensions of this list together
    std::int64_t offset(std::int64_t index, int without = 0,
                        std::int64_t Dimension::*stride = &Dimension::stride) const {
      std::int64_t result = 0;
      for (int d = ndim - 1 - without; d >= 0; --d) {
        const std::int64_t i = d == 0 ? index : index % dims[d].size;
        index /= dims[d].size;
        result += i * dims[d].*stride;
      }
      return result;
    }
    std::int64_t out_offset(std::int64_t index, int without = 0) const {
      return offset(index, without, &Dimension::out_stride);
    }
    void join() {
      std::stable_sort(dims.begin(), dims.begin() + ndim,
                       [](const Dimension& a, const Dimension& b) { return a.stride > b.stride; });
      int kept = 0;
      for (int d = 0; d < ndim; ++d) {
        const Dimension& next = dims[d];
        if (kept > 0 && dims[kept - 1].stride == next.stride * next.size &&
            dims[kept - 1].out_stride == next.out_stride * next.size) {
          dims[kept - 1] = {dims[kept - 1].size * next.size, next.stride, next.out_stride};
        } else {
          dims[kept++] = next;
        }
      }
      ndim = kept;
    }
  };
  List kept, reduced;

  ReduceWalk(const Array& x, const Array& y) {
    for (int i = 0; i < x.ndim(); ++i) {
      const std::int64_t n = x.shape()[i];
      if (n == 1) continue;
      List& list = y.shape()[i] == 1 ? reduced : kept;
      list.dims[list.ndim++] = {n, x.strides()[i], y.shape()[i] == 1 ? 0 : y.strides()[i]};
      list.count *= n;
    }
    kept.join();
    reduced.join();
  }
  bool by_columns() const {
    if (reduced.ndim > 0 && reduced.dims[reduced.ndim - 1].stride == 1) return false;
    return kept.ndim > 0 && kept.dims[kept.ndim - 1].stride == 1;
  }
};

inline constexpr std::int64_t part_size = 32768;  // about as many numbers as a thread takes at a time

// How an operation reduces blocks of numbers of one type (core/cpu/reduce_blocks.h). The walk is compiled once for all
// operations and types, so it does not know the types of numbers and states: it has the number of their bytes.
class BlockReduction {
 public:
  static constexpr std::int64_t most_state_bytes = 24;
  const std::int64_t number_bytes, state_bytes;

  // Makes `count` states of no numbers.
  virtual void start(std::byte* states, std::int64_t count) const = 0;
  // Adds n numbers, `stride` apart, to a state.
  virtual void row(const std::byte* x, std::int64_t n, std::int64_t stride, std::byte* state) const = 0;
  // Adds `count` rows of n neighbouring numbers, each to its own state. The rows begin `row_stride` apart.
  virtual void rows(const std::byte* x, std::int64_t count, std::int64_t n, std::int64_t row_stride,
                    std::byte* states) const = 0;
  // Adds the numbers of each column of a block to the column's state.
  virtual void columns(const std::byte* x, std::int64_t columns, std::int64_t rows, std::int64_t row_stride,
                       std::byte* states) const = 0;
  // Merges `count` states into as many others.
  virtual void merge(std::byte* states, const std::byte* others, std::int64_t count) const = 0;
  // Writes `count` outputs, from the o-th on, `stride` apart.
  virtual void finish(std::int64_t o, const std::byte* states, std::int64_t count = 1,
                      std::int64_t stride = 1) const = 0;

 protected:
  BlockReduction(std::int64_t number_bytes, std::int64_t state_bytes)
      : number_bytes(number_bytes), state_bytes(state_bytes) {}
  ~BlockReduction() = default;
};

// Reduces the numbers at x.
void reduce(const BlockReduction& op, const ReduceWalk& walk, const void* x);

}  // namespace tandem::cpu
