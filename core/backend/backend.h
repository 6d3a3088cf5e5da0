// Backend: what a device must be able to compute. Each kind of device has one implementation: core/cpu/, core/cuda/.
//
// The callers in core/ops/ check shapes, dtypes and devices, and allocate the outputs. An implementation therefore
// receives views that fit, and only computes. `const Array&` is a handle: outputs come last among the arguments and are
// written through it. Four-dimensional inputs and outputs of the spatial operations are channels last.
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
#include <tandem/core/formulas/recurrent_cell.h>
#include <tandem/core/formulas/reductions.h>
#include <tandem/core/formulas/resize.h>
#include <tandem/core/formulas/scans.h>
#include <tandem/core/formulas/segments_norm.h>
#include <tandem/core/formulas/update_rules.h>
#include <tandem/core/formulas/window.h>

#include <optional>
#include <span>

namespace tandem {

// The functions are grouped by what they do. core/backend/backend_overrides.inc repeats them for the back-ends and
// names the files that implement them.
class Backend : public DeviceMemory {
 public:
  // --- Elements: each number of the output is computed from the numbers at the same place of the inputs ---

  // All arrays of this group may have any strides.
  // y = the parts, one after the other along `dim`, converted to y's dtype. Returns false, and has done nothing, where
  // copying the parts one by one is as fast. y is row-major.
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

  // --- Dimensions: many numbers become one (reduce, search), or are seen in order (scan, sort) ---

  // y has size 1 in the dimensions that are reduced. Any dtype.
  virtual void reduce(const Reduction& op, const Array& x, const Array& y) = 0;
  // grad_x = op.derivative(x, y, grad_y), where y and grad_y are broadcast to x's shape. All arrays have one dtype.
  virtual void reduce_grad(const Reduction& op, const Array& x, const Array& y, const Array& grad_y,
                           const Array& grad_x) = 0;
  // Finds the largest (or smallest) number along `dim` of x. `values` receives the number and `indices` (i64) its first
  // position; both have size 1 in `dim`.
  virtual void search(bool largest, const Array& x, int dim, const Array& values, const Array& indices) = 0;
  // y holds the sum (or product) of the elements of x from the beginning of `dim` up to each element, or from the end
  // of `dim` where `reversed`. y's dtype is floating or i64.
  virtual void scan(Scan op, const Array& x, int dim, bool reversed, const Array& y) = 0;
  // The first k numbers of each sorted row of x (rows, n). Equal numbers keep the order of their positions, and a NaN
  // counts as the largest number. values and indices (i64) are (rows, k). All arrays are dense.
  virtual void sort(const Array& x, bool descending, std::int64_t k, const Array& values, const Array& indices) = 0;

  // --- Matrices: products, alone or in batches ---

  // y (M, N) = a (M, K) b (K, N) [+ bias (N)], or the same for a batch: y (B, M, N), a (B, M, K), b (B, K, N). No array
  // is empty. a and b may have any strides; a batch stride of 0 means that there is one matrix for the whole batch. y's
  // matrices are row-major. bias is f32 where y is 16-bit.
  virtual void matmul(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y) = 0;
  // y (M, N) = a (M, K) b (K, N), and row_sums (M) = the sum of each row of a. y is row-major, row_sums is dense and
  // has y's dtype. Returns false, and has done nothing, where the device has no code that does both at once.
  virtual bool matmul_with_row_sums(const Array& /*a*/, const Array& /*b*/, const Array& /*y*/,
                                    const Array& /*row_sums*/) {
    return false;
  }

  // --- Attention, in separate steps that hold all weights ---

  // weights (..., L, S) = softmax over S of scores * scale + mask. scores and weights are dense and may be the same
  // memory. A row of which the mask leaves nothing becomes 0.
  virtual void attention_weights(const Array& scores, const AttentionMask& mask, double scale,
                                 const Array& weights) = 0;
  // grad_scores = scale * weights * (grad - sum of weights * grad over S).
  virtual void attention_weights_grad(const Array& weights, const Array& grad, double scale,
                                      const Array& grad_scores) = 0;

  // --- Recurrent layers: what a step does beside its matrix products ---

  // One step of N sequences with H units (core/formulas/recurrent.h). from_x and from_h are (N, G * H), bias (G * H) or
  // null, kept (N, K * H); before and after are (S, N, H), each of whose parts is dense. All have one floating dtype.
  virtual void recurrent_step(RecurrentCell cell, const Array& from_x, const Array& from_h, const Array* bias,
                              const Array& before, const Array& after, const Array& kept) = 0;
  // The gradient of that step. grad_after (S, N, H) is the gradient of `after` from outside, with the strides of
  // `after`; grad_h_of_next (N, H) is what came to h through the gates of the step that followed, or null. carried (S,
  // N, H) is what came past those gates, and receives what goes past the gates of this step. grad_x and grad_h are (N,
  // G * H), and one array where the cell only adds.
  virtual void recurrent_step_grad(RecurrentCell cell, const Array& kept, const Array& before, const Array& after,
                                   const Array& grad_after, const Array* grad_h_of_next, const Array& carried,
                                   const Array& grad_x, const Array& grad_h) = 0;

