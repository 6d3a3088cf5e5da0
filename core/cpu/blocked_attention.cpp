// Attention in the blocks of Dao et al., arXiv:2205.14135, with one difference: a block consists of some queries and
// all of their keys. For all usual lengths, the scores of a block fit in the cache, and no sum needs a later
// correction.
#include <tandem/core/array/loop_nest.h>
#include <tandem/core/array/matrix_layout.h>
#include <tandem/core/backend/blocked_attention.h>
#include <tandem/core/cpu/matmul_method.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/vector_math.h>
#include <tandem/core/formulas/reductions.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr int lanes = cpu::float_lanes;
constexpr std::int64_t most_queries = 128;  // queries per block
using Lanes = cpu::vec<float, lanes>;
using Math = cpu::LaneMath<float, lanes>;

// The matrices in the last two dimensions of an array (..., R, C) of f32.
struct Matrices {
  float* data;
  Shape shape;
  Strides strides;
  int batch_ndim;
  MatrixLayout layout;

  explicit Matrices(const Array& a)
      : data(static_cast<float*>(a.raw())),
        shape(a.shape()),
        strides(a.strides()),
        batch_ndim(a.ndim() - 2),
        layout(*matrix_layout(a)) {}
  float* operator[](std::int64_t i) const { return data + offset_of(i, batch_ndim, shape.begin(), strides.begin()); }
  std::int64_t row_step() const { return layout.transposed ? 1 : layout.leading; }
  std::int64_t column_step() const { return layout.transposed ? layout.leading : 1; }
  std::int64_t rows() const { return shape[batch_ndim]; }
  std::int64_t columns() const { return shape[batch_ndim + 1]; }
  MatrixLayout turned() const { return {!layout.transposed, layout.leading}; }
};

// The mask of one head: the address of each query's row, and the distance from one key to the next.
struct MaskRows {
  const float* data = nullptr;
  std::int64_t row_step = 0, key_step = 0;
  MaskRows(const Array& mask, std::int64_t head) {
    if (!mask.defined()) return;
    const int batch_ndim = mask.ndim() - 2;
    data = static_cast<const float*>(mask.raw()) +
           offset_of(head, batch_ndim, mask.shape().begin(), mask.strides().begin());
    row_step = mask.strides()[batch_ndim];
    key_step = mask.strides()[batch_ndim + 1];
  }
  void add_to(float* scores, std::int64_t query, std::int64_t n) const {
    if (!data) return;
    const float* m = data + query * row_step;
    if (key_step == 1)
      for (std::int64_t i = 0; i < n; ++i) scores[i] += m[i];
    else
      for (std::int64_t i = 0; i < n; ++i) scores[i] += m[i * key_step];
  }
};

// Returns the largest of n numbers, or NaN if one of them is NaN.
float highest_of(const float* x, std::int64_t n) {
  const auto larger = [](auto a, auto b) { return b > a || b != b ? b : a; };
  Lanes most = Lanes{} - infinity;
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Lanes v = cpu::load_raw<float, lanes>(x + i);
    most = ((v > most) | (v != v)) ? v : most;
  }
  float result = -infinity;
  for (int lane = 0; lane < lanes; ++lane) result = larger(result, most[lane]);
  for (; i < n; ++i) result = larger(result, x[i]);
  return result;
}

// Computes x = exp(x - shift) and returns the sum.
float exponentials(float* x, std::int64_t n, float shift) {
  Lanes sum{};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Lanes v = Math::exp(cpu::load_raw<float, lanes>(x + i) - shift);
    std::memcpy(x + i, &v, sizeof v);
    sum += v;
  }
  float total = 0;
  if (i < n) {
    Lanes rest = Lanes{} - infinity;
    std::memcpy(&rest, x + i, static_cast<std::size_t>(n - i) * sizeof(float));
    rest = Math::exp(rest - shift);
    std::memcpy(x + i, &rest, static_cast<std::size_t>(n - i) * sizeof(float));
    sum += rest;
  }
  for (int lane = 0; lane < lanes; ++lane) total += sum[lane];
  return total;
}

// The division of the work into blocks of queries for each head, and among threads. `size` is the number of queries in
// a block, and `count` the number of blocks of a head.
struct Blocks {
  std::int64_t heads, queries, keys, size, count, workers;
  explicit Blocks(const AttentionInputs& in)
      : heads(in.query.numel() / (in.query.dim(-2) * in.query.dim(-1))),
        queries(in.query.dim(-2)),
        keys(in.key.dim(-2)) {
    constexpr std::int64_t scores = 48 * 1024;  // scores per block: 192 KiB, a part of the second-level cache
    size = std::min(queries, std::clamp<std::int64_t>(scores / keys / 16 * 16, 32, most_queries));
    count = (queries + size - 1) / size;
  }
  std::int64_t first(std::int64_t block) const { return block * size; }
  std::int64_t queries_of(std::int64_t block) const { return std::min(size, queries - first(block)); }
  // Returns the number of keys to which at least one query of the block may attend.
  std::int64_t keys_of(std::int64_t block, bool is_causal) const {
    return is_causal ? std::min(keys, first(block) + queries_of(block)) : keys;
  }
  std::int64_t keys_of_query(std::int64_t query, bool is_causal) const {
    return is_causal ? std::min(keys, query + 1) : keys;
  }
};

