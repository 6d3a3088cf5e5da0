// Walks over an array for a reduction: by rows if the numbers of one output are neighbours in memory, and by columns if
// the numbers of different outputs are. The work is cut into parts of a fixed size, which are merged in order: the
// result does not depend on the number of threads.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/reduce_blocks.h>
#include <tandem/core/formulas/reductions.h>

#include <memory>

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

template <class Op, class T>
class Reducer {
  using State = typename Op::template State<T>;
  const Op& op_;
  const ReduceWalk& walk_;
  const T* x_;
  ReductionOutput out_;

  // Writes `count` outputs, from the o-th on, `stride` apart.
  void finish(std::int64_t o, const State* states, std::int64_t count = 1, std::int64_t stride = 1) const {
    if (out_.dtype == dtype_of<T>()) {  // nearly always so: no choice of the dtype for each number
      T* to = static_cast<T*>(out_.data) + o;
      for (std::int64_t i = 0; i < count; ++i)
        to[i * stride] =
            static_cast<T>(static_cast<compute_t<T>>(op_.template result<T>(states[i], walk_.reduced.count)));
      return;
    }
    for (std::int64_t i = 0; i < count; ++i)
      out_.write(o + i * stride, op_.template result<T>(states[i], walk_.reduced.count));
  }

  // For outputs that each reduce one row of neighbours which is no longer than a block: reduces several rows at once.
  void short_rows() const {
    const auto& rows = walk_.kept.dims[walk_.kept.ndim - 1];
    const std::int64_t n = walk_.reduced.count;
    const std::int64_t batch = std::clamp<std::int64_t>(2 * row_block / n, 1, row_block);
    const std::int64_t batches = (rows.size + batch - 1) / batch;
    parallel_for(walk_.kept.count / rows.size * batches, walk_.kept.count * n, [&](std::int64_t item) {
      const std::int64_t first = item % batches * batch, end = std::min(rows.size, first + batch);
      const T* x = x_ + walk_.kept.offset(item / batches, 1);
      const std::int64_t o = walk_.kept.out_offset(item / batches, 1);
      constexpr std::int64_t most = 16;  // rows that are reduced at once
      for (std::int64_t r = first; r < end; r += most) {
        State states[most];
        const std::int64_t count = std::min(most, end - r);
        reduce_rows(op_, x + r * rows.stride, count, n, rows.stride, states);
        finish(o + r * rows.out_stride, states, count, rows.out_stride);
      }
    });
  }

 public:
  Reducer(const Op& op, const ReduceWalk& walk, const T* x, ReductionOutput out)
      : op_(op), walk_(walk), x_(x), out_(out) {}

  void rows() const {
    const auto& kept = walk_.kept;
    const auto& reduced = walk_.reduced;
    const bool some = reduced.ndim > 0;
    const std::int64_t n = some ? reduced.dims[reduced.ndim - 1].size : 1;
    const std::int64_t stride = some ? reduced.dims[reduced.ndim - 1].stride : 1;
    if (reduced.ndim <= 1 && stride == 1 && n <= row_block && kept.ndim > 0) return short_rows();
    const std::int64_t piece = std::min(n, row_block), pieces = (n + piece - 1) / piece;
    const std::int64_t units = reduced.count / n * pieces;
    const std::int64_t units_per_part = std::max<std::int64_t>(1, part_size / piece);
    const std::int64_t parts = (units + units_per_part - 1) / units_per_part;
    const auto reduce_part = [&](const T* base, std::int64_t part) {
      State state;
      const std::int64_t begin = part * units_per_part, end = std::min(units, begin + units_per_part);
      std::int64_t row = begin == 0 ? 0 : begin / pieces, first = (begin - row * pieces) * piece;
      for (std::int64_t unit = begin; unit < end; ++unit) {
        reduce_row(op_, base + (row == 0 ? 0 : reduced.offset(row, 1)) + first * stride, std::min(piece, n - first),
                   stride, state);
        first += piece;
        if (first >= n) {
          first = 0;
          ++row;
        }
      }
      return state;
    };
    if (parts == 1) {
      parallel_for(kept.count, kept.count * reduced.count, [&](std::int64_t o) {
        const State state = reduce_part(x_ + kept.offset(o), 0);
        finish(kept.out_offset(o), &state);
      });
      return;
    }
    const std::unique_ptr<State[]> states(new State[static_cast<std::size_t>(kept.count * parts)]);
    parallel_for(kept.count * parts, kept.count * reduced.count, [&](std::int64_t i) {
      states[static_cast<std::size_t>(i)] = reduce_part(x_ + kept.offset(i / parts), i % parts);
    });
    for (std::int64_t o = 0; o < kept.count; ++o) {
      State* state = &states[static_cast<std::size_t>(o * parts)];
      for (std::int64_t part = 1; part < parts; ++part) state->merge(state[part]);
      finish(kept.out_offset(o), state);
    }
  }

