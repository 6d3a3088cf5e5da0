// Backend: what a device must be able to compute. One implementation per kind of device: core/cpu/, core/cuda/.
//
// Shapes, dtypes and devices are checked and outputs allocated above, in core/ops/: an implementation receives views
// that fit and only computes. `const Array&` is a handle; outputs come last and are written through it.
// Four-dimensional inputs and outputs of the spatial operations are channels last.
#pragma once

#include <tandem/core/base/shape.h>
#include <tandem/core/device/device.h>
#include <tandem/core/device/index_fault.h>
#include <tandem/core/device/memory_stats.h>
#include <tandem/core/formulas/batch_norm.h>
#include <tandem/core/formulas/class_loss.h>
#include <tandem/core/formulas/functors.h>
#include <tandem/core/formulas/group_norm.h>
#include <tandem/core/formulas/pair_losses.h>
#include <tandem/core/formulas/pooling.h>
#include <tandem/core/formulas/reductions.h>
#include <tandem/core/formulas/resize.h>
#include <tandem/core/formulas/scans.h>
#include <tandem/core/formulas/segments_norm.h>
#include <tandem/core/formulas/update_rules.h>
#include <tandem/core/formulas/window.h>

#include <optional>
#include <span>

namespace tandem {

// A back-end is told where arrays lie; what an Array is, is defined above this room (core/array/array.h). So are the
// arguments that hold arrays: core/ops/norm.h, core/ops/attention.h.
class Array;
struct AttentionGradients;
struct AttentionInputs;
struct AttentionMask;
struct BatchNormAffine;
struct BatchNormUpdate;

// Grouped by what they do. core/device/backend_overrides.inc repeats them for the back-ends and names their files.
class Backend {
 public:
  virtual ~Backend() = default;

  // --- Memory: where numbers lie, and the way to the host and back ---

  // Aligned for every vector, from a cache: a block given back serves the next request of its size class.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* data, std::size_t bytes) = 0;
  virtual MemoryStats memory_stats() const = 0;

  // Bytes between the host's memory and the device's, after all work that was started before; done on return.
  virtual void upload(const void* host, void* data, std::size_t bytes) = 0;
  virtual void download(const void* data, void* host, std::size_t bytes) = 0;
  // Waits for all work that this thread started. Error when some of it failed.
  virtual void synchronize() = 0;

  // --- Elements: each number of the output from those at its place ---

  // Any strides. copy converts dtypes.
  virtual void copy(const Array& from, const Array& to) = 0;
  // y = the parts, one after the other along `dim`. Returns false, having done nothing, where copying each of them is
  // as fast.
  virtual bool cat(std::span<const Array> /*parts*/, int /*dim*/, const Array& /*y*/) { return false; }
  virtual void fill(const Array& to, double value) = 0;
  virtual void map(const UnaryOp& op, const Array& x, const Array& y) = 0;
  virtual void map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y, const Array& grad_x) = 0;
  virtual void zip(const BinaryOp& op, const Array& a, const Array& b, const Array& y) = 0;
  // grad = grad_y * d(op)/d(operand), where operand 0 is a and 1 is b; everything already broadcast to y's shape.
  virtual void zip_grad(const BinaryOp& op, int operand, const Array& a, const Array& b, const Array& grad_y,
                        const Array& grad) = 0;
  virtual void compare(const CompareOp& op, const Array& a, const Array& b, const Array& y) = 0;
  virtual void compare(const CompareOp& op, const Array& x, double number, const Array& y) = 0;
  // y = condition ? a : b, of any dtype; condition is bool; everything already broadcast to y's shape.
  virtual void where(const Array& condition, const Array& a, const Array& b, const Array& y) = 0;

  // --- Dimensions: many numbers become one (reduce, search), or are seen in order (scan, sort) ---

