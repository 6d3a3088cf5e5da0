// The CPU: Eigen for small linear algebra, oneDNN for convolutions, own loops (vectorised by the compiler, spread over
// OpenMP threads) for the rest. Every file here implements one family of operations.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/device/backend.h>
#include <tandem/core/ops/attention.h>
#include <tandem/core/ops/norm.h>

namespace tandem {

class CpuBackend final : public Backend {
 public:
  // allocator.cpp
  void* allocate(std::size_t bytes) override;
  void deallocate(void* data, std::size_t bytes) override;
  MemoryStats memory_stats() const override;
  void upload(const void* host, void* data, std::size_t bytes) override;
  void download(const void* data, void* host, std::size_t bytes) override;
  void synchronize() override {}

  // elementwise.cpp
  void copy(const Array& from, const Array& to) override;
  bool cat(std::span<const Array> parts, int dim, const Array& y) override;
  void fill(const Array& to, double value) override;
  void map(const UnaryOp& op, const Array& x, const Array& y) override;
  void map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y, const Array& grad_x) override;
  void zip(const BinaryOp& op, const Array& a, const Array& b, const Array& y) override;
  void zip_grad(const BinaryOp& op, int operand, const Array& a, const Array& b, const Array& grad_y,
                const Array& grad) override;
  void compare(const CompareOp& op, const Array& a, const Array& b, const Array& y) override;
  void compare(const CompareOp& op, const Array& x, double number, const Array& y) override;
  void where(const Array& condition, const Array& a, const Array& b, const Array& y) override;

  // reduce.cpp
  void reduce(const Reduction& op, const Array& x, const Array& y) override;
  void reduce_grad(const Reduction& op, const Array& x, const Array& y, const Array& grad_y,
                   const Array& grad_x) override;

  // reduce_search.cpp
  void search(bool largest, const Array& x, int dim, const Array* values, const Array* indices) override;

  // scan.cpp
  void scan(Scan op, const Array& x, int dim, bool reversed, const Array& y) override;

  // sort.cpp
  void sort(const Array& x, bool descending, std::int64_t k, const Array& values, const Array& indices) override;

  // matmul.cpp
  void matmul(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y) override;

  // attention.cpp
  void attention_weights(const Array& scores, const AttentionMask& mask, double scale, const Array& weights) override;
  void attention_weights_grad(const Array& weights, const Array& grad, double scale, const Array& grad_scores) override;
  bool attention(const AttentionInputs& in, const Array& y, const Array& log_sum) override;
  void attention_grad(const AttentionInputs& in, const Array& y, const Array& log_sum, const Array& grad_y,
                      const AttentionGradients& grad) override;

  // conv2d.cpp
  void conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
              const Array& y) override;
  void conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window, const Array& grad_x) override;
  void conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window, const Array& grad_weight,
                          const std::optional<Array>& grad_bias) override;

  // max_pool2d.cpp
  void max_pool2d(const Array& x, const Pooling& pooling, const Array& y, const Array& index) override;
  void max_pool2d_grad(const Array& grad_y, const Array& index, const Pooling& pooling, const Array& grad_x) override;

  // avg_pool2d.cpp
  void avg_pool2d(const Array& x, const Pooling& pooling, const Array& y) override;
  void avg_pool2d_grad(const Array& grad_y, const Pooling& pooling, const Array& grad_x) override;

  // resize.cpp
  void resize(const Array& x, const Resize& how, const Array& y) override;
  void resize_grad(const Array& grad_y, const Resize& how, const Array& grad_x) override;

  // batch_norm.cpp
  void batch_norm_stats(const Array& x, const Array& mean, const Array& m2, const Array& count,
                        const BatchNormUpdate* update) override;
  void batch_norm_update(const Array& mean, const Array& m2, const Array& count,
                         const BatchNormUpdate& update) override;
  void batch_norm_apply(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion, const Array* addend,
                        const Array& y, const Array& selected, const Array& index) override;
  void batch_norm_grad_reduce(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                              const Array& grad_y, const Array& sum_dy, const Array& sum_dy_xhat) override;
  void batch_norm_grad_input(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion, const Array& grad_y,
                             const Array& index, const Array& sum_dy, const Array& sum_dy_xhat, const Array* count,
                             const Array& grad_x) override;

  // group_norm.cpp
  void group_norm(const GroupNorm& how, const Array& x, const Array* weight, const Array* bias, const Array& y,
                  const Array& mean, const Array& rstd) override;
  void group_norm_grad(const GroupNorm& how, const Array& x, const Array* weight, const Array& mean, const Array& rstd,
                       const Array& grad_y, const Array* grad_x, const Array* grad_weight,
                       const Array* grad_bias) override;

  // softmax.cpp
  void softmax(bool logarithm, const Array& x, const Array& y) override;
  void softmax_grad(bool logarithm, const Array& y, const Array& grad_y, const Array& grad_x) override;

  // loss.cpp
  std::int64_t cross_entropy(const ClassLoss& how, const Array& x, const Array& target, const Array* weight,
                             const Array& loss, const Array& sums, const Array& total_weight) override;
  void cross_entropy_grad(const ClassLoss& how, const Array& x, const Array& target, const Array* weight,
                          const Array& sums, const Array& total_weight, const Array& grad_loss,
                          const Array& grad_x) override;

  // pair_loss.cpp
  void pair_loss(const PairLoss& loss, const Array& x, const Array& target, double scale, const Array& y) override;
  void pair_loss_grad(const PairLoss& loss, int operand, const Array& x, const Array& target, const Array& grad_y,
                      double scale, const Array& grad) override;

  // dropout.cpp
  void dropout(const Array& x, std::uint64_t key, double p, const Array& y) override;

  // gather.cpp
  std::int64_t gather_rows(const Array& rows, const Array& index, const Array& out) override;
  std::int64_t gather_normalized(const Array& rows, const Array& index, float mean, float std,
                                 const Array& out) override;
  std::int64_t gather(const Array& x, int dim, const Array& index, IndexFault::Of of, const Array& y) override;

  // scatter.cpp
  std::int64_t scatter(const Array& source, int dim, const Array& index, bool add, IndexFault::Of of,
                       const Array& y) override;

  // mask.cpp
  void triangle(const Array& x, std::int64_t diagonal, bool keep_upper, const Array& y) override;
  void count_true(const Array& mask, const Array& before) override;
  void true_positions(const Array& mask, const Array& before, const Shape& shape, const Array& y) override;

  // optimizer.cpp
  void update(std::span<const UpdateSegment> segments, const UpdateRule& rule, const void* stored) override;
  void write_rule(const UpdateRule& rule, void* to) override;
  void segments_norm(std::span<const Segment> segments, double p, const Array& norm) override;
};

}  // namespace tandem