  void columns() const {
    const auto& kept = walk_.kept;
    const auto& reduced = walk_.reduced;
    const std::int64_t all = kept.dims[kept.ndim - 1].size, out_stride = kept.dims[kept.ndim - 1].out_stride;
    const std::int64_t width = std::min(all, column_block), blocks = (all + width - 1) / width;
    const std::int64_t items = kept.count / all * blocks;
    const std::int64_t m = reduced.ndim > 0 ? reduced.dims[reduced.ndim - 1].size : 1;
    const std::int64_t rows_per_part = (part_size / width + column_rows - 1) / column_rows * column_rows;
    const std::int64_t parts = (reduced.count + rows_per_part - 1) / rows_per_part;
    const auto reduce_part = [&](std::int64_t item, std::int64_t part, State* states) {
      const std::int64_t first = item % blocks * width;
      const T* base = x_ + kept.offset(item / blocks, 1) + first;
      const std::int64_t end = std::min(reduced.count, (part + 1) * rows_per_part);
      for (std::int64_t r = part * rows_per_part; r < end;) {
        const std::int64_t within = r % m, run = std::min(m - within, end - r);
        run_of_rows(base + reduced.offset(r), std::min(width, all - first), run, states);
        r += run;
      }
    };
    const auto finish_block = [&](std::int64_t item, const State* states) {
      const std::int64_t first = item % blocks * width, n = std::min(width, all - first);
      const std::int64_t o = kept.out_offset(item / blocks, 1) + first * out_stride;
      finish(o, states, n, out_stride);
    };
    if (parts == 1) {
      parallel_for(items, kept.count * reduced.count, [&](std::int64_t item) {
        // Raw memory: only the states that are used are constructed.
        alignas(State) std::byte memory[column_block * sizeof(State)];
        State* states = reinterpret_cast<State*>(memory);
        std::uninitialized_default_construct_n(states, width);
        reduce_part(item, 0, states);
        finish_block(item, states);
      });
      return;
    }
    const std::unique_ptr<State[]> states(new State[static_cast<std::size_t>(items * parts * width)]);
    parallel_for(items * parts, kept.count * reduced.count, [&](std::int64_t i) {
      reduce_part(i / parts, i % parts, &states[static_cast<std::size_t>(i * width)]);
    });
    parallel_for(items, items * parts * width, [&](std::int64_t item) {
      State* of_item = &states[static_cast<std::size_t>(item * parts * width)];
      for (std::int64_t part = 1; part < parts; ++part)
        for (std::int64_t j = 0; j < width; ++j) of_item[j].merge(of_item[part * width + j]);
      finish_block(item, of_item);
    });
  }

 private:
  // Reduces rows of columns that follow each other with the stride of the innermost reduced dimension.
  void run_of_rows(const T* x, std::int64_t columns, std::int64_t rows, State* states) const {
    const std::int64_t stride = walk_.reduced.ndim > 0 ? walk_.reduced.dims[walk_.reduced.ndim - 1].stride : 0;
    constexpr std::int64_t wide = 128;  // columns of a wide row
    // When columns are few and dense, several rows are taken together as one wide row.
    const std::int64_t together = stride == columns && columns <= wide / 4 ? wide / columns : 1;
    std::int64_t r = 0;
    if (together > 1 && rows >= 2 * together) {
      State of_wide[wide];
      for (; r + together <= rows;) {
        const std::int64_t n = std::min(column_rows, (rows - r) / together);
        reduce_columns(op_, x + r * stride, columns * together, n, stride * together, of_wide);
        r += n * together;
      }
      for (std::int64_t i = 0; i < together; ++i)
        for (std::int64_t j = 0; j < columns; ++j) states[j].merge(of_wide[i * columns + j]);
    }
    while (r < rows) {
      const std::int64_t n = std::min(column_rows, rows - r);
      reduce_columns(op_, x + r * stride, columns, n, stride, states);
      r += n;
    }
  }
};

// y has size 1 in the reduced dimensions. One function for each operation; they are compiled in reduce_*.cpp.
template <class Op>
void reduce_with(const Op& op, const Array& x, const Array& y) {
  const ReduceWalk walk(x, y);
  const ReductionOutput out{y.raw(), y.dtype()};
  const auto run = [&](auto type) {
    // A bool is a byte that is 0 or 1.
    using T = std::conditional_t<std::is_same_v<decltype(type), bool>, std::uint8_t, decltype(type)>;
    const Reducer<Op, T> reducer(op, walk, static_cast<const T*>(x.raw()), out);
    if (walk.reduced.count == 0) {
      const auto nothing = op.template result<T>(typename Op::template State<T>(), 0);
      for (std::int64_t o = 0; o < y.numel(); ++o) out.write(walk.kept.out_offset(o), nothing);
    } else if (walk.by_columns()) {
      reducer.columns();
    } else {
      reducer.rows();
    }
  };
  if (y.numel() == 0) return;
  if constexpr (reductions::takes_integers<Op>) dispatch(x.dtype(), run);
  else dispatch_floating(x.dtype(), "reduction", run);
}

}  // namespace tandem::cpu