// Calls f(task, memory) for each task, distributed over threads. `memory` has room for `floats` numbers and belongs to
// the thread.
template <class F>
void share(std::int64_t tasks, std::int64_t elements, std::int64_t floats, F f) {
  const std::int64_t workers = std::min<std::int64_t>(tasks, omp_get_max_threads());
  const Array memory = Array::empty({workers, floats});
  float* const begin = memory.data<float>();
  if (workers == 1) {  // tasks run one after the other, and all threads share each product
    for (std::int64_t task = 0; task < tasks; ++task) f(task, begin);
    return;
  }
  cpu::parallel_for(workers, elements, [&](std::int64_t worker) {
    for (std::int64_t task = worker; task < tasks; task += workers) f(task, begin + worker * floats);
  });
}

// Computes scores (queries of the block, keys) = query key^T * scale.
void scores_of(const Matrices& query, const Matrices& key, std::int64_t head, const Blocks& blocks, std::int64_t block,
               std::int64_t keys, double scale, float* scores) {
  cpu::gemm({.rows = blocks.queries_of(block),
             .inner = query.columns(),
             .columns = keys,
             .a = query[head] + blocks.first(block) * query.row_step(),
             .a_layout = query.layout,
             .b = key[head],
             .b_layout = key.turned(),
             .y = scores,
             .y_leading = keys,
             .alpha = static_cast<float>(scale)});
}

void forward(const AttentionInputs& in, const Array& y, const Array& log_sum) {
  const Matrices query(in.query), key(in.key), value(in.value), out(y);
  const Blocks blocks(in);
  float* const sums = static_cast<float*>(log_sum.raw());
  const bool is_causal = in.mask.is_causal;
  share(blocks.heads * blocks.count, blocks.heads * blocks.queries * blocks.keys, blocks.size * blocks.keys,
        [&](std::int64_t task, float* scores) {
          const std::int64_t head = task / blocks.count, block = task % blocks.count;
          const std::int64_t keys = blocks.keys_of(block, is_causal), first = blocks.first(block);
          const std::int64_t rows = blocks.queries_of(block);
          scores_of(query, key, head, blocks, block, keys, in.scale, scores);
          const MaskRows mask(in.mask.added, head);
          float* const log_sums = sums + head * blocks.queries + first;
          float factors[most_queries];  // the factor of each row of y at the end
          for (std::int64_t r = 0; r < rows; ++r) {
            float* row = scores + r * keys;
            const std::int64_t n = blocks.keys_of_query(first + r, is_causal);
            mask.add_to(row, first + r, n);
            const float highest = highest_of(row, n);
            const bool sees_nothing = highest == -infinity;
            const float sum = sees_nothing ? 0 : exponentials(row, n, highest);
            if (sees_nothing) std::fill(row, row + n, 0.f);
            std::fill(row + n, row + keys, 0.f);
            factors[r] = sees_nothing ? 0 : 1 / sum;
            log_sums[r] = sees_nothing ? infinity : highest + std::log(sum);
          }
          float* const result = out[head] + first * out.row_step();
          cpu::gemm({.rows = rows,
                     .inner = keys,
                     .columns = value.columns(),
                     .a = scores,
                     .a_layout = {false, keys},
                     .b = value[head],
                     .b_layout = value.layout,
                     .y = result,
                     .y_leading = out.row_step()});
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < value.columns(); ++c) result[r * out.row_step() + c] *= factors[r];
        });
}

// On entry `weights` contains scores; it becomes exp(scores - log_sum). `grad_weights` becomes the gradient of the
// scores.
void scores_grad(float* weights, float* grad_weights, std::int64_t n, float log_sum, float delta, float scale) {
  exponentials(weights, n, log_sum);
  for (std::int64_t i = 0; i < n; ++i) grad_weights[i] = weights[i] * (grad_weights[i] - delta) * scale;
}

// Returns the sum of y * grad_y over a row. It equals the sum of weights * grad_weights over the row.
float dot(const float* y, std::int64_t y_step, const float* grad, std::int64_t grad_step, std::int64_t n) {
  float sum = 0;
  for (std::int64_t c = 0; c < n; ++c) sum += y[c * y_step] * grad[c * grad_step];
  return sum;
}

