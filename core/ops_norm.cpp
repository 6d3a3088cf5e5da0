#include <tandem/core/ops_norm.h>

namespace tandem::ops {

namespace {

void check_image(const Array& x) {
  TANDEM_CHECK(x.rank() == 4, "batch_norm: input must be (N, C, H, W), got ", x.shape());
  TANDEM_CHECK(is_floating(x.dtype()), "batch_norm: input must be floating, got ", x.dtype());
  TANDEM_CHECK(x.dim(1) > 0, "batch_norm: input ", x.shape(), " has no channels");
}

DType statistics_dtype(const Array& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }

// Calls f with the running statistics as the back-ends want them.
template <class F>
void with_dense(BatchNormUpdate& update, const Array& like, F f) {
  TANDEM_CHECK(update.running_mean.device() == like.device() && update.running_var.device() == like.device(),
               "batch_norm: input is on ", like.device(), ", running statistics on ",
               update.running_mean.device());
  BatchNormUpdate there = update;
  there.running_mean = update.running_mean.to(like.dtype()).contiguous();
  there.running_var = update.running_var.to(like.dtype()).contiguous();
  there.invstd = update.invstd = Array::empty(like.shape(), like.dtype(), like.device());
  f(there);
  if (update.num_batches.defined()) update.num_batches.storage()->written_by("batch_norm");
  const auto write_back = [](Array& to, const Array& from) {
    if (to.storage() == from.storage()) to.storage()->written_by("batch_norm");
    else to.copy_from(from);
  };
  write_back(update.running_mean, there.running_mean);
  write_back(update.running_var, there.running_var);
}

BatchNormAffine dense(const BatchNormAffine& a) {
  return {a.mean.contiguous(), a.invstd.contiguous(), a.weight.contiguous(), a.bias.contiguous()};
}

}  // namespace

BatchNormStats batch_norm_stats(const Array& x, BatchNormUpdate* update) {
  check_image(x);
  const Shape channels{x.dim(1)};
  const BatchNormStats stats{Array::empty(channels, statistics_dtype(x), x.device()),
                             Array::empty(channels, statistics_dtype(x), x.device()),
                             Array::empty({}, statistics_dtype(x), x.device())};
  const auto compute = [&](const BatchNormUpdate* dense) {
    backend(x.device()).batch_norm_stats(x.channels_last(), stats.mean, stats.m2, stats.count, dense);
  };
  if (update) with_dense(*update, stats.mean, [&](const BatchNormUpdate& dense) { compute(&dense); });
  else compute(nullptr);
  return stats;
}

void batch_norm_update(const BatchNormStats& stats, BatchNormUpdate& update) {
  with_dense(update, stats.mean, [&](const BatchNormUpdate& dense) {
    backend(stats.mean.device())
        .batch_norm_update(stats.mean.contiguous(), stats.m2.contiguous(), stats.count, dense);
  });
}

BatchNormOutput batch_norm_apply(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion) {
  check_image(x);
  for (const Array* a : {&affine.mean, &affine.invstd, &affine.weight, &affine.bias})
    TANDEM_CHECK(a->shape() == Shape{x.dim(1)} && a->dtype() == statistics_dtype(x), "batch_norm: input ",
                 x.shape(), ' ', x.dtype(), " wants mean, variance, weight and bias of shape (", x.dim(1),
                 ") and dtype ", statistics_dtype(x), ", got ", a->shape(), ' ', a->dtype());
  Shape shape = x.shape();
  BatchNormOutput out;
  if (fusion.max_pool_2x2) {
    TANDEM_CHECK(x.dim(2) >= 2 && x.dim(3) >= 2, "batch_norm: input ", x.shape(),
                 " is too small for 2 x 2 max pooling");
    shape = Shape{x.dim(0), x.dim(1), x.dim(2) / 2, x.dim(3) / 2};
    out.selected = Array::empty_channels_last(shape, x.dtype(), x.device());
    out.index = Array::empty_channels_last(shape, DType::u8, x.device());
  }
  out.y = Array::empty_channels_last(shape, x.dtype(), x.device());
  backend(x.device())
      .batch_norm_apply(x.channels_last(), dense(affine), fusion, out.y, out.selected, out.index);
  return out;
}

BatchNormSums batch_norm_grad_reduce(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                     const Array& grad_y) {
  const Shape channels{x.dim(1)};
  BatchNormSums sums{Array::empty(channels, statistics_dtype(x), x.device()),
                     Array::empty(channels, statistics_dtype(x), x.device())};
  backend(x.device())
      .batch_norm_grad_reduce(x.channels_last(), dense(affine), fusion, grad_y.channels_last(), sums.dy,
                              sums.dy_xhat);
  return sums;
}

Array batch_norm_grad_input(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                            const Array& grad_y, const Array& index, const BatchNormSums& sums,
                            const std::optional<Array>& count, bool in_place) {
  const Array grad_x =
      in_place && x.is_channels_last() ? x : Array::empty_channels_last(x.shape(), x.dtype(), x.device());
  backend(x.device())
      .batch_norm_grad_input(x.channels_last(), dense(affine), fusion, grad_y.channels_last(), index,
                             sums.dy.contiguous(), sums.dy_xhat.contiguous(), count ? &*count : nullptr,
                             grad_x);
  return grad_x;
}

}  // namespace tandem::ops