  // --- Images: convolutions, pooling, resizing, and their gradients ---

  // x (N, C, H, W), weight (O, C / groups, KH, KW) row-major, bias (O), y (N, O, OH, OW). weight and bias may be f32
  // while x and y are 16-bit: the implementation converts them as it packs them.
  virtual void conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
                      const Array& y) = 0;
  virtual void conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window,
                                 const Array& grad_x) = 0;
  virtual void conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window, const Array& grad_weight,
                                  const std::optional<Array>& grad_bias) = 0;
  // All gradients in one pass. That of x is written to grad_x, or added to what is there. Returns false, and has done
  // nothing, where the gradients share no work.
  virtual bool conv2d_grads(const Array& /*x*/, const Array& /*grad_y*/, const Array& /*weight*/,
                            const Window& /*window*/, bool /*add*/, const Array& /*grad_x*/,
                            const Array& /*grad_weight*/, const std::optional<Array>& /*grad_bias*/) {
    return false;
  }

  // `index` has y's shape and says which element of the window was the maximum: elements count row by row, and of equal
  // ones the first is taken. Its dtype is u8, or i32 where windows have more than 256 elements.
  virtual void max_pool2d(const Array& x, const Pooling& pooling, const Array& y, const Array& index) = 0;
  virtual void max_pool2d_grad(const Array& grad_y, const Array& index, const Pooling& pooling,
                               const Array& grad_x) = 0;
  virtual void avg_pool2d(const Array& x, const Pooling& pooling, const Array& y) = 0;
  virtual void avg_pool2d_grad(const Array& grad_y, const Pooling& pooling, const Array& grad_x) = 0;

  // y is x (N, C, H, W) in another height and width. The nearest mode also takes u8.
  virtual void resize(const Array& x, const Resize& how, const Array& y) = 0;
  virtual void resize_grad(const Array& grad_y, const Resize& how, const Array& grad_x) = 0;

  // --- Normalisation: over a batch, or sample by sample ---

  // Training-mode batch normalisation, in phases, so that the statistics of several ranks can be combined in between.
  // The formulas of all phases stand in core/ops/norm.h.
  //
  // Computes for each channel the mean (C), the sum of squared deviations from it, m2 (C), and the count () of values
  // in a channel. When these are the statistics of the whole batch, `update` is given and applied at once. Otherwise
  // `update` is null, and batch_norm_combine follows. It merges the statistics of the rows of `parts` (ranks, 2 * C +
  // 1), each of which is a mean, an m2 and a count one after the other, and applies the update.
  virtual void batch_norm_stats(const Array& x, const Array& mean, const Array& m2, const Array& count,
                                const BatchNormUpdate* update) = 0;
  virtual void batch_norm_combine(const Array& parts, const Array& mean, const Array& m2, const Array& count,
                                  const BatchNormUpdate& update) = 0;
  // y = pool(relu((x - mean) * invstd * weight + bias + addend)). addend has x's shape, or is null; it is always null
  // when pooling. When pooling, `selected` (of y's shape) receives the x behind each maximum, and `index` (u8) the
  // place of that x in its window, or 255 where ReLU stopped it.
  virtual void batch_norm_apply(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                const Array* addend, const Array& y, const Array& selected, const Array& index) = 0;
  // sum_dy (C): the sum of the gradients dy that arrive at the normalised value, after pooling and ReLU were undone.
  // sum_dy_xhat (C): the sum of dy * (x - mean) * invstd. x is `selected` when pooling. Where a ReLU stands behind an
  // addend, `last` is given and `fusion` has no ReLU.
  virtual void batch_norm_grad_reduce(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                      const Array& grad_y, const BatchNormLastRelu* last, const Array& sum_dy,
                                      const Array& sum_dy_xhat) = 0;
  // grad_x from the two sums above and the count (), all three taken over all ranks. count is null where mean and
  // invstd are running statistics, which do not depend on x. grad_x may be x itself.
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

  // --- Losses: softmax, and what compares a prediction with its target ---

  // x and y are row-major (before, n, after), and the softmax runs over n. `logarithm`: y is the logarithm of the
  // softmax.
  virtual void softmax(bool logarithm, const Array& x, const Array& y) = 0;
  virtual void softmax_grad(bool logarithm, const Array& y, const Array& grad_y, const Array& grad_x) = 0;

  // x is row-major (before, classes, after). A row is the classes at one place of (before, after). target (before,
  // after) is i64. loss is (before, after) too, or () when it is reduced. weight (classes) may be null. loss, weight
  // and sums are f32, or f64 for f64 x.
  //
  // Two outputs are for the gradient. sums (2, rows) holds the highest number of each row and the logarithm of the
  // row's sum of exp(x - highest); it stays undefined for log probabilities. total_weight () is what a mean divides by.
  //
  // Returns the first row whose target is neither in [0, classes) nor ignored, or -1. A device whose work runs later
  // returns -1, and its next download or synchronize throws.
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

  // --- Dropout: zeros in random places ---

  // y = x / (1 - p) where the random number of the place (core/random/dropout_mask.h) is p or more, and 0 elsewhere. x
  // and y are dense.
  virtual void dropout(const Array& x, const DropoutKey& key, double p, const Array& y) = 0;
  // Writes the number of a key to `stored`, after all work that was asked for before.
  virtual void write_dropout_key(std::uint64_t number, const Array& stored) = 0;

  // --- Positions: elements that indices or masks choose ---

  // out (N, ...) receives the rows of `rows` (R, ...) that `index` (N) i64 names. A row is a dense run of numbers, in
  // the same order in both arrays. Returns the first position whose index is outside of [0, R), or -1, as cross_entropy
  // does.
  virtual std::int64_t gather_rows(const Array& rows, const Array& index, const Array& out) = 0;
  // As gather_rows, from bytes (u8) to f32: (byte / 255 - mean) / std.
  virtual std::int64_t gather_normalized(const Array& rows, const Array& index, float mean, float std,
                                         const Array& out) = 0;

  // gather:   y[.., i, ..] = x[.., index[.., i, ..], ..]
  // scatter:  y[.., index[.., i, ..], ..] = source[.., i, ..], or += where `add`
  // Here i is the place in dimension `dim`. The array that is indexed (x of gather, y of scatter) has the shape of
  // `index` except in `dim`; the other one has exactly the shape of `index`. `index` is i64. It is contiguous, or a
  // contiguous (N) along `dim` that stride 0 repeats over the other dimensions. Adding takes f32, f64, i64 and i32.
  //
  // Returns the position in memory of an index that is out of range for `dim` (on the CPU the first such position), or
  // -1, as cross_entropy does. `operation` names the caller, in the error of a device that finds the
  // bad index later. It lives as long as the program.
  virtual std::int64_t gather(const Array& x, int dim, const Array& index, const char* operation, const Array& y) = 0;
  virtual std::int64_t scatter(const Array& source, int dim, const Array& index, bool add, const char* operation,
                               const Array& y) = 0;

  // y (B, M, N) = x where column - row is at least `diagonal` (keep_upper) or at most `diagonal` (not keep_upper), and
  // 0 elsewhere.
  virtual void triangle(const Array& x, std::int64_t diagonal, bool keep_upper, const Array& y) = 0;
  // The places where `mask` (n), which is bool and dense, is true. This takes two calls, because the caller learns only
  // from the first how many there are. count_true fills `before` (chunks + 1), i64, with the number of true elements
  // before each chunk of mask_chunk elements and, last, in the whole mask. true_positions fills `y` (count,
  // shape.ndim()), i64, with their places, where the n elements fill `shape` in row-major order.
  //
  // A chunk of 4096 is what one block of 256 threads on a GPU goes over with 16 elements for each thread
  // (core/cuda/mask.cu).
  static constexpr std::int64_t mask_chunk = 4096;
  virtual void count_true(const Array& mask, const Array& before) = 0;
  virtual void true_positions(const Array& mask, const Array& before, const Shape& shape, const Array& y) = 0;

  // --- Optimizers: what a step does to parameters and their state ---

  // Applies one rule to all segments in one pass. If `stored` is given, a GPU takes the rule's numbers from there,
  // where write_rule put them: a recorded pass then follows what is written there later.
  virtual void update(std::span<const UpdateSegment> segments, const UpdateRule& rule,
                      const void* stored = nullptr) = 0;
  // norm () f32 = (sum of |x|^p)^(1/p) over the numbers of all segments, for p > 0; for an infinite p, the largest |x|.
  // A NaN among the numbers makes the norm NaN.
  virtual void segments_norm(std::span<const Segment> segments, double p, const Array& norm) = 0;
  // Writes a rule's numbers to `to`, memory of this device with room for an UpdateRule, after all work that was asked
  // for before.
  virtual void write_rule(const UpdateRule& rule, void* to) = 0;
};

// The implementation for a device. This thread's calls go to that device from then on. Error when this build has no
// implementation for it.
Backend& backend(Device device);

}  // namespace tandem
