// Backend: the operations that every device implements. There is one implementation for each kind of device: core/cpu/
// and core/cuda/.
//
// The callers in core/ops/ check shapes, dtypes and devices, and allocate the outputs. An implementation therefore
// receives views that fit, and only computes. `const Array&` is a handle: outputs are the last arguments, and the
// implementation writes through their handles. Four-dimensional inputs and outputs of the spatial operations are
// channels last.
#pragma once

#include <tandem/core/array/device_memory.h>
#include <tandem/core/backend/arguments.h>
#include <tandem/core/backend/index_fault.h>
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

// The functions are grouped by purpose. core/backend/backend_overrides.inc repeats their declarations for the back-ends
// and names the files that implement them.
class Backend : public DeviceMemory {
 public:
  // --- Elements: each output element is computed from the input elements at the same position ---

  // All arrays of this group may have any strides.
  // Writes the parts to y, one after the other along `dim`, converted to y's dtype. y is row-major. Returns false
  // without doing anything if copying the parts one by one is as fast.
  virtual bool cat(std::span<const Array> parts, int dim, const Array& y) = 0;
  virtual void map(const UnaryOp& op, const Array& x, const Array& y) = 0;
  virtual void map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y, const Array& grad_x) = 0;
  virtual void zip(const BinaryOp& op, const Array& a, const Array& b, const Array& y) = 0;
  // grad = grad_y * d(op)/d(operand), where operand 0 is a and operand 1 is b. All arrays are already broadcast to y's
  // shape.
  virtual void zip_grad(const BinaryOp& op, int operand, const Array& a, const Array& b, const Array& grad_y,
                        const Array& grad) = 0;
  virtual void compare(const CompareOp& op, const Array& a, const Array& b, const Array& y) = 0;
  virtual void compare(const CompareOp& op, const Array& x, double number, const Array& y) = 0;
  // y = condition ? a : b, of any dtype. condition is bool. All arrays are already broadcast to y's shape.
  virtual void where(const Array& condition, const Array& a, const Array& b, const Array& y) = 0;

  // --- Dimensions: many numbers become one (reduce, search) or are processed in order (scan, sort) ---

  // y has size 1 in the reduced dimensions. Any dtype.
  virtual void reduce(const Reduction& op, const Array& x, const Array& y) = 0;
  // grad_x = op.derivative(x, y, grad_y), where y and grad_y are broadcast to x's shape. All arrays have the same
  // dtype.
  virtual void reduce_grad(const Reduction& op, const Array& x, const Array& y, const Array& grad_y,
                           const Array& grad_x) = 0;
  // Finds the largest (or smallest) number along `dim` of x. Writes the number to `values` and its first position to
  // `indices` (i64). Both have size 1 in `dim`.
  virtual void search(bool largest, const Array& x, int dim, const Array& values, const Array& indices) = 0;
  // Each element of y is the sum (or product) of the elements of x from the beginning of `dim` up to that position, or
  // from the end of `dim` if `reversed`. y's dtype is floating or i64.
  virtual void scan(Scan op, const Array& x, int dim, bool reversed, const Array& y) = 0;
  // Writes the first k numbers of each sorted row of x (rows, n). Equal numbers keep the order of their positions, and
  // a NaN counts as the largest number. values and indices (i64) are (rows, k). All arrays are dense.
  virtual void sort(const Array& x, bool descending, std::int64_t k, const Array& values, const Array& indices) = 0;

  // --- Matrices: products, single or batched ---

  // y (M, N) = a (M, K) b (K, N) [+ bias (N)], or the same for a batch: y (B, M, N), a (B, M, K), b (B, K, N). No array
  // is empty. a and b may have any strides; a batch stride of 0 means that the whole batch shares one matrix. y's
  // matrices are row-major. bias is f32 if y is 16-bit.
  virtual void matmul(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y) = 0;
  // y (M, N) = a (M, K) b (K, N), and row_sums (M) = the sum of each row of a. y is row-major; row_sums is dense and
  // has y's dtype. Returns false without doing anything if the device has no code that computes both at once.
  virtual bool matmul_with_row_sums(const Array& /*a*/, const Array& /*b*/, const Array& /*y*/,
                                    const Array& /*row_sums*/) {
    return false;
  }

  // --- Attention, in separate steps that store all weights ---

  // weights (..., L, S) = softmax over S of scores * scale + mask. scores and weights are dense and may be the same
  // memory. A row that the mask excludes entirely becomes 0.
  virtual void attention_weights(const Array& scores, const AttentionMask& mask, double scale,
                                 const Array& weights) = 0;
  // grad_scores = scale * weights * (grad - sum of weights * grad over S).
  virtual void attention_weights_grad(const Array& weights, const Array& grad, double scale,
                                      const Array& grad_scores) = 0;

  // --- Images: convolutions, pooling, resizing, and their gradients ---

  // x (N, C, H, W), weight (O, C / groups, KH, KW) row-major, bias (O), y (N, O, OH, OW). weight and bias may be f32
  // even if x and y are 16-bit: the implementation converts them when it packs them.
  virtual void conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
                      const Array& y) = 0;
  virtual void conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window,
                                 const Array& grad_x) = 0;
  virtual void conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window, const Array& grad_weight,
                                  const std::optional<Array>& grad_bias) = 0;
  // Computes all gradients in one pass. The gradient of x is written to grad_x, or added to it if `add`. Returns false
  // without doing anything if the gradients share no work.
  virtual bool conv2d_grads(const Array& /*x*/, const Array& /*grad_y*/, const Array& /*weight*/,
                            const Window& /*window*/, bool /*add*/, const Array& /*grad_x*/,
                            const Array& /*grad_weight*/, const std::optional<Array>& /*grad_bias*/) {
    return false;
  }

  // `index` has y's shape and says which element of the window was the maximum. Elements are counted in row-major
  // order, and the first of equal elements counts. Its dtype is u8, or i32 if windows have more than 256 elements.
  virtual void max_pool2d(const Array& x, const Pooling& pooling, const Array& y, const Array& index) = 0;
  virtual void max_pool2d_grad(const Array& grad_y, const Array& index, const Pooling& pooling,
                               const Array& grad_x) = 0;
  virtual void avg_pool2d(const Array& x, const Pooling& pooling, const Array& y) = 0;
  virtual void avg_pool2d_grad(const Array& grad_y, const Pooling& pooling, const Array& grad_x) = 0;

  // y is x (N, C, H, W) resized to another height and width. The nearest mode also accepts u8.
  virtual void resize(const Array& x, const Resize& how, const Array& y) = 0;
  virtual void resize_grad(const Array& grad_y, const Resize& how, const Array& grad_x) = 0;

  // --- Normalisation: over a batch, or sample by sample ---

  // Batch normalisation in training mode, in phases, so the caller can combine the statistics of several ranks in
  // between. core/ops/norm.h has the formulas of all phases.
  //
  // batch_norm_stats computes for each channel the mean (C), m2 (C), which is the sum of squared deviations from the
  // mean, and the count () of values in a channel. If these are the statistics of the whole batch, the caller passes
  // `update`, which is applied at once. Otherwise `update` is null, and the caller then calls batch_norm_combine. It
  // merges the statistics of all ranks and applies the update. Each row of `parts` (ranks, 2 * C + 1) contains a rank's
  // mean, m2 and count.
  virtual void batch_norm_stats(const Array& x, const Array& mean, const Array& m2, const Array& count,
                                const BatchNormUpdate* update) = 0;
  virtual void batch_norm_combine(const Array& parts, const Array& mean, const Array& m2, const Array& count,
                                  const BatchNormUpdate& update) = 0;
  // y = pool(relu((x - mean) * invstd * weight + bias + addend)). addend has x's shape, or is null; it is always null
  // when pooling. When pooling, `selected` (of y's shape) receives the x that produced each maximum, and `index` (u8)
  // the position of that x in its window, or 255 if ReLU zeroed it.
  virtual void batch_norm_apply(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                const Array* addend, const Array& y, const Array& selected, const Array& index) = 0;
  // sum_dy (C): the sum of the gradients dy at the normalised value, after undoing pooling and ReLU. sum_dy_xhat (C):
  // the sum of dy * (x - mean) * invstd. x is `selected` when pooling. If a ReLU follows an addend, `last` is not null
  // and `fusion` has no ReLU.
  virtual void batch_norm_grad_reduce(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                      const Array& grad_y, const BatchNormLastRelu* last, const Array& sum_dy,
                                      const Array& sum_dy_xhat) = 0;
  // Computes grad_x from the two sums above and the count (), all three summed over all ranks. count is null if mean
  // and invstd are running statistics, which do not depend on x. grad_x may be x itself.
  virtual void batch_norm_grad_input(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                     const Array& grad_y, const Array& index, const Array& sum_dy,
                                     const Array& sum_dy_xhat, const Array* count, const Array& grad_x) = 0;

  // x, y and their gradients are dense, in the layout that `how` describes. weight and bias are (channels) or null;
  // mean and rstd are (samples, groups). These four are f32, or f64 for f64 x. grad_x, grad_weight and grad_bias may be
  // null.
  virtual void group_norm(const GroupNorm& how, const Array& x, const Array* weight, const Array* bias, const Array& y,
                          const Array& mean, const Array& rstd) = 0;
  virtual void group_norm_grad(const GroupNorm& how, const Array& x, const Array* weight, const Array& mean,
                               const Array& rstd, const Array& grad_y, const Array* grad_x, const Array* grad_weight,
                               const Array* grad_bias) = 0;

  // --- Losses: softmax, and functions that compare a prediction with its target ---

  // x and y are row-major (before, n, after), and the softmax runs over n. `logarithm`: y is the logarithm of the
  // softmax.
  virtual void softmax(bool logarithm, const Array& x, const Array& y) = 0;
  virtual void softmax_grad(bool logarithm, const Array& y, const Array& grad_y, const Array& grad_x) = 0;

  // x is row-major (before, classes, after). A row consists of all classes at one position of (before, after). target
  // (before, after) is i64. loss is also (before, after), or () if it is reduced. weight (classes) may be null. loss,
  // weight and sums are f32, or f64 for f64 x.
  //
  // Two outputs are for the gradient. sums (2, rows) contains the highest number of each row and the logarithm of the
  // row's sum of exp(x - highest); its contents are undefined for log probabilities. total_weight () is the divisor of
  // a mean.
  //
  // Returns the first row whose target is neither in [0, classes) nor ignored, or -1. A device that runs work later
  // returns -1, and its next download or synchronize throws an Error.
  virtual std::int64_t cross_entropy(const ClassLoss& how, const Array& x, const Array& target, const Array* weight,
                                     const Array& loss, const Array& sums, const Array& total_weight) = 0;
  virtual void cross_entropy_grad(const ClassLoss& how, const Array& x, const Array& target, const Array* weight,
                                  const Array& sums, const Array& total_weight, const Array& grad_loss,
                                  const Array& grad_x) = 0;

  // All arrays are dense in the same order. y has x's shape, or is (): the sum of all losses times `scale`.
  virtual void pair_loss(const PairLoss& loss, const Array& x, const Array& target, double scale, const Array& y) = 0;
  // grad = grad_y * scale * d(loss)/d(operand), where operand 0 is x and operand 1 the target. grad_y has x's shape or
  // is ().
  virtual void pair_loss_grad(const PairLoss& loss, int operand, const Array& x, const Array& target,
                              const Array& grad_y, double scale, const Array& grad) = 0;

  // --- Dropout: zeros at random positions ---

  // y = x / (1 - p) if the random number of the position (core/random/dropout_mask.h) is p or more, otherwise 0. x and
  // y are dense.
  virtual void dropout(const Array& x, const DropoutKey& key, double p, const Array& y) = 0;
  // Writes the number of a key to `stored`, after all work that was started earlier.
  virtual void write_dropout_key(std::uint64_t number, const Array& stored) = 0;

  // --- Positions: elements that indices or masks select ---

  // Copies the rows of `rows` (R, ...) that `index` (N) i64 selects to out (N, ...). A row is a dense run of numbers,
  // in the same order in both arrays. Returns the first position whose index is outside [0, R), or -1, like
  // cross_entropy.
  virtual std::int64_t gather_rows(const Array& rows, const Array& index, const Array& out) = 0;
  // Like gather_rows, from bytes (u8) to f32: (byte / 255 - mean) / std.
  virtual std::int64_t gather_normalized(const Array& rows, const Array& index, float mean, float std,
                                         const Array& out) = 0;

  // gather:   y[.., i, ..] = x[.., index[.., i, ..], ..]
  // scatter:  y[.., index[.., i, ..], ..] = source[.., i, ..], or += if `add`
  // Here i is the position in dimension `dim`. The indexed array (x of gather, y of scatter) has the shape of `index`
  // except in `dim`; the other array has exactly the shape of `index`. `index` is i64. It is contiguous, or a
  // contiguous (N) along `dim` that stride 0 repeats over the other dimensions. Adding supports f32, f64, i64 and i32.
  //
  // Returns the position in memory of an index that is out of range for `dim` (on the CPU, the first such position), or
  // -1, like cross_entropy. `operation` names the caller in the Error of a device that detects the bad index later. The
  // text must live as long as the program.
  virtual std::int64_t gather(const Array& x, int dim, const Array& index, const char* operation, const Array& y) = 0;
  virtual std::int64_t scatter(const Array& source, int dim, const Array& index, bool add, const char* operation,
                               const Array& y) = 0;

  // y (B, M, N) = x where column - row is at least `diagonal` (keep_upper) or at most `diagonal` (not keep_upper), and
  // 0 elsewhere.
  virtual void triangle(const Array& x, std::int64_t diagonal, bool keep_upper, const Array& y) = 0;
  // Find the positions at which `mask` (n), which is bool and dense, is true. This takes two calls, because the caller
  // needs the first to learn how many positions there are. count_true fills `before` (chunks + 1), i64, with the number
  // of true elements before each chunk of mask_chunk elements and, as its last element, in the whole mask.
  // true_positions fills `y` (count, shape.ndim()), i64, with the positions, where the n elements fill `shape` in
  // row-major order.
  //
  // On a GPU, one block of 256 threads processes a chunk of 4096, with 16 elements per thread (core/cuda/mask.cu).
  static constexpr std::int64_t mask_chunk = 4096;
  virtual void count_true(const Array& mask, const Array& before) = 0;
  virtual void true_positions(const Array& mask, const Array& before, const Shape& shape, const Array& y) = 0;

  // --- Optimizers: the changes of a step to parameters and their state ---

  // Applies one rule to all segments in one pass. If `stored` is not null, a GPU reads the numbers of the rule from it,
  // where write_rule wrote them. A recorded pass then uses the numbers that are written there later.
  virtual void update(std::span<const UpdateSegment> segments, const UpdateRule& rule,
                      const void* stored = nullptr) = 0;
  // norm () f32 = (sum of |x|^p)^(1/p) over the numbers of all segments, for p > 0; for an infinite p, the largest |x|.
  // If any number is NaN, the norm is NaN.
  virtual void segments_norm(std::span<const Segment> segments, double p, const Array& norm) = 0;
  // Writes a rule's numbers to `to`, memory of this device with room for an UpdateRule, after all work that was started
  // earlier.
  virtual void write_rule(const UpdateRule& rule, void* to) = 0;
};

// Returns the implementation for `device` and makes it this thread's current device. Throws an Error if this build has
// no implementation for it.
Backend& backend(Device device);

}  // namespace tandem