  // y has size 1 in the dimensions that are reduced; any dtype.
  virtual void reduce(const Reduction& op, const Array& x, const Array& y) = 0;
  // grad_x = op.derivative(x, y, grad_y), y and grad_y broadcast to x's shape, all of one dtype.
  virtual void reduce_grad(const Reduction& op, const Array& x, const Array& y, const Array& grad_y,
                           const Array& grad_x) = 0;
  // Along `dim` of x, where y has size 1: the largest (smallest) in values, the first position of it in indices (i64).
  // Either may be null.
  virtual void search(bool largest, const Array& x, int dim, const Array* values, const Array* indices) = 0;
  // Sums (products) from the beginning of `dim` to each element; from its end where `reversed`. y is a floating dtype
  // or i64.
  virtual void scan(Scan op, const Array& x, int dim, bool reversed, const Array& y) = 0;
  // The first k of each row of x (rows, n), sorted; equals in the order of their positions; a NaN is the largest.
  // values and indices (i64) are (rows, k). All dense.
  virtual void sort(const Array& x, bool descending, std::int64_t k, const Array& values, const Array& indices) = 0;

  // --- Matrices: products, alone or in batches ---

  // y (M, N) = a (M, K) b (K, N) [+ bias (N)], or the same for a batch: y (B, M, N), a (B, M, K), b (B, K, N). Nothing
  // is empty; any strides of a and b (0: one matrix for all); y's matrices are row-major; bias is f32 where y is
  // 16-bit.
  virtual void matmul(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y) = 0;

  // --- Attention: in two steps that hold all weights, or in one that does not ---

  // weights (..., L, S) = softmax of scores * scale + mask over S; dense, perhaps the same memory. A row that the mask
  // leaves nothing of is 0.
  virtual void attention_weights(const Array& scores, const AttentionMask& mask, double scale,
                                 const Array& weights) = 0;
  // grad_scores / scale = weights * (grad - sum of weights * grad over S).
  virtual void attention_weights_grad(const Array& weights, const Array& grad, double scale,
                                      const Array& grad_scores) = 0;
  // Attention in blocks that never hold all weights (Dao et al., arXiv:2205.14135): y (..., L, F) = weights value from
  // query
  // (..., L, E), key (..., S, E), value (..., S, F) and log_sum (..., L), dense, the logarithm of what each row of
  // weights was divided by, infinite where nothing was left. The matrices of all but log_sum have a layout
  // (core/array/matrix_layout.h), leading dimensions have any strides. Returns false, having done nothing, where the
  // device has no such code.
  virtual bool attention(const AttentionInputs&, const Array& /*y*/, const Array& /*log_sum*/) { return false; }
  // After a call of the above.
  virtual void attention_grad(const AttentionInputs&, const Array& /*y*/, const Array& /*log_sum*/,
                              const Array& /*grad_y*/, const AttentionGradients&) {}

  // --- Images: convolutions, pooling, resizing, and their gradients ---

