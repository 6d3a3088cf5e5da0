#include <tandem/core/backend/backend.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/image_checks.h>
#include <tandem/core/ops/into.h>
#include <tandem/core/ops/norm.h>

namespace tandem::ops {

namespace {

// Calls f with the running statistics in the form that the back-ends accept: dense, and in the dtype of the statistics.
template <class F>
void with_dense(BatchNormUpdate& update, const Array& like, F f) {
  update.invstd = Array::empty(like.shape(), like.dtype(), like.device());
  if (!update.running_mean.defined()) return f(update);
  BatchNormUpdate there = update;
  there.running_mean = update.running_mean.to(like.dtype()).contiguous();
  there.running_var = update.running_var.to(like.dtype()).contiguous();
  f(there);
  if (update.num_batches.defined()) update.num_batches.storage()->written_by("batch_norm");
  const auto write_back = [](Array& to, const Array& from) {
    if (to.storage() == from.storage()) to.storage()->written_by("batch_norm");
    else to.copy_from(from);
  };
  write_back(update.running_mean, there.running_mean);
  write_back(update.running_var, there.running_var);
}

BatchNormStats unpack_statistics(const Array& packed) {
  const std::int64_t channels = packed.numel() / 2;
  return {packed.slice(0, 0, channels), packed.slice(0, channels, 2 * channels), packed.select(0, 2 * channels),
          packed};
}

BatchNormAffine dense(const BatchNormAffine& a) {
  return {a.mean.contiguous(), a.invstd.contiguous(), a.weight.contiguous(), a.bias.contiguous()};
}

}  // namespace

void check_batch_norm(const Array& x, const BatchNormAffine& affine, const Array& running_mean,
                      const Array& running_var) {
  check_image(x, "batch_norm");
  const auto check = [&](const Array& a, const char* what) {
    if (!a.defined()) return;
    TANDEM_CHECK(a.shape() == Shape{x.dim(1)}, "batch_norm: input ", x.shape(), " needs ", what, " of shape (",
                 x.dim(1), "), got ", a.shape());
    TANDEM_CHECK(a.device() == x.device(), "batch_norm: input is on ", x.device(), ", ", what, " on ", a.device());
  };
  const auto check_dtype = [&](const Array& a, const char* what) {
    check(a, what);
    TANDEM_CHECK(!a.defined() || a.dtype() == compute_dtype(x.dtype()), "batch_norm: for an input of ", x.dtype(), ", ",
                 what, " must be ", compute_dtype(x.dtype()), ", got ", a.dtype());
  };
  check_dtype(affine.mean, "mean");
  check_dtype(affine.invstd, "invstd");
  check_dtype(affine.weight, "weight");
  check_dtype(affine.bias, "bias");
  check(running_mean, "running_mean");
  check(running_var, "running_var");
  TANDEM_CHECK(running_mean.defined() == running_var.defined(),
               "batch_norm: running_mean and running_var must both be defined or both undefined");
}

BatchNormStats batch_norm_stats(const Array& x, BatchNormUpdate* update) {
  check_image(x, "batch_norm");
  const auto stats = unpack_statistics(Array::empty({2 * x.dim(1) + 1}, compute_dtype(x.dtype()), x.device()));
  const auto compute = [&](const BatchNormUpdate* dense) {
    backend(x.device()).batch_norm_stats(x.channels_last(), stats.mean, stats.m2, stats.count, dense);
  };
  if (update) with_dense(*update, stats.mean, [&](const BatchNormUpdate& dense) { compute(&dense); });
  else compute(nullptr);
  return stats;
}

BatchNormStats batch_norm_combine(const Array& parts, BatchNormUpdate& update) {
  TANDEM_CHECK(parts.ndim() == 2 && parts.dim(1) % 2 == 1 && is_floating(parts.dtype()),
               "batch_norm: the statistics of the parts must be floating (ranks, 2 * C + 1), got ", parts.dtype(), ' ',
               parts.shape());
  const auto stats = unpack_statistics(Array::empty({parts.dim(1)}, parts.dtype(), parts.device()));
  with_dense(update, stats.mean, [&](const BatchNormUpdate& dense) {
    backend(parts.device()).batch_norm_combine(parts.contiguous(), stats.mean, stats.m2, stats.count, dense);
  });
  return stats;
}

BatchNormSums unpack_batch_norm_sums(const Array& packed) { return {packed.select(0, 0), packed.select(0, 1), packed}; }

BatchNormOutput batch_norm_apply(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                 const Array& addend) {
  check_batch_norm(x, affine);
  TANDEM_CHECK(!addend.defined() ||
                   (addend.shape() == x.shape() && addend.dtype() == x.dtype() && addend.device() == x.device()),
               "batch_norm: the addend of input ", x.shape(), ' ', x.dtype(), " on ", x.device(),
               " must have the same shape, dtype and device, got ", addend.defined() ? addend.shape() : Shape{}, ' ',
               addend.defined() ? addend.dtype() : DType::f32);
  TANDEM_CHECK(!addend.defined() || !fusion.max_pool_2x2, "batch_norm: an addend can't be combined with max pooling");
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
  const Array more = addend.defined() ? addend.channels_last() : addend;
  backend(x.device())
      .batch_norm_apply(x.channels_last(), dense(affine), fusion, more.defined() ? &more : nullptr, out.y, out.selected,
                        out.index);
  return out;
}

BatchNormSums batch_norm_grad_reduce(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                     const Array& grad_y, const BatchNormLastRelu* last) {
  const auto sums = unpack_batch_norm_sums(Array::empty({2, x.dim(1)}, compute_dtype(x.dtype()), x.device()));
  batch_norm_grad_reduce_into(x, affine, fusion, grad_y, last, sums.dy, sums.dy_xhat);
  return sums;
}

void batch_norm_grad_reduce_into(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                 const Array& grad_y, const BatchNormLastRelu* last, const Array& dy,
                                 const Array& dy_xhat) {
  for (const Array* sum : {&dy, &dy_xhat})
    TANDEM_CHECK(sum->shape() == Shape{x.dim(1)} && sum->dtype() == compute_dtype(x.dtype()) && sum->is_contiguous(),
                 "batch_norm: sums of an input ", x.dtype(), ' ', x.shape(), " can't be written to ", sum->dtype(), ' ',
                 sum->shape());
  backend(x.device())
      .batch_norm_grad_reduce(x.channels_last(), dense(affine), fusion, grad_y.channels_last(), last, dy, dy_xhat);
}

Array batch_norm_grad_input(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion, const Array& grad_y,
                            const Array& index, const BatchNormSums& sums, const std::optional<Array>& count,
                            bool in_place) {
  const Array grad_x =
      in_place && x.is_channels_last() ? x : Array::empty_channels_last(x.shape(), x.dtype(), x.device());
  backend(x.device())
      .batch_norm_grad_input(x.channels_last(), dense(affine), fusion, grad_y.channels_last(), index,
                             sums.dy.contiguous(), sums.dy_xhat.contiguous(), count ? &*count : nullptr, grad_x);
  return grad_x;
}

}  // namespace tandem::ops