void backward(const AttentionInputs& in, const Array& y, const Array& log_sum, const Array& grad_y,
              const AttentionGradients& gradients) {
  const Matrices query(in.query), key(in.key), value(in.value), out(y), grad_out(grad_y);
  const Matrices grad_query(gradients.query), grad_key(gradients.key), grad_value(gradients.value);
  const Blocks blocks(in);
  const float* const sums = static_cast<const float*>(log_sum.raw());
  const bool is_causal = in.mask.is_causal;
  const auto zero = [](const Matrices& m, std::int64_t head) {
    for (std::int64_t r = 0; r < m.rows(); ++r) {
      float* row = m[head] + r * m.row_step();
      std::fill(row, row + m.columns(), 0.f);
    }
  };
  const auto head_grad = [&](std::int64_t head, float* memory) {
    float* const weights = memory;
    float* const grad_weights = memory + blocks.size * blocks.keys;
    const MaskRows mask(in.mask.added, head);
    zero(grad_key, head);
    zero(grad_value, head);
    for (std::int64_t block = 0; block < blocks.count; ++block) {
      const std::int64_t first = blocks.first(block), rows = blocks.queries_of(block);
      const std::int64_t keys = blocks.keys_of(block, is_causal);
      const float* const grad = grad_out[head] + first * grad_out.row_step();
      const float* const result = out[head] + first * out.row_step();
      const float* const queries = query[head] + first * query.row_step();
      scores_of(query, key, head, blocks, block, keys, in.scale, weights);
      cpu::gemm({.rows = rows,
                 .inner = value.columns(),
                 .columns = keys,
                 .a = grad,
                 .a_layout = grad_out.layout,
                 .b = value[head],
                 .b_layout = value.turned(),
                 .y = grad_weights,
                 .y_leading = keys});
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t n = blocks.keys_of_query(first + r, is_causal);
        float* const row = weights + r * keys;
        float* const grad_row = grad_weights + r * keys;
        mask.add_to(row, first + r, n);
        const float delta = dot(result + r * out.row_step(), out.column_step(), grad + r * grad_out.row_step(),
                                grad_out.column_step(), value.columns());
        scores_grad(row, grad_row, n, sums[head * blocks.queries + first + r], delta, static_cast<float>(in.scale));
        std::fill(row + n, row + keys, 0.f);
        std::fill(grad_row + n, grad_row + keys, 0.f);
      }
      cpu::gemm({.rows = keys,
                 .inner = rows,
                 .columns = value.columns(),
                 .a = weights,
                 .a_layout = {true, keys},
                 .b = grad,
                 .b_layout = grad_out.layout,
                 .y = grad_value[head],
                 .y_leading = grad_value.row_step(),
                 .beta = 1});
      cpu::gemm({.rows = rows,
                 .inner = keys,
                 .columns = key.columns(),
                 .a = grad_weights,
                 .a_layout = {false, keys},
                 .b = key[head],
                 .b_layout = key.layout,
                 .y = grad_query[head] + first * grad_query.row_step(),
                 .y_leading = grad_query.row_step()});
      cpu::gemm({.rows = keys,
                 .inner = rows,
                 .columns = query.columns(),
                 .a = grad_weights,
                 .a_layout = {true, keys},
                 .b = queries,
                 .b_layout = query.layout,
                 .y = grad_key[head],
                 .y_leading = grad_key.row_step(),
                 .beta = 1});
    }
  };
  share(blocks.heads, blocks.heads * blocks.queries * blocks.keys, 2 * blocks.size * blocks.keys, head_grad);
}

AttentionInputs widened(const AttentionInputs& in) {
  return {with_matrix_layout(in.query.to(DType::f32)), with_matrix_layout(in.key.to(DType::f32)),
          with_matrix_layout(in.value.to(DType::f32)), in.mask, in.scale};
}

bool attention(const AttentionInputs& in, const Array& y, const Array& log_sum) {
  if (!y.device().is_cpu() || y.dtype() == DType::f64) return false;
  if (y.dtype() == DType::f32) {
    forward(in, y, log_sum);
  } else {
    const Array wide = Array::empty(y.shape());
    forward(widened(in), wide, log_sum);
    Array(y).copy_from(wide);
  }
  return true;
}

void attention_grad(const AttentionInputs& in, const Array& y, const Array& log_sum, const Array& grad_y,
                    const AttentionGradients& grad) {
  if (y.dtype() == DType::f32) return backward(in, y, log_sum, grad_y, grad);
  const AttentionGradients wide{Array::empty(grad.query.shape()), Array::empty(grad.key.shape()),
                                Array::empty(grad.value.shape())};
  backward(widened(in), y.to(DType::f32), log_sum, with_matrix_layout(grad_y.to(DType::f32)), wide);
  Array(grad.query).copy_from(wide.query);
  Array(grad.key).copy_from(wide.key);
  Array(grad.value).copy_from(wide.value);
}

}  // namespace

void add_blocked_attention() { blocked_attention_kernels.add({attention, attention_grad}); }

}  // namespace tandem