  // x (N, C, H, W), weight (O, C / groups, KH, KW) row-major, bias (O), y (N, O, OH, OW). weight and bias may be f32
  // while x and y are 16-bit: they are converted as they are packed.
  virtual void conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
                      const Array& y) = 0;
  virtual void conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window,
                                 const Array& grad_x) = 0;
  virtual void conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window, const Array& grad_weight,
                                  const std::optional<Array>& grad_bias) = 0;

  // `index` (as y; u8, or i32 where windows have more than 256 elements): which element of the window was the maximum,
  // row by row, the first of equals.
  virtual void max_pool2d(const Array& x, const Pooling& pooling, const Array& y, const Array& index) = 0;
  virtual void max_pool2d_grad(const Array& grad_y, const Array& index, const Pooling& pooling,
                               const Array& grad_x) = 0;
  virtual void avg_pool2d(const Array& x, const Pooling& pooling, const Array& y) = 0;
  virtual void avg_pool2d_grad(const Array& grad_y, const Pooling& pooling, const Array& grad_x) = 0;

  // x (N, C, H, W) in another height and width; nearest also takes u8.
  virtual void resize(const Array& x, const Resize& how, const Array& y) = 0;
  virtual void resize_grad(const Array& grad_y, const Resize& how, const Array& grad_x) = 0;

  // --- Normalisation: over a batch, or sample by sample ---

  // Training-mode batch normalisation in phases, so that statistics of several ranks can be combined in between.
  // Per channel: mean (C) and m2 (C), the sum of squared deviations from it; count (): values of a channel. Where they
  // are those of the whole batch, the update comes with them; otherwise null, and batch_norm_update follows.
  virtual void batch_norm_stats(const Array& x, const Array& mean, const Array& m2, const Array& count,
                                const BatchNormUpdate* update) = 0;
  virtual void batch_norm_update(const Array& mean, const Array& m2, const Array& count,
                                 const BatchNormUpdate& update) = 0;
  // y = pool(relu((x - mean) * invstd * weight + bias + addend)). addend: as x, or null; always null when pooling. Then
  // `selected` (as y) keeps the x behind each maximum and `index` (u8) its place in the window, 255 where ReLU stopped
  // it.
  virtual void batch_norm_apply(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                const Array* addend, const Array& y, const Array& selected, const Array& index) = 0;
  // sum_dy (C): sum of gradients that arrive at the normalised value; sum_dy_xhat (C): the same times (x - mean) *
  // invstd. x is `selected` when pooling.
  virtual void batch_norm_grad_reduce(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                      const Array& grad_y, const Array& sum_dy, const Array& sum_dy_xhat) = 0;
  // grad_x from the two sums above and the count (), all of all ranks; count is null where mean and invstd are running
  // ones, which don't depend on x. grad_x may be x itself.
  virtual void batch_norm_grad_input(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                     const Array& grad_y, const Array& index, const Array& sum_dy,
                                     const Array& sum_dy_xhat, const Array* count, const Array& grad_x) = 0;

  // x, y, grads dense, as `how` says; weight and bias (channels) or null, and mean and rstd (samples, groups), are f32
  // (f64 for f64 x). grad_x, grad_weight and grad_bias may be null.
  virtual void group_norm(const GroupNorm& how, const Array& x, const Array* weight, const Array* bias, const Array& y,
                          const Array& mean, const Array& rstd) = 0;
  virtual void group_norm_grad(const GroupNorm& how, const Array& x, const Array* weight, const Array& mean,
                               const Array& rstd, const Array& grad_y, const Array* grad_x, const Array* grad_weight,
                               const Array* grad_bias) = 0;

  // --- Losses: softmax, and what compares a prediction with its target ---

  // Over the n of row-major (before, n, after); logarithm: of its result.
  virtual void softmax(bool logarithm, const Array& x, const Array& y) = 0;
  virtual void softmax_grad(bool logarithm, const Array& y, const Array& grad_y, const Array& grad_x) = 0;

  // x row-major (before, classes, after); target i64 and loss, unless it is reduced to (), one for each row: (before,
  // after). weight (classes) or null, loss and sums are f32 (f64 for f64 x). For the gradient: sums (2, rows), the
  // highest number of each row and the logarithm of its sum of exp(x - highest), undefined for log probabilities;
  // total_weight (), which a mean divides by.
  // Returns the first row whose target is neither in [0, classes) nor ignored, or -1. A device whose work runs later
  // returns -1, and its next download or synchronize throws.
  virtual std::int64_t cross_entropy(const ClassLoss& how, const Array& x, const Array& target, const Array* weight,
                                     const Array& loss, const Array& sums, const Array& total_weight) = 0;
  virtual void cross_entropy_grad(const ClassLoss& how, const Array& x, const Array& target, const Array* weight,
                                  const Array& sums, const Array& total_weight, const Array& grad_loss,
                                  const Array& grad_x) = 0;

  // All dense in the same order. y like x, or the sum of all losses times `scale` as ().
  virtual void pair_loss(const PairLoss& loss, const Array& x, const Array& target, double scale, const Array& y) = 0;
  // grad = grad_y * scale * d(loss)/d(operand), where operand 0 is x and 1 the target; grad_y like x or ().
  virtual void pair_loss_grad(const PairLoss& loss, int operand, const Array& x, const Array& target,
                              const Array& grad_y, double scale, const Array& grad) = 0;

  // --- Dropout: zeros in random places ---

  // Dense x and y: y = x / (1 - p) where the random number of the place (core/random/dropout_mask.h) is p or more, else
  // 0.
  virtual void dropout(const Array& x, std::uint64_t key, double p, const Array& y) = 0;

  // --- Positions: what indices or masks choose ---

  // out (N, ...): the rows of `rows` (R, ...) that `index` (N) i64 names. A row is a dense run of numbers, in the same
  // order in both. Returns the first position whose index is outside of [0, R), or -1, as cross_entropy does.
  virtual std::int64_t gather_rows(const Array& rows, const Array& index, const Array& out) = 0;
  // The same from bytes (u8) to f32: (byte / 255 - mean) / std.
  virtual std::int64_t gather_normalized(const Array& rows, const Array& index, float mean, float std,
                                         const Array& out) = 0;

  // y[.., i, ..] = x[.., index[.., i, ..], ..] and, the other way, y[.., index[.., i, ..], ..] = or += source[.., i,
  // ..], where i is the place in `dim`. All but the one that is indexed have the shape of `index` (i64), and that one
  // has it except in `dim`. `index` is contiguous, or a contiguous (N) along `dim` that is repeated over the other
  // dimensions by stride 0. Adding takes f32, f64, i64 and i32. Returns a position in memory of an index that is
  // outside of x's (y's) `dim`, the first on the CPU, or -1, as cross_entropy does; `of` names the caller in the error
  // of a device that finds it later.
  virtual std::int64_t gather(const Array& x, int dim, const Array& index, IndexFault::Of of, const Array& y) = 0;
  virtual std::int64_t scatter(const Array& source, int dim, const Array& index, bool add, IndexFault::Of of,
                               const Array& y) = 0;

  // y (B, M, N) = x where column - row is at least `diagonal` (keep_upper) or at most that (otherwise), and 0
  // elsewhere.
  virtual void triangle(const Array& x, std::int64_t diagonal, bool keep_upper, const Array& y) = 0;
  // Where `mask` (n) bool, dense, is true, in two steps because the caller does not know how often that is. `before`
  // (chunks + 1) i64: how many are true before each chunk of mask_chunk elements, and in all of them. `y` (count,
  // shape.ndim()) i64: their places, where n elements fill `shape` in row-major order.
  static constexpr std::int64_t mask_chunk = 4096;
  virtual void count_true(const Array& mask, const Array& before) = 0;
  virtual void true_positions(const Array& mask, const Array& before, const Shape& shape, const Array& y) = 0;

  // --- Optimizers: what a step does to parameters and their state ---

  // One pass over all segments, by one rule; on a GPU by the numbers that write_rule put at `stored`, where that is
  // given: a recorded pass follows what is written there later.
  virtual void update(std::span<const UpdateSegment> segments, const UpdateRule& rule,
                      const void* stored = nullptr) = 0;
  // (sum of |x|^p)^(1/p) over the numbers of all segments; p > 0, infinity: the largest |x|. norm: () f32. A NaN makes
  // it NaN.
  virtual void segments_norm(std::span<const Segment> segments, double p, const Array& norm) = 0;
  // Puts a rule's numbers into this device's memory, behind all that was asked for before. `to` has room for an
  // UpdateRule.
  virtual void write_rule(const UpdateRule& rule, void* to) = 0;
};

// The implementations, each in the room of its name: core/cpu/, and in builds with CUDA core/cuda/.
Backend& cpu_backend();
Backend& cuda_backend(int index);
int cuda_device_count();  // 0 also where there is no driver

// The implementation for a device, which becomes the one that this thread's calls go to. Error when this build has
// none.
Backend& backend(Device device);

// Where Device::Kind::cuda is not a GPU but something that behaves like one: for tests.
void set_cuda_backend(Backend& (*of_device)(int index), int (*device_count)());

}  // namespace tandem
